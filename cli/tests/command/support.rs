//! A store in a directory of its own, and processes that are waited for with a deadline.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A process that takes so long hangs. The limit is there so that its test fails instead of waiting forever: on a
/// machine that is ten times too busy no process comes near it.
pub const HANGS_AFTER: Duration = Duration::from_secs(600);

/// A directory with a store, or without one yet.
pub struct Sandbox {
    pub dir: TempDir,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    /// Checks the exit code.
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.status.code(), Some(code), "{:?}\n{}", self.status, self.err);
        self
    }

    pub fn objects(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Sandbox {
    /// No store yet.
    pub fn empty() -> Sandbox {
        Sandbox { dir: tempfile::tempdir().unwrap() }
    }

    /// A store that was last open in 2001, with a task whose ttl was a day.
    pub fn of_2001() -> Sandbox {
        Sandbox::at(Duration::from_secs(1_000_000_000))
    }

    /// A store that was last open when the clock showed this, with a task whose ttl was a day.
    pub fn at(wall: Duration) -> Sandbox {
        let sandbox = Sandbox::empty();
        let clock = tubewell::ManualClock::at(wall);
        let store = tubewell::Store::options().clock(&clock).open(sandbox.store()).unwrap();
        let options = tubewell::TubeOptions::new();
        let tube = store.create_tube("mail", options.driver(tubewell::FIFOTTL)).unwrap();
        tube.put(tubewell::Put::new("x").ttl(Duration::from_secs(86_400))).unwrap();
        drop(tube);
        store.close().unwrap();
        sandbox
    }

    /// A store with the tube `mail` and these tasks.
    pub fn with(tasks: &[&str]) -> Sandbox {
        let sandbox = Sandbox::empty();
        sandbox.ok("create mail");
        if !tasks.is_empty() {
            sandbox.feed("import mail", tasks.join("\n").as_bytes()).expect(0);
        }
        sandbox
    }

    /// A store with the tube `jobs` of these options and these tasks.
    pub fn with_jobs(options: &str, tasks: &[&str]) -> Sandbox {
        let sandbox = Sandbox::empty();
        sandbox.ok(&format!("create jobs {options}"));
        sandbox.feed("import jobs", tasks.join("\n").as_bytes()).expect(0);
        sandbox
    }

    /// State, attempts, failure group and message of a task of `jobs`.
    pub fn last_attempt(&self, id: u64) -> Value {
        let task = self.json(&format!("peek jobs {id}")).remove(0);
        let failure = &task["failure"];
        json!([task["state"], task["attempts"], failure["group"], failure["message"]])
    }

    pub fn store(&self) -> PathBuf {
        self.path("jobs.tubewell")
    }

    /// Flips a bit of the first byte wherever the file contains the text.
    pub fn damage(&self, text: &str) {
        let mut file = std::fs::read(self.store()).unwrap();
        let places: Vec<usize> = (0..=file.len() - text.len())
            .filter(|at| file[*at..].starts_with(text.as_bytes()))
            .collect();
        assert!(!places.is_empty(), "the file does not hold {text}");
        for at in places {
            file[at] ^= 1;
        }
        std::fs::write(self.store(), file).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program();
        command
            .args(args)
            .env("TUBEWELL_STORE", self.store())
            .env_remove("NO_COLOR")
            .env_remove("CLICOLOR")
            .env_remove("CLICOLOR_FORCE")
            .env_remove("CI") // it turns colours on, also on a dumb terminal
            .env("TERM", "xterm")
            .current_dir(self.dir.path());
        command
    }

    /// Runs words without spaces in them.
    pub fn run(&self, words: &str) -> Ended {
        self.feed(words, b"")
    }

    /// The output of a command that succeeds.
    pub fn ok(&self, words: &str) -> String {
        self.run(words).expect(0).text().to_owned()
    }

    /// The message of a command that ends with this exit code.
    pub fn fails(&self, words: &str, code: i32) -> String {
        self.run(words).expect(code).err
    }

    pub fn json(&self, words: &str) -> Vec<Value> {
        let ended = self.run(&format!("{words} --json")).expect(0);
        ended.objects()
    }

    /// The tasks that a command prints, without their ages, which go on between two commands.
    pub fn tasks(&self, words: &str) -> Vec<Value> {
        let mut tasks = self.json(words);
        for task in &mut tasks {
            let age = task.as_object_mut().and_then(|task| task.remove("age"));
            assert!(age.unwrap().as_f64().unwrap() >= 0.0);
        }
        tasks
    }

    /// Claims a task with these arguments. Returns the token.
    pub fn claim(&self, words: &str) -> String {
        self.json(&format!("claim {words}"))[0]["token"].as_str().unwrap().to_owned()
    }

    pub fn feed(&self, words: &str, input: &[u8]) -> Ended {
        let words: Vec<&str> = words.split_whitespace().collect();
        run(self.command(&words), input)
    }

    /// How many tasks of `mail` are ready, delayed and buried.
    pub fn counts(&self) -> (u64, u64, u64) {
        let stats = self.json("stats mail");
        let of = |name: &str| stats[0][name].as_u64().unwrap();
        (of("ready"), of("delayed"), of("buried"))
    }

    /// The ids of the tasks that a command lists.
    pub fn ids(&self, words: &str) -> Vec<u64> {
        self.json(words).iter().map(|task| task["id"].as_u64().unwrap()).collect()
    }

    /// A shell, with `tubewell` in its `PATH`.
    pub fn shell(&self, shell: &str, script: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_tubewell")).parent().unwrap().display();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        let mut command = Command::new(shell);
        command.args(["-e", "-c", script]).env("PATH", path);
        command.env("TUBEWELL_STORE", self.store()).env("HOME", self.dir.path());
        command.current_dir(self.dir.path());
        command
    }

    /// Starts `work` with a shell script as its command; in a process group of its own, as an
    /// interactive shell does.
    pub fn work(&self, options: &str, script: &str) -> Running {
        let words: Vec<&str> = options.split_whitespace().collect();
        let mut command = self.command(&["work"]);
        command.args(words).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::null()).process_group(0);
        Running::start(command)
    }

    /// A named pipe at which scripts wait.
    pub fn gate(&self) -> Gate {
        let path = self.path("gate");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        // Open for reading too, it keeps what is written until a script reads it.
        Gate(File::options().read(true).write(true).open(path).unwrap())
    }
}

