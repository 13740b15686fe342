//! Starting a child, hearing it, ending it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const VARIABLE: &str = "TUBEWELL_KILL_CHILD";
const MARK: &str = "#";

/// What a child is told.
#[derive(Clone, Debug)]
pub struct Job {
    pub task: String,
    pub path: PathBuf,
    pub seed: u64,
    pub life: u64,
}

impl Job {
    /// What this process was told, if it is a child.
    pub fn of_this_process() -> Option<Job> {
        let told = std::env::var(VARIABLE).ok()?;
        let mut parts = told.splitn(4, ' ');
        let mut next = || parts.next().unwrap().to_owned();
        Some(Job {
            task: next(),
            seed: next().parse().unwrap(),
            life: next().parse().unwrap(),
            path: next().into(),
        })
    }
}

/// A child, and what it has reported.
pub struct Child {
    process: Process,
    pub pipe: Option<ChildStdin>,
    lines: Receiver<String>,
    reported: Vec<String>,
    over: bool,
}

impl Child {
    pub fn start(job: &Job) -> Child {
        let told = format!("{} {} {} {}", job.task, job.seed, job.life, job.path.to_str().unwrap());
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, told)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let pipe = process.stdin.take();
        let out = BufReader::new(process.stdout.take().unwrap());
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Lines of the test harness are none of ours.
                if let Some(line) = line.strip_prefix(MARK)
                    && tell.send(line.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Child { process, pipe, lines, reported: Vec::new(), over: false }
    }

    /// The next line; `None` if the child has ended or nothing came for so long.
    pub fn line(&mut self, patience: Duration) -> Option<String> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => {
                self.reported.push(line.clone());
                Some(line)
            }
            Err(error) => {
                self.over |= error == RecvTimeoutError::Disconnected;
                None
            }
        }
    }

    /// Reads so many lines, or until nothing comes for so long. True if the child has ended.
    pub fn read_until(&mut self, lines: u64, patience: Duration) -> bool {
        for _ in 0..lines {
            if self.line(patience).is_none() {
                assert!(self.over || patience < Duration::from_secs(1), "the child hangs");
                break;
            }
        }
        self.over
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills it, and returns all that it has reported, what was still in the pipe included.
    pub fn kill(&mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while self.line(Duration::from_secs(60)).is_some() {}
        assert!(self.over, "somebody else has the pipe of a killed child");
        std::mem::take(&mut self.reported)
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> Vec<String> {
        while self.line(Duration::from_secs(60)).is_some() {}
        assert!(self.over, "the child hangs");
        assert!(self.process.wait().unwrap().success(), "the child failed");
        std::mem::take(&mut self.reported)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, nor need it be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where a child reports: each line is one write, whole or not at all.
#[derive(Debug)]
pub struct Reports(std::fs::File);

impl Reports {
    pub fn new() -> Reports {
        use std::os::fd::AsFd;
        let reports = std::io::stdout().as_fd().try_clone_to_owned().unwrap();
        let mut reports = Reports(reports.into());
        // The test harness has begun a line.
        reports.0.write_all(b"\n").unwrap();
        reports
    }

    pub fn line(&self, line: &str) {
        (&self.0).write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
    }
}
