//! When the storage fails: everyone is told, what was decided is kept, and once the storage works
//! again the store goes on where it stood.

use super::{Core, FILE, MEMORY};
use crate::storage::CommitError;
use crate::{Error, Result};

/// What made the store stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The storage refused something. That may pass.
    Storage,
    /// Damage, or a defect of ours: nothing that time heals.
    Defect,
}

/// Why nothing is written.
#[derive(Debug)]
pub(crate) struct Failure {
    why: String,
    /// When to try again; never, if that is of no use.
    retry: Option<Retry>,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    /// On running time.
    at: u64,
    /// How long to wait if that fails too.
    pause: u64,
}

const FIRST_PAUSE: u64 = 20_000;
const LONGEST_PAUSE: u64 = 10_000_000;

impl Failure {
    fn error(&self) -> Error {
        let why = self.why.clone();
        if self.retry.is_some() { Error::Unavailable { why } } else { Error::Stopped { why } }
    }
}

impl From<&CommitError> for Cause {
    fn from(error: &CommitError) -> Cause {
        if error.may_pass { Cause::Storage } else { Cause::Defect }
    }
}

impl From<&Error> for Cause {
    fn from(error: &Error) -> Cause {
        match error {
            Error::Io { .. } | Error::Unavailable { .. } => Cause::Storage,
            _ => Cause::Defect,
        }
    }
}

impl Core {
    /// Refuses calls on a store that is closed or has failed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::Closed);
        }
        self.check_failure()
    }

    pub(crate) fn check_failure(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Stops all writing and tells everyone who waits. What was decided stays decided: it is in
    /// flight or pending, and goes to the file with the first commit that succeeds. Until then
    /// nobody can know its outcome. A leader whose commit is in flight tells its batch itself.
    pub(crate) fn fail(&mut self, why: &str, cause: Cause) {
        let now = self.now.running;
        let failure = self.failed.get_or_insert_with(|| Failure {
            why: why.to_owned(),
            retry: Some(Retry { at: now, pause: FIRST_PAUSE }),
        });
        if cause == Cause::Defect && failure.retry.take().is_some() {
            why.clone_into(&mut failure.why);
        }
        let later = failure.error();
        let unknown = Error::OutcomeUnknown { why: why.to_owned() };
        for number in [FILE, MEMORY] {
            let lane = &mut self.lanes[number];
            if number == FILE || cause == Cause::Defect {
                self.outbox.errands.finished.push((lane.renew_batch(), Err(unknown.clone())));
            }
            // The writer thread leads nothing now.
            lane.recall();
        }
        self.outbox.room = true;
        self.wake_all(&later);
    }

    /// As `fail`, for an error that says what it is. In a store that has failed already, what goes
    /// wrong further is a consequence: memory is read anew when it goes on.
    pub(crate) fn fail_with(&mut self, error: &Error) {
        if self.failed.is_some() || self.closed {
            return;
        }
        let why = match error {
            Error::Io { what } | Error::Corrupt { what } => what.clone(),
            Error::Unavailable { why } => why.clone(),
            error => error.to_string(),
        };
        self.fail(&why, Cause::from(error));
    }

    /// When to try the storage again, on running time.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        let retry = self.failed.as_ref().and_then(|failure| failure.retry)?;
        (!self.lanes[FILE].led).then_some(retry.at)
    }

    /// The storage was tried and failed again.
    pub(crate) fn retry_later(&mut self, why: &str) {
        let now = self.now.running;
        if let Some(failure) = &mut self.failed
            && let Some(retry) = &mut failure.retry
        {
            why.clone_into(&mut failure.why);
            retry.at = now.saturating_add(retry.pause);
            retry.pause = retry.pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// The storage works again, and what was in flight is in the file. Whatever memory knows from
    /// reading the file may have been cut short by the failure: it is read again.
    pub(crate) fn go_on(&mut self) {
        self.failed = None;
        for tube in self.tubes.values_mut().filter(|tube| tube.lane == FILE) {
            tube.window = super::window::Window::default();
        }
        let lane = &mut self.lanes[FILE];
        lane.due_cursor.clear();
        lane.earliest_due = 0;
        if lane.flying().is_some() {
            self.ids.reserved = self.ids.reserving;
            self.land(FILE);
        }
        let closed = self.closed;
        let lane = &mut self.lanes[FILE];
        // A store that is being closed writes its last commit itself, with nobody beside it.
        if lane.is_dirty() && !closed {
            lane.wanted = true;
            self.outbox.call_writer = true;
        }
    }
}
