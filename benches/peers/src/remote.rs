//! Queues in a process of their own that runs whole phases.

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
const PATIENCE: Duration = Duration::from_secs(20);

/// A queue in a process that runs whole phases: it answers each request, a line of its standard
/// input, with a line of its standard output, and ends when its standard input does.
pub struct Remote {
    talk: Mutex<Talk>,
    body: usize,
}

struct Talk {
    process: Process,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Remote {
    /// Starts it and waits for its first line. Its complaints go to a file.
    ///
    /// # Errors
    /// It cannot be started, or does not come up.
    pub fn start(command: &mut Command, log: &Path, body: usize) -> Result<Remote> {
        let complaints = File::create(log)?;
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(complaints))?;
        let stdout = process.child.stdout.take().ok_or("it has no standard output")?;
        let (tell, answers) = channel();
        std::thread::spawn(move || pass_on(stdout, &tell));
        let mut talk = Talk { process, answers, log: log.to_owned() };
        talk.answer(PATIENCE)?;
        Ok(Remote { talk: Mutex::new(talk), body })
    }

    fn ask(&self, request: &Request, ledger: &Ledger) -> Result<Answer> {
        let line = serde_json::to_string(request)?;
        let answer = self.talk.lock().ask(&line, request.span() + PATIENCE)?;
        let mut answer: Answer = serde_json::from_str(&answer)?;
        ledger.add_elsewhere(answer.put, answer.taken);
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
        self.talk.into_inner().process.end()
    }
}

impl Talk {
    fn ask(&mut self, line: &str, within: Duration) -> Result<String> {
        let stdin = self.process.stdin.as_mut().ok_or("it was asked after its end")?;
        let sent = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        if sent.is_err() {
            return Err(self.last_words());
        }
        self.answer(within)
    }

    /// The next line that it says. If that takes too long, it is killed.
    fn answer(&mut self, within: Duration) -> Result<String> {
        match self.answers.recv_timeout(within) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                self.process.child.kill()?;
                Err(format!("no answer within {within:?}, so it was killed").into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.last_words()),
        }
    }

    fn last_words(&self) -> Box<dyn Error + Send + Sync> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("it ended: {}", lines[lines.len().saturating_sub(3)..].join("; ")).into()
    }
}

fn pass_on(stdout: impl Read, tell: &Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
        if tell.send(line).is_err() {
            break;
        }
    }
}
