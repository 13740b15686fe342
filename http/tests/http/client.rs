//! A client of HTTP/1.1, which also sends what a proper one would not.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use tubewell::{Store, TubeOptions};
use tubewell_http::{HttpOptions, HttpServer, serve};

use super::patience::HANGS_AFTER;

/// How long an answer may take, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so. Nothing tells when.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "other processes and threads run by the clock")]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < HANGS_AFTER, "waited for too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A store in memory with the tube `jobs`, and its server.
pub struct Served {
    pub store: Store,
    server: Option<HttpServer>,
}

impl Served {
    pub fn new() -> Served {
        Served::with(|options| options)
    }

    pub fn with(change: impl FnOnce(HttpOptions) -> HttpOptions) -> Served {
        Served::of(Store::in_memory().unwrap(), change)
    }

    /// A store that has no tube `jobs` yet.
    pub fn of(store: Store, change: impl FnOnce(HttpOptions) -> HttpOptions) -> Served {
        store.create_tube("jobs", TubeOptions::new().keep_done(tubewell::Keep::new())).unwrap();
        let server = serve(&store, change(HttpOptions::new("127.0.0.1:0"))).unwrap();
        Served { store, server: Some(server) }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    pub fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }

    pub fn client(&self) -> Client {
        Client::to(self.address())
    }

    /// Makes one call.
    pub fn call(&self, method: &str, path: &str, headers: &[&str], content: &[u8]) -> Answer {
        self.client().call(method, path, headers, content)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, content: &str) -> Answer {
        self.call("POST", path, &[], content.as_bytes())
    }

    pub fn json(&self, method: &str, path: &str, content: &Value) -> Answer {
        let headers = ["Content-Type: application/json"];
        self.call(method, path, &headers, content.to_string().as_bytes())
    }

    /// Takes the next task of `jobs`, and returns the text of its claim.
    pub fn take(&self) -> String {
        let taken = self.post("/v1/tubes/jobs/take?hold=60s", "").expect(200);
        taken["tasks"][0]["claim"].as_str().unwrap().to_owned()
    }
}

pub struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<String>,
    pub content: Vec<u8>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream: BufReader::new(stream), host: address.to_string() }
    }

    pub fn call(&mut self, method: &str, path: &str, headers: &[&str], content: &[u8]) -> Answer {
        self.begin(method, path, headers, content);
        self.answer().unwrap()
    }

    /// Sends a call, and does not wait for its answer.
    pub fn begin(&mut self, method: &str, path: &str, headers: &[&str], content: &[u8]) {
        let has_host = headers.iter().any(|header| header.starts_with("Host:"));
        let host = if has_host { String::new() } else { format!("Host: {}\r\n", self.host) };
        let headers = [headers, &[""]].concat().join("\r\n");
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{host}Content-Length: {}\r\n{headers}\r\n",
            content.len()
        );
        self.send(&[head.as_bytes(), content].concat());
    }

    /// A server that refuses a call may close the connection while it is sent.
    pub fn send(&mut self, bytes: &[u8]) {
        let _may_be_refused = self.sends(bytes);
    }

    /// Whether the bytes could be sent.
    pub fn sends(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// The next answer; `None` if the server has closed the connection.
    pub fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        let length = answer.headers.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        answer.content = vec![0; length.unwrap_or_default()];
        self.stream.read_exact(&mut answer.content).unwrap();
        Some(answer)
    }

    /// The next answer without its content, which is not read.
    pub fn head(&mut self) -> Option<Answer> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    // A server that refuses what is still being sent may reset the connection.
                    let is_late =
                        [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind());
                    assert!(!is_late, "no answer came");
                    return None;
                }
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status = lines[0].split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, headers: lines, content: Vec::new() })
    }

    /// Whether no answer has come yet.
    pub fn has_no_answer(&mut self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let is_late = self.stream.fill_buf().is_err();
        self.stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        is_late
    }

    /// The next chunk of an answer that comes in chunks; `None` at its end.
    pub fn chunk(&mut self) -> Option<String> {
        let mut length = String::new();
        self.stream.read_line(&mut length).unwrap();
        let length = usize::from_str_radix(length.trim_end(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        (length > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    /// The data of the next server-sent event.
    pub fn event(&mut self) -> Value {
        let event = self.chunk().unwrap();
        let data = event.lines().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.unwrap()).unwrap()
    }
}

impl Answer {
    /// The value of an answer with this status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        let text = String::from_utf8_lossy(&self.content);
        assert_eq!(self.status, status, "{text}");
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// The kind of a refusal with this status.
    #[track_caller]
    pub fn refused(&self, status: u16) -> String {
        let value = self.expect(status);
        let kind = self.headers.iter().find(|line| line.to_lowercase().starts_with("content-type"));
        assert_eq!(kind.map(|line| line.ends_with("application/problem+json")), Some(true));
        assert_eq!(value["status"], status);
        assert!(!value["detail"].as_str().unwrap().is_empty());
        value["kind"].as_str().unwrap().to_owned()
    }
}
