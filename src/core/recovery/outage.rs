//! When the storage fails: everyone is told, what was decided is kept, and once the storage works
//! again the store goes on where it stood.

use crate::core::state::window::Window;
use crate::core::state::{Core, FILE, FIRST_PAUSE, LONGEST_PAUSE, MEMORY, Outage, Retry};
use crate::storage::FailureCause;
use crate::{Error, Result};

impl Core {
    /// Refuses calls on a store that is closed or has failed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed {
            return Err(Error::Closed);
        }
        self.check_failure()
    }

    pub(crate) fn check_failure(&self) -> Result<()> {
        self.outage.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Stops all writing and tells everyone who waits. What was decided stays decided: it is in
    /// flight or pending, and goes to the file with the first commit that succeeds. Until then
    /// nobody can know its outcome. A leader whose commit is in flight tells its batch itself.
    pub(crate) fn fail(&mut self, why: &str, cause: FailureCause) {
        let now = self.now.running;
        let failure = self.outage.get_or_insert_with(|| Outage {
            why: why.to_owned(),
            retry: Some(Retry { at: now, pause: FIRST_PAUSE }),
        });
        if cause == FailureCause::Defect && failure.retry.take().is_some() {
            why.clone_into(&mut failure.why);
        }
        let later = failure.error();
        let unknown = Error::OutcomeUnknown { why: why.to_owned() };
        for number in [FILE, MEMORY] {
            let buffer = &mut self.buffers[number];
            if number == FILE || cause == FailureCause::Defect {
                self.effects
                    .after_unlock
                    .finished
                    .push((buffer.replace_batch(), Err(unknown.clone())));
            }
            // The writer thread leads nothing now.
            buffer.reclaim_lead();
        }
        self.effects.room = true;
        self.wake_all(&later);
    }

    /// As `fail`, for an error that says what it is. In a store that has failed already, what goes
    /// wrong further is a consequence: memory is read anew when it goes on.
    pub(crate) fn fail_with(&mut self, error: &Error) {
        if self.outage.is_some() || self.closed {
            return;
        }
        let why = match error {
            Error::Io { what } | Error::Corrupt { what } => what.clone(),
            Error::Unavailable { why } => why.clone(),
            error => error.to_string(),
        };
        self.fail(&why, FailureCause::from(error));
    }

    /// When to try the storage again, on running time.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        let retry = self.outage.as_ref().and_then(|failure| failure.retry)?;
        (!self.buffers[FILE].has_leader).then_some(retry.at)
    }

    /// The storage was tried and failed again.
    pub(crate) fn retry_later(&mut self, why: &str) {
        let now = self.now.running;
        if let Some(failure) = &mut self.outage
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
        self.outage = None;
        for tube in self.tubes.values_mut().filter(|tube| tube.buffer == FILE) {
            tube.window = Window::default();
        }
        let buffer = &mut self.buffers[FILE];
        buffer.due_cursor.clear();
        buffer.earliest_due = 0;
        if buffer.in_flight_batch().is_some() {
            self.ids.reserved = self.ids.reserving;
            self.finish_commit(FILE);
        }
        let closed = self.closed;
        let buffer = &mut self.buffers[FILE];
        // A store that is being closed writes its last commit itself, with nobody beside it.
        if buffer.is_dirty() && !closed {
            buffer.has_waiters = true;
            self.effects.call_writer = true;
        }
    }
}
