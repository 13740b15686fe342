//! The files for proxies of docs/http.md, as they are written there: TLS, a token, long polls, events.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::client::{Served, wait_until};
use super::languages::program;
use super::tools::are_there;

const TOKEN: &str = "0123456789abcdef";
const AUTHORIZATION: &str = "Authorization: Bearer 0123456789abcdef";
/// How long a call waits for a task.
const WAIT: Duration = Duration::from_secs(300);

/// A proxy before a server.
struct Proxy {
    served: Served,
    folder: TempDir,
    process: Child,
    port: u16,
    /// The certificate that its clients trust.
    trusted: PathBuf,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn end(process: &mut Child) {
    let _may_have_ended = process.kill();
    let _may_have_ended = process.wait();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a proxy is another process, which runs by the clock"
)]
fn now() -> Instant {
    Instant::now()
}

impl Proxy {
    /// Begins a proxy, which `command` describes: its folder, its port, and the address of the server.
    fn begin(trusted: &str, command: impl Fn(&Path, u16, SocketAddr) -> Command) -> Proxy {
        loop {
            let served = Served::with(|options| options.token(TOKEN));
            let folder = tempfile::tempdir().unwrap();
            // Another program may take the port before the proxy does.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let log = File::create(folder.path().join("log")).unwrap();
            let mut command = command(folder.path(), port, served.address());
            let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
            let trusted = folder.path().join(trusted);
            let mut proxy = Proxy { served, folder, process, port, trusted };
            let mut ended = None;
            wait_until(|| {
                ended = proxy.process.try_wait().unwrap();
                ended.is_some() || proxy.answers()
            });
            let Some(status) = ended else { return proxy };
            let log = std::fs::read_to_string(proxy.folder.path().join("log")).unwrap();
            assert!(log.contains("in use"), "{status}: {log}");
        }
    }

    /// Whether it listens, and has its certificate.
    fn answers(&self) -> bool {
        self.trusted.exists() && self.curl("/", &[]).output().unwrap().status.success()
    }

    /// A call through the proxy.
    fn curl(&self, path: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--show-error", "--max-time", "600", "--cacert"])
            .arg(&self.trusted);
        command.args(["--resolve", &format!("localhost:{}:127.0.0.1", self.port)]);
        command.args(arguments).arg(format!("https://localhost:{}{path}", self.port));
        command.env("no_proxy", "*");
        command
    }

    /// A call with the token, and its answer.
    fn call(&self, path: &str, arguments: &[&str]) -> Value {
        let with_token = ["-H", AUTHORIZATION];
        let answer = self.curl(path, &[&with_token[..], arguments].concat()).output().unwrap();
        assert!(answer.status.success(), "{path}: {}", String::from_utf8_lossy(&answer.stderr));
        serde_json::from_slice(&answer.stdout).unwrap()
    }

    /// A call with the token that is not over yet.
    fn begin_call(&self, path: &str, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let with_token = ["--no-buffer", "-H", AUTHORIZATION];
        let mut command = self.curl(path, &[&with_token[..], arguments].concat());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let answer = BufReader::new(process.stdout.take().unwrap());
        (process, answer)
    }

    fn waiting_takes(&self) -> u64 {
        self.served.store.backlog().unwrap()["jobs"].waiting_takes
    }

    /// A task is put, taken and acknowledged, and a call without the token is refused.
    fn check_calls(&self) {
        for protocol in ["--http1.1", "--http2"] {
            let refused = self.curl("/v1/tubes", &[protocol]).output().unwrap();
            let refused: Value = serde_json::from_slice(&refused.stdout).unwrap();
            assert_eq!(refused["kind"], "wrong_token");
            let put = self.call("/v1/tubes/jobs/tasks", &[protocol, "-d", "to: ann"]);
            let taken = self.call("/v1/tubes/jobs/take?hold=60s", &[protocol, "-X", "POST"]);
            assert_eq!(
                (&taken["tasks"][0]["id"], &taken["tasks"][0]["data"]),
                (&put["id"], &"to: ann".into())
            );
            let claim = taken["tasks"][0]["claim"].as_str().unwrap();
            let acked = self.call(&format!("/v1/claims/{claim}/ack"), &[protocol, "-d", "sent"]);
            assert_eq!((&acked["id"], &acked["state"]), (&put["id"], &"done".into()));
        }
    }

