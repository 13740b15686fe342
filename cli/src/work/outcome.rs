//! The end of a task after its command has ended.

use std::collections::HashSet;
use std::process::ExitStatus;
use std::time::Duration;

use tubewell::Outcome as End;
use tubewell::worker::Job;
use tubewell::{Backoff, MAX_BODY, Store};

use super::child::Ended;
use crate::args::{OnFailure, Work};

/// The exit codes of `sysexits.h` with a meaning of their own: the input of the command cannot be
/// used (`EX_DATAERR`), and try again later (`EX_TEMPFAIL`).
const BURY: i32 = 65;
const SNOOZE: i32 = 75;

/// The rules for failed tasks, from the options and the tubes.
pub struct Policy {
    pub args: Work,
    /// The tubes with a backoff.
    backing_off: HashSet<String>,
}

/// The end of a task whose command has ended.
pub struct Decision {
    pub outcome: Outcome,
    /// How its claim ends.
    pub claim: End,
    /// Its claim ends when the run ends, so that --once tries each task once.
    pub keep: bool,
}

/// The end of a task, as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Released,
    Snoozed,
    Buried,
    /// It failed, and is released when the run ends, or reported as failed (true).
    Kept(bool),
    /// Its command was terminated by `work` or with it, and the task was released.
    Ended,
    /// Its ttl elapsed, or another caller changed it, while the command ran.
    Lost,
    /// The time of its claim has elapsed, as the task or its tube limits it.
    TimedOut,
    /// The store failed.
    Unknown,
}

/// A task whose command has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    pub takes: u32,
    pub end: CommandEnd,
    pub outcome: Outcome,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandEnd {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    cause: Cause,
}

/// Why a command has not succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cause {
    #[default]
    Status,
    MaxRuntime,
    Output,
}

impl Policy {
    pub fn of(args: &Work, store: &Store) -> tubewell::Result<Policy> {
        let tubes = store.tubes()?.into_iter();
        let backing_off = tubes.filter(|tube| tube.backoff != Backoff::none());
        let backing_off = backing_off.map(|tube| tube.name).collect();
        let backoff = args.backoff.filter(|backoff| *backoff != Backoff::none());
        Ok(Policy { args: Work { backoff, ..args.clone() }, backing_off })
    }

    /// The backoff of the options, for a tube that has none.
    pub fn backoff_for(&self, tube: &str) -> Option<Backoff> {
        self.args.backoff.filter(|_| !self.backing_off.contains(tube))
    }

    /// Whether all attempts of a task were used already: by workers that were killed.
    pub fn is_exhausted(&self, job: &Job) -> bool {
        self.args.max_attempts.is_some_and(|max| job.attempt() > max)
    }

    /// Whether failures of the task are recorded: where there are rules for them.
    pub fn records_failures(&self, job: &Job) -> bool {
        job.attempts_left().is_some()
            || self.args.backoff.is_some()
            || self.backing_off.contains(job.tube())
    }

    /// Gives a task back that was not attempted to the end.
    pub fn give_back(&self, job: &Job) -> End {
        if self.records_failures(job) || self.args.max_attempts.is_some() {
            return End::snooze(Duration::ZERO);
        }
        End::release()
    }

