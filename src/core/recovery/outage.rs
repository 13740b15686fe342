//! The failure of the storage: all waits end with an error, and the store resumes when the storage
//! works again.
//!
//! What is decided stays decided: its edits stay in memory, and are committed after the reopen.

use crate::Error;
use crate::commit::DueCursor;
use crate::core::state::window::Window;
use crate::core::state::{Buffer, Core};
use crate::storage::FailureCause;

impl Core {
    /// A call has panicked, which drivers may. In the middle of a change it stops the store.
    pub(crate) fn fail_after_panic(&mut self, why: String) -> Error {
        if self.health.is_changing() {
            self.fail("a call panicked in the middle of a change", FailureCause::Defect);
        }
        Error::OutcomeUnknown { why: format!("the call panicked: {why}") }
    }

    /// Stops all writing and ends all waits. The edits of decided calls stay in flight or in the
    /// active buffer, and are written by the first commit that succeeds. Until then their outcome
    /// is unknown. A leader with a commit in flight reports the failure to its batch itself.
    pub(crate) fn fail(&mut self, why: &str, cause: FailureCause) {
        let now = self.now.running;
        let error = self.health.fail(why, cause == FailureCause::Defect, now);
        let unknown = Error::OutcomeUnknown { why: why.to_owned() };
        for of in Buffer::ALL {
            let buffer = &mut self.buffers[of];
            if of == Buffer::File || cause == FailureCause::Defect {
                self.effects
                    .after_unlock
                    .deeds()
                    .finished
                    .push((buffer.replace_batch(), Err(unknown.clone())));
            }
            if let Some(written) = buffer.take_write_batch() {
                let finished = (written.0.clone(), Err(unknown.clone()));
                self.effects.after_unlock.deeds().finished.push(finished);
            }
            // The writer thread leads no commit now.
            buffer.reclaim_lead();
        }
        self.effects.capacity_freed = true;
        self.end_all_waits(&error);
    }

    /// Ends the waits for a commit that were decided since the store has failed: a call that fails
    /// the store half-way goes on, and no leader begins its commit. The outcome is unknown.
    pub(crate) fn end_late_waits(&mut self) {
        let Some(why) = self.health.why_failed() else { return };
        let buffer = &mut self.buffers[Buffer::File];
        if buffer.has_waiters {
            let unknown = Error::OutcomeUnknown { why: why.to_owned() };
            self.effects.after_unlock.deeds().finished.push((buffer.replace_batch(), Err(unknown)));
        }
    }

    /// As `fail`, with the cause from an error. Does nothing if the store has failed already: the
    /// error is a consequence then, and `resume` discards what memory has read from the file.
    pub(crate) fn fail_with(&mut self, error: &Error) {
        if self.health.has_failed() || self.health.is_closed() {
            return;
        }
        let why = match error {
            Error::Io { what } | Error::Corrupt { what } => what.clone(),
            Error::Unavailable { why } => why.clone(),
            error => error.to_string(),
        };
        self.fail(&why, FailureCause::from(error));
    }

    /// When to retry the storage, on running time. `None` if there is no retry or one is in
    /// progress.
    pub(crate) fn retry_at(&self) -> Option<u64> {
        let at = self.health.retry_at()?;
        let is_free = !self.buffers[Buffer::File].has_leader
            && !self.threads.checkpoint_is_busy
            && !self.buffers[Buffer::File].edits.is_reserved;
        is_free.then_some(at)
    }

    /// Schedules the next retry after one that failed.
    pub(crate) fn retry_later(&mut self, why: &str) {
        self.health.retry_later(why, self.now.running);
    }

    /// Resumes work: the storage works again, and the edits in flight are in the file. The failure
    /// may have cut short what memory has read from the file, so that is discarded and read again.
    pub(crate) fn resume(&mut self) {
        self.health.recover();
        for tube in self.tubes.values_mut().filter(|tube| tube.buffer == Buffer::File) {
            tube.window = Window::default();
            for holders in tube.busy.values_mut() {
                holders.set_searched(None);
            }
        }
        let buffer = &mut self.buffers[Buffer::File];
        buffer.dues = DueCursor::default();
        buffer.moments = DueCursor::default();
        buffer.tokens = DueCursor::default();
        self.ids.storage_is_reopened();
        if buffer.in_flight_batch().is_some() {
            self.finish_flush(Buffer::File);
        }
        self.record_ends();
        let closed = self.health.is_closed();
        self.effects.call_writer |= self.has_chores();
        let buffer = &mut self.buffers[Buffer::File];
        // A store that is closing writes its last commit itself.
        if buffer.is_dirty() && !closed {
            buffer.has_waiters = true;
            self.effects.call_writer = true;
        }
    }
}
