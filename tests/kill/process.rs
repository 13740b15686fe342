//! Child processes: starting one, reading its reports, ending it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::executor::HANGS_AFTER;

const VARIABLE: &str = "TUBEWELL_KILL_CHILD";
const PREFIX: &str = "#";

/// What a child does, passed in an environment variable.
#[derive(Clone, Debug)]
pub struct Job {
    /// The workload, with the point at which it aborts, or `claim:` and a ttr in milliseconds.
    pub mode: String,
    pub path: PathBuf,
    pub seed: u64,
    /// The number of this run of the store.
    pub run: u64,
}

impl Job {
    /// The job of this process, if it is a child.
    pub fn from_env() -> Option<Job> {
        let text = std::env::var(VARIABLE).ok()?;
        let mut parts = text.splitn(4, ' ');
        let mut next = || parts.next().unwrap().to_owned();
        Some(Job {
            mode: next(),
            seed: next().parse().unwrap(),
            run: next().parse().unwrap(),
            path: next().into(),
        })
    }

    fn to_text(&self) -> String {
        format!("{} {} {} {}", self.mode, self.seed, self.run, self.path.to_str().unwrap())
    }
}

/// A child process and its reports.
pub struct ChildProcess {
    process: Child,
    pub stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    reported: Vec<String>,
    ended: bool,
}

impl ChildProcess {
    pub fn start(job: &Job) -> ChildProcess {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_process_entry", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, job.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Lines without the prefix are those of the test harness.
                if let Some(line) = line.strip_prefix(PREFIX)
                    && sender.send(line.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        ChildProcess { process, stdin, lines, reported: Vec::new(), ended: false }
    }

    /// The next report; `None` if the child has ended or the timeout has elapsed.
    pub fn next_line(&mut self, timeout: Duration) -> Option<String> {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => {
                self.reported.push(line.clone());
                Some(line)
            }
            Err(error) => {
                self.ended |= error == RecvTimeoutError::Disconnected;
                None
            }
        }
    }

    /// Reads so many reports, each within the timeout. Returns whether the child has ended.
    pub fn read_lines(&mut self, lines: u64, timeout: Duration) -> bool {
        for _ in 0..lines {
            if self.next_line(timeout).is_none() {
                assert!(self.ended || timeout < Duration::from_secs(1), "the child hangs");
                break;
            }
        }
        self.ended
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills the child, unless it has aborted. Returns all its reports, including those that were
    /// still in the pipe.
    pub fn kill(&mut self) -> Vec<String> {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        assert!(status.signal().is_some(), "the child has panicked: {status}");
        while self.next_line(HANGS_AFTER).is_some() {}
        assert!(self.ended, "the pipe of a killed child is still open in another process");
        std::mem::take(&mut self.reported)
    }

    /// Waits until the child exits with success. Returns all its reports.
    pub fn wait(&mut self) -> Vec<String> {
        while self.next_line(HANGS_AFTER).is_some() {}
        assert!(self.ended, "the child hangs");
        assert!(self.process.wait().unwrap().success(), "the child failed");
        std::mem::take(&mut self.reported)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Both calls fail if the child has been reaped already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes the reports of a child. Each line is one write, so that the parent gets it whole or not
/// at all.
#[derive(Debug)]
pub struct ReportWriter(std::fs::File);

impl ReportWriter {
    pub fn new() -> ReportWriter {
        use std::os::fd::AsFd;
        let stdout = std::io::stdout().as_fd().try_clone_to_owned().unwrap();
        let mut reports = ReportWriter(stdout.into());
        // Ends the line that the test harness has begun.
        reports.0.write_all(b"\n").unwrap();
        reports
    }

    pub fn write(&self, line: &str) {
        (&self.0).write_all(format!("{PREFIX}{line}\n").as_bytes()).unwrap();
    }
}