/// Scripts wait at it with `read x < gate`.
pub struct Gate(File);

impl Gate {
    /// Lets this many scripts go on.
    pub fn open(&mut self, scripts: usize) {
        self.0.write_all("\n".repeat(scripts).as_bytes()).unwrap();
    }
}

/// The command, with the default actions of signals: a test run in the background or by `nohup`
/// ignores some of them, and its children would, too.
fn program() -> Command {
    let bin = env!("CARGO_BIN_EXE_tubewell");
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let stopping =
        [Signal::INT, Signal::HUP, Signal::TERM].map(|signal| 1 << (signal.as_raw() - 1));
    if stopping.iter().all(|bit| ignored & bit == 0) {
        return Command::new(bin);
    }
    let mut env = Command::new("env");
    env.args(["--default-signal=INT,HUP,TERM", bin]);
    env
}

/// The words of each line of a table.
pub fn columns_of(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Runs a command to its end.
pub fn run(mut command: Command, input: &[u8]) -> Ended {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    std::thread::spawn(move || stdin.write_all(&input));
    finish(child)
}

/// Waits for the end of a process, and kills it at the deadline.
pub fn finish(child: Child) -> Ended {
    let pid = pid_of(&child);
    let (send, ended) = channel();
    std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    let Ok(output) = ended.recv_timeout(HANGS_AFTER) else {
        let _ = kill_process(pid, Signal::KILL);
        panic!("process {pid:?} hangs");
    };
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { status: output.status, out: output.stdout, err }
}

/// Runs `work` on a thread and panics at the deadline.
pub fn within_deadline<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (send, done) = channel();
    std::thread::spawn(move || send.send(work()));
    done.recv_timeout(HANGS_AFTER).unwrap_or_else(|_| panic!("{what} took too long"))
}

/// A process whose output is read while it runs.
pub struct Running {
    child: Option<Child>,
    pid: Pid,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Running { pid: pid_of(&child), child: Some(child), out, err }
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for a line with this text on standard output, of the process or of its commands.
    pub fn prints(&self, text: &str) -> String {
        await_line(&self.out, text)
    }

    /// As `prints`. False if the process and its commands end without such a line.
    pub fn prints_before_its_end(&self, text: &str) -> bool {
        loop {
            match self.out.recv_timeout(HANGS_AFTER) {
                Ok(line) if line.contains(text) => return true,
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("no line with {text:?}"),
            }
        }
    }

    /// Waits for a line with this text on standard error.
    pub fn notes(&self, text: &str) -> String {
        await_line(&self.err, text)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Signals every process of the group, as Ctrl-C in a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid, signal).unwrap();
    }

    /// Waits for the end; returns the exit code, or the negative number of the signal.
    pub fn ends(&mut self) -> i32 {
        let mut child = self.child.take().unwrap();
        let status = within_deadline("the end of work", move || child.wait().unwrap());
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }

    pub fn rest_of_output(&self) -> Vec<String> {
        std::iter::from_fn(|| self.out.recv_timeout(HANGS_AFTER).ok()).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn await_line(lines: &Receiver<String>, text: &str) -> String {
    loop {
        let line = lines.recv_timeout(HANGS_AFTER);
        let line = line.unwrap_or_else(|why| panic!("no line with {text:?}: {why}"));
        if line.contains(text) {
            return line;
        }
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}
