//! Peers in a separate process that runs whole phases.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;

use crate::ledger::Ledger;
use crate::process::Process;
use crate::queue::{Outcome, Plan, Queue, Result, WakePlan, Work};
use crate::wire::{Answer, Request};

/// How much longer than its phase an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A queue in a process that runs whole phases. The process answers each request, a line of its
/// standard input, with a line of its standard output, and ends at the end of its standard input.
pub struct Remote {
    connection: Mutex<Connection>,
    body: usize,
}

struct Connection {
    process: Process,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Remote {
    /// Starts the process and waits for its first line. Its standard error goes to the file `log`.
    ///
    /// # Errors
    /// The process cannot be started, or prints no line in time.
    pub fn start(command: &mut Command, log: &Path, body: usize) -> Result<Remote> {
        let stderr = File::create(log)?;
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(stderr))?;
        let stdout = process.child.stdout.take().ok_or("the process has no standard output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || forward_lines(stdout, &sender));
        let mut connection = Connection { process, answers, log: log.to_owned() };
        connection.answer(ANSWER_TIMEOUT)?;
        Ok(Remote { connection: Mutex::new(connection), body })
    }

    fn ask(&self, request: &Request, ledger: &Ledger) -> Result<Answer> {
        let line = serde_json::to_string(request)?;
        let answer = self.connection.lock().ask(&line, request.span() + ANSWER_TIMEOUT)?;
        let mut answer: Answer = serde_json::from_str(&answer)?;
        ledger.add_remote(answer.put, answer.taken);
        for fault in answer.faults.drain(..) {
            ledger.fault(fault);
        }
        match answer.error.take() {
            Some(error) => Err(error.into()),
            None => Ok(answer),
        }
    }
}

impl Queue for Remote {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        let work = match plan.work {
            Work::Put => "put",
            Work::TakeAck => "take-ack",
            Work::Cycle => "cycle",
            Work::Job => "job",
        };
        let request = Request {
            work: work.into(),
            callers: plan.shape.width(),
            tasks: 0,
            seconds: plan.limit.as_secs_f64(),
            body: self.body,
        };
        let answer = self.ask(&request, ledger)?;
        let elapsed = Duration::from_secs_f64(answer.seconds);
        Ok(Outcome { tasks: answer.tasks, elapsed })
    }

    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        let request = Request {
            work: "wake-up".into(),
            callers: 1,
            tasks: plan.tasks,
            seconds: plan.pause.as_secs_f64(),
            body: self.body,
        };
        Ok(self.ask(&request, ledger)?.nanos)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.connection.into_inner().process.end()
    }
}

impl Connection {
    fn ask(&mut self, line: &str, within: Duration) -> Result<String> {
        let stdin =
            self.process.stdin.as_mut().ok_or("the process was sent a request after its end")?;
        let sent = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        if sent.is_err() {
            return Err(self.exit_error());
        }
        self.answer(within)
    }

    /// The next line of the process. Kills the process if no line comes in time.
    fn answer(&mut self, within: Duration) -> Result<String> {
        match self.answers.recv_timeout(within) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.process.child.kill()?;
                Err(format!("the process gave no answer within {within:?} and was killed").into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.exit_error()),
        }
    }

    fn exit_error(&self) -> Box<dyn Error + Send + Sync> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the process ended: {}", lines[lines.len().saturating_sub(3)..].join("; ")).into()
    }
}

fn forward_lines(stdout: impl Read, sender: &Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
        if sender.send(line).is_err() {
            break;
        }
    }
}