    /// Decides what becomes of a task whose command has ended like this. `is_terminated` says that
    /// `work` was stopped, so that a failure does not count, unless the command ran too long.
    pub fn decide(
        &self,
        job: &Job,
        end: CommandEnd,
        ended: Ended,
        is_terminated: bool,
    ) -> Decision {
        let decided = |outcome, claim| Decision { outcome, claim, keep: false };
        if end.is_success() {
            return decided(Outcome::Done, ended.output.map_or_else(End::done, End::result));
        }
        if is_terminated && end.cause != Cause::MaxRuntime {
            return decided(Outcome::Ended, self.give_back(job));
        }
        let code = end.exit.filter(|_| end.cause == Cause::Status);
        if code == Some(SNOOZE) {
            let snooze = End::snooze(self.args.delay.unwrap_or_default());
            return Decision { keep: self.args.once, ..decided(Outcome::Snoozed, snooze) };
        }
        let is_special = code == Some(BURY) || end.cause != Cause::Status;
        let is_recorded = is_special || self.records_failures(job);
        let failure = is_recorded.then(|| end.failure(ended.last_lines));
        let was_last = self.args.max_attempts.is_some_and(|max| job.attempt() >= max);
        if code == Some(BURY) || was_last || self.args.on_failure == OnFailure::Bury {
            return decided(Outcome::Buried, End::bury(failure));
        }
        let claim = match (failure, self.delay_of(job)) {
            (None, delay) => End::release_in(delay.unwrap_or_default()),
            (Some(failure), None) => End::fail(failure),
            (Some(failure), Some(delay)) => End::fail_in(delay, failure),
        };
        // After its last attempt a task is not taken again.
        if self.args.once && self.args.max_attempts.is_none() && job.attempts_left() != Some(0) {
            return Decision { keep: true, ..decided(Outcome::Kept(is_recorded), claim) };
        }
        decided(Outcome::Released, claim)
    }

    /// The delay of a failed task; `None` leaves it to its tube.
    fn delay_of(&self, job: &Job) -> Option<Duration> {
        let backoff = self.backoff_for(job.tube());
        self.args.delay.or_else(|| Some(backoff?.delay(job.id(), job.attempt())))
    }
}

impl Outcome {
    /// Its name in JSON, and its text.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Done => ("done", "done"),
            Outcome::Released => ("released", "released"),
            Outcome::Snoozed => ("snoozed", "snoozed"),
            Outcome::Buried => ("buried", "buried"),
            Outcome::Kept(false) => ("kept", "released when this run ends"),
            Outcome::Kept(true) => ("kept", "tried again after this run"),
            Outcome::Ended => ("ended", "terminated, the task is ready again"),
            Outcome::Lost => (
                "lost",
                "the claim has ended: the ttl has elapsed, the task was revoked or deleted, or the owner of the store has ended",
            ),
            Outcome::TimedOut => {
                ("timed_out", "the max_runtime of the task or its tube has elapsed")
            }
            Outcome::Unknown => ("unknown", "the store cannot be written"),
        }
    }
}

impl CommandEnd {
    pub fn of(ended: &Ended) -> CommandEnd {
        let status = ended.status.as_ref().ok();
        let exit = status.and_then(ExitStatus::code);
        let is_too_long = ended.output.as_ref().is_some_and(|output| output.len() > MAX_BODY);
        let cause = match exit {
            _ if ended.ran_too_long => Cause::MaxRuntime,
            Some(0) if is_too_long => Cause::Output,
            _ => Cause::Status,
        };
        #[cfg(unix)]
        let signal = status.and_then(std::os::unix::process::ExitStatusExt::signal);
        #[cfg(not(unix))]
        let signal = None;
        CommandEnd { exit, signal, cause }
    }

    pub fn is_success(self) -> bool {
        self.exit == Some(0) && self.cause == Cause::Status
    }

    /// The failure to report.
    fn failure(self, last_lines: String) -> tubewell::Failure {
        let group = match (self.cause, self.exit, self.signal) {
            (Cause::MaxRuntime, ..) => "max-runtime".into(),
            (Cause::Output, ..) => "output".into(),
            (_, Some(code), _) => format!("exit {code}"),
            (_, None, Some(signal)) => format!("signal {signal}"),
            (_, None, None) => "not run".into(),
        };
        let message = if last_lines.is_empty() { self.text() } else { last_lines };
        tubewell::Failure::new(group, message)
    }

    /// Its text.
    pub fn text(self) -> String {
        let status = match (self.exit, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "not run".into(),
        };
        match self.cause {
            Cause::Status => status,
            Cause::MaxRuntime => format!("{status} after max-runtime had elapsed"),
            Cause::Output => format!("{status} with more than {MAX_BODY} bytes of output"),
        }
    }

    /// Whether a command was ended by this signal, or reports that as shells do. A service manager
    /// sends the signal that stops `work` to its commands, too.
    pub fn is_by(self, signal: u8) -> bool {
        let signal = i32::from(signal);
        self.signal == Some(signal) || self.exit == Some(128 + signal)
    }
}