    /// A call that waits gets the task that is put, and one whose client has gone waits no longer.
    fn check_long_polls(&self) {
        let jobs = self.served.store.find_tube("jobs").unwrap();
        let take = ("/v1/tubes/jobs/take?wait=300s&hold=60s", ["-X", "POST"]);
        let (mut process, answer) = self.begin_call(take.0, &take.1);
        wait_until(|| self.waiting_takes() == 1);
        let id = jobs.put("later").unwrap().id;
        let taken: Value = serde_json::from_reader(answer).unwrap();
        assert_eq!(taken["tasks"][0]["id"], id);
        assert!(process.wait().unwrap().success());
        let (mut process, _answer) = self.begin_call(take.0, &take.1);
        wait_until(|| self.waiting_takes() == 1);
        end(&mut process);
        let begin = now();
        wait_until(|| self.waiting_takes() == 0);
        // By itself, the call would wait until then.
        assert!(begin.elapsed() < WAIT / 2, "the proxy has not told that the client has gone");
    }

    /// Events come as they happen, and not when the stream ends.
    fn check_events(&self) {
        let (mut process, answer) = self.begin_call("/v1/events?kinds=put", &[]);
        let mut lines = answer.lines().map(Result::unwrap);
        assert!(lines.next().unwrap().starts_with(':'));
        let id = self.served.store.find_tube("jobs").unwrap().put("x").unwrap().id;
        let event = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        let event: Value = serde_json::from_str(&event.unwrap()).unwrap();
        assert_eq!((&event["kind"], &event["id"]), (&"put".into(), &id.into()));
        end(&mut process);
    }

    fn check(&self) {
        self.check_calls();
        self.check_long_polls();
        self.check_events();
    }
}

/// Makes a certificate for `localhost` and its key.
fn certify(folder: &Path) {
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
        .args(["-keyout", "queue.key", "-out", "queue.crt", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// The text with all these parts replaced, each of which it has.
fn replaced(text: &str, parts: &[(&str, &str)]) -> String {
    parts.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

fn nginx(folder: &Path, port: u16, server: SocketAddr) -> Command {
    certify(folder);
    let at = |name: &str| folder.join(name).display().to_string();
    let site = replaced(
        program("nginx"),
        &[
            ("listen 443 ", &format!("listen 127.0.0.1:{port} ")),
            ("queue.example.com", "localhost"),
            ("/etc/ssl/certs/queue.crt", &at("queue.crt")),
            ("/etc/ssl/private/queue.key", &at("queue.key")),
            ("127.0.0.1:11380", &server.to_string()),
        ],
    );
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|kind| format!("{kind}_temp_path {};\n", at(kind))).concat();
    let whole = format!(
        "daemon off; master_process off; pid {}; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{folders}{site}}}\n",
        at("pid")
    );
    std::fs::write(folder.join("nginx.conf"), whole).unwrap();
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-p"]).arg(folder).arg("-c").arg(folder.join("nginx.conf"));
    command
}

fn caddy(folder: &Path, port: u16, server: SocketAddr) -> Command {
    let site = replaced(
        program("caddy"),
        &[
            // For this name, Caddy makes a certificate without asking elsewhere.
            ("queue.example.com", &format!("https://localhost:{port}")),
            ("127.0.0.1:11380", &server.to_string()),
        ],
    );
    let options = "{\nadmin off\nauto_https disable_redirects\nskip_install_trust\n}\n";
    std::fs::write(folder.join("Caddyfile"), format!("{options}{site}")).unwrap();
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
    command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
    command
}

#[test]
fn nginx_with_the_file_of_the_document_passes_on_calls_long_polls_and_events() {
    if are_there("the proxy nginx", &["nginx", "curl", "openssl"]) {
        Proxy::begin("queue.crt", nginx).check();
    }
}

#[test]
fn caddy_with_the_file_of_the_document_passes_on_calls_long_polls_and_events() {
    if are_there("the proxy Caddy", &["caddy", "curl"]) {
        Proxy::begin("caddy/pki/authorities/local/root.crt", caddy).check();
    }
}
