//! What becomes of a task after its command has ended.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, Error, Receipt, State};

use super::child::Ended;
use crate::args::{OnFailure, Work};
use crate::failure::Failure;

/// What the options say about failed tasks.
#[derive(Clone, Copy, Debug)]
pub struct FailurePolicy {
    on_failure: OnFailure,
    delay: Option<Duration>,
    max_takes: Option<u32>,
    /// Failed tasks stay taken until the run ends, so that --once tries each task once.
    keep: bool,
}

/// What became of a task.
#[derive(Clone, Debug)]
pub enum Outcome {
    Done,
    Released,
    Buried,
    /// It failed, and is released when the run ends, or reported as failed.
    Kept(Option<tubewell::Failure>),
    /// Its command was terminated by `work` or with it, and the task was released.
    Ended,
    /// Its ttl elapsed, or another caller changed it, while the command ran.
    Lost,
    /// The store failed.
    Unknown(Failure),
}

/// A task whose command has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    pub id: u64,
    pub tube: String,
    pub takes: u32,
    pub end: CommandEnd,
    pub outcome: Outcome,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CommandEnd {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
}

impl FailurePolicy {
    pub fn of(args: &Work) -> FailurePolicy {
        let releases = args.on_failure == OnFailure::Release;
        FailurePolicy {
            on_failure: args.on_failure,
            delay: args.delay,
            max_takes: args.max_takes,
            keep: args.once && args.max_takes.is_none() && releases,
        }
    }

    /// Whether a task was taken --max-takes times already: by workers that were killed.
    pub fn is_exhausted(&self, claim: &Claim) -> bool {
        self.max_takes.is_some_and(|max| claim.takes() > max)
    }

    /// Finishes a task after its command has ended. `reports` says that its tube has rules for
    /// failures. `terminated` says that `work` was stopped, so that a failure does not count.
    pub fn finish(&self, claim: Claim, ended: Ended, reports: bool, terminated: bool) -> Finished {
        let (id, tube, takes) = (claim.id(), claim.tube().to_owned(), claim.takes());
        let Ended { status, last_lines } = ended;
        let end = status.as_ref().map_or_else(|_| CommandEnd::default(), |status| end(*status));
        let succeeded = status.is_ok_and(|status| status.success());
        let outcome = if succeeded {
            outcome_of(claim.ack(), Outcome::Done)
        } else if terminated && reports {
            outcome_of(claim.snooze(Duration::ZERO), Outcome::Ended)
        } else if terminated {
            outcome_of(claim.release(Duration::ZERO), Outcome::Ended)
        } else {
            self.failed(claim, reports.then(|| end.failure(last_lines)))
        };
        Finished { id, tube, takes, end, outcome }
    }

    fn failed(&self, claim: Claim, failure: Option<tubewell::Failure>) -> Outcome {
        let exhausted = self.max_takes.is_some_and(|max| claim.takes() >= max);
        if exhausted || self.on_failure == OnFailure::Bury {
            let buried = match failure {
                Some(failure) => claim.bury_with(failure),
                None => claim.bury(),
            };
            return outcome_of(buried, Outcome::Buried);
        }
        // After its last attempt a task is not taken again.
        if self.keep && claim.attempts_left() != Some(0) {
            // The session keeps the claim, without the body in memory.
            drop(claim.detach());
            return Outcome::Kept(failure);
        }
        released(match (failure, self.delay) {
            (None, delay) => claim.release(delay.unwrap_or_default()),
            (Some(failure), None) => claim.fail(failure),
            (Some(failure), Some(delay)) => claim.fail_in(delay, failure),
        })
    }

    /// Buries a task without running its command.
    pub fn bury(claim: Claim) -> Finished {
        let (id, tube, takes) = (claim.id(), claim.tube().to_owned(), claim.takes());
        let outcome = outcome_of(claim.bury(), Outcome::Buried);
        Finished { id, tube, takes, end: CommandEnd::default(), outcome }
    }
}

impl Outcome {
    /// Its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Released => "released",
            Outcome::Buried => "buried",
            Outcome::Kept(_) => "kept",
            Outcome::Ended => "ended",
            Outcome::Lost => "lost",
            Outcome::Unknown(_) => "unknown",
        }
    }

    /// Its text.
    pub fn text(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Released => "released",
            Outcome::Buried => "buried",
            Outcome::Kept(None) => "released when this run ends",
            Outcome::Kept(Some(_)) => "tried again after this run",
            Outcome::Ended => "terminated, the task is ready again",
            Outcome::Lost => "the claim has ended, perhaps because the ttl elapsed",
            Outcome::Unknown(_) => "the store cannot be written",
        }
    }
}

impl CommandEnd {
    /// The failure to report.
    fn failure(self, last_lines: String) -> tubewell::Failure {
        let group = match (self.exit, self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not run".into(),
        };
        let message = if last_lines.is_empty() { self.text() } else { last_lines };
        tubewell::Failure::new(group, message)
    }

    /// Its text.
    pub fn text(self) -> String {
        match (self.exit, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not run".into(),
        }
    }
}

/// Whether a command was ended by this signal, or reports that as shells do. A service manager
/// sends the signal that stops `work` to its commands, too.
pub fn is_ended_by(status: &io::Result<ExitStatus>, signal: u8) -> bool {
    let CommandEnd { exit, signal: ended_by } =
        status.as_ref().map_or_else(|_| CommandEnd::default(), |status| end(*status));
    let signal = i32::from(signal);
    ended_by == Some(signal) || exit == Some(128 + signal)
}

/// The outcome of a failed task that was given back.
fn released(answer: tubewell::Result<Receipt>) -> Outcome {
    let is_buried = answer.as_ref().is_ok_and(|receipt| receipt.state == State::Buried);
    outcome_of(answer, if is_buried { Outcome::Buried } else { Outcome::Released })
}

fn outcome_of<T>(answer: tubewell::Result<T>, outcome: Outcome) -> Outcome {
    match answer {
        Ok(_) => outcome,
        Err(Error::NotTaken { .. }) => Outcome::Lost,
        Err(error) => Outcome::Unknown(error.into()),
    }
}

#[cfg(unix)]
fn end(status: ExitStatus) -> CommandEnd {
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    CommandEnd { exit: status.code(), signal }
}

#[cfg(not(unix))]
fn end(status: ExitStatus) -> CommandEnd {
    CommandEnd { exit: status.code(), signal: None }
}
