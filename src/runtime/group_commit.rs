//! Group commit: the leader of a write buffer commits the edits of all calls that share its batch.
//!
//! A write buffer has at most one leader, and at most one commit in flight.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::inner::StoreInner;
use super::leadership::{WriterTask, next_task, pass_lead, publish_outcome, request_commit};
use crate::base::sync::MutexGuard;
use crate::commit::{BatchGuard, LEADER_PANICKED, Logged, LoggedRecord};
use crate::core::{AfterUnlock, Buffer, Core};
use crate::storage::{CommitError, Engine, FailureCause, Journal};
use crate::{Error, Result};

/// How often writes look whether the file has its name still, in microseconds.
const NAME_CHECK_INTERVAL: u64 = 1_000_000;

impl StoreInner {
    /// The loop of the writer thread: leads the commits that no caller leads, purges the rows of
    /// dropped tubes, and shrinks the file in idle periods.
    pub(crate) fn writer_loop(&self) {
        loop {
            let mut core = self.lock();
            core.effects.writer_is_busy = false;
            let task = loop {
                if !core.health.has_failed()
                    && let Some(task) = next_task(&mut core, !self.clock().is_manual())
                {
                    break task;
                }
                if core.line_has_space() {
                    break WriterTask::Line;
                }
                // A leader that is still at work may pass its role to this thread.
                if core.health.is_closed() && !core.buffers.iter().any(|buffer| buffer.has_leader) {
                    return;
                }
                core.effects.writer_is_parked = true;
                self.writer.wait(&mut core);
                core.effects.writer_is_parked = false;
                self.set_time(&mut core);
            };
            core.effects.writer_is_busy = !matches!(task, WriterTask::Write | WriterTask::Line);
            let after_unlock = self.unlock_only(core);
            self.run_task(task);
            drop(after_unlock);
        }
    }

    /// Runs a task of the writer thread. For a commit and a shrink, the caller has set `has_leader`
    /// of the write buffer.
    pub(super) fn run_task(&self, task: WriterTask) {
        match task {
            WriterTask::Commit(buffer) => self.lead(buffer),
            WriterTask::Write => self.write_deferred(self.lock(), true),
            WriterTask::Shrink => self.shrink_if_mostly_empty(),
            // The release of the lock has carried out a step of it.
            WriterTask::Line => {}
        }
    }

    /// Leads one commit of a write buffer, then passes the role on. The caller has set
    /// `has_leader`.
    pub(super) fn lead(&self, buffer: Buffer) {
        self.lead_locked(self.lock(), buffer);
    }

    /// As `lead`, for a caller that has the lock.
    pub(super) fn lead_locked(&self, core: MutexGuard<'_, Core>, buffer: Buffer) {
        let guard = LeaderGuard { inner: self, buffer };
        // Moved in both calls, so that a panic releases the lock before the guard takes it.
        let Some(commit) = self.begin_commit(core, buffer) else {
            std::mem::forget(guard);
            return;
        };
        #[cfg(feature = "_shuttle")]
        crate::base::sync::explored::switch_point();
        let BegunCommit { engine, logged, batch, written, after_unlock } = commit;
        let (result, took) = self.timed(|| carry_out(engine.as_deref(), &logged, buffer));
        drop(engine);
        let mut core = self.lock();
        if buffer == Buffer::File {
            match logged {
                Logged::Record(_) => core.threads.flushes.add(took),
                Logged::Direct(_) => core.threads.checkpoints.add(took),
            }
        }
        let outcome = publish_outcome(&mut core, buffer, &logged, result);
        if buffer == Buffer::File && outcome.is_ok() {
            core.start_idle_timer();
        }
        pass_lead(&mut core, buffer);
        batch.0.announce_to_leader(outcome.clone());
        self.unlock(core);
        if let Some(written) = &written {
            written.0.finish(outcome.clone());
        }
        batch.0.finish(outcome);
        std::mem::forget(guard);
        // Not before: wakers of calls that wait for capacity may wait for this commit.
        drop(after_unlock);
        // Last, and without the lock: dropping many edits takes long.
        drop(logged);
        self.run_checkpoint_here();
    }

    /// Moves the active edits into a commit. `None` if the store has failed since the role was
    /// taken, which has ended all waits.
    fn begin_commit<'a>(
        &'a self,
        core: MutexGuard<'a, Core>,
        buffer: Buffer,
    ) -> Option<BegunCommit> {
        let mut core = core;
        self.do_chore_beside_calls(&mut core, buffer);
        let mut has_waited = false;
        loop {
            if core.health.has_failed() {
                core.buffers[buffer].has_leader = false;
                core.effects.capacity_freed = true;
                self.unlock(core);
                return None;
            }
            let engine = core.buffers[buffer].engine().cloned();
            let may_begin = buffer == Buffer::Memory || !core.undo.transaction_is_next();
            if may_begin && let Some((logged, batch)) = core.begin_commit(buffer) {
                // Calls that wait for a write do not wait for this flush, if a thread was asked to
                // write.
                let is_left =
                    matches!(logged, Logged::Record(_)) && core.buffers[buffer].needs_write;
                let written = (!is_left).then(|| core.buffers[buffer].take_write_batch()).flatten();
                let after_unlock = self.unlock_only(core);
                return Some(BegunCommit { engine, logged, batch, written, after_unlock });
            }
            drop(engine);
            core.threads.journal_waits += u64::from(may_begin && !has_waited);
            has_waited |= may_begin;
            core = self.wait_for_checkpoint(core);
        }
    }

    /// Does a step of a chore in every second commit for which callers wait: the writer thread leads
    /// none while they do not pause. With a manual clock, chores run only when the clock advances.
    fn do_chore_beside_calls(&self, core: &mut Core, buffer: Buffer) {
        let may_do = core.buffers[buffer].has_waiters
            && core.has_chores()
            && core.check_open().is_ok()
            && !core.undo.transaction_is_next()
            && !self.clock().is_manual();
        let is_next = &mut core.buffers[buffer].chore_is_next;
        if !std::mem::replace(is_next, may_do && !*is_next) || !may_do {
            return;
        }
        if let Err(error) = core.do_next_chore(buffer) {
            core.fail_with(&error);
        }
    }

    /// Writes the journal for the deferred calls that wait for it. If their edits must go to the
    /// database, leads that commit, or without `may_lead` leaves it to the writer thread.
    pub(super) fn write_deferred(&self, mut core: MutexGuard<'_, Core>, may_lead: bool) {
        core.buffers[Buffer::File].needs_write = false;
        if core.check_open().is_err() {
            return self.unlock(core);
        }
        let Some((journal, number)) = core.log_to_journal() else {
            // The leader of the next commit finishes the batch.
            let commit = core.flush_of(Buffer::File);
            let lead = may_lead && request_commit(&mut core, Buffer::File, commit.batch());
            if !may_lead {
                core.ask_writer(&commit);
            }
            self.unlock(core);
            if lead {
                self.lead(Buffer::File);
            }
            return;
        };
        let batch = core.buffers[Buffer::File].take_write_batch();
        self.unlock(core);
        let outcome = self.write_journal(&journal, number);
        if let Some(batch) = batch {
            batch.0.finish(outcome);
        }
        self.run_checkpoint_here();
    }

    /// Writes a record that the caller has logged.
    pub(crate) fn write_record(&self, record: &LoggedRecord) -> Result<()> {
        self.write_journal(&record.0, record.1)?;
        self.run_checkpoint_here();
        Ok(())
    }

    /// Returns once the operating system has this record of the journal.
    pub(super) fn write_journal(&self, journal: &Arc<Journal>, number: u64) -> Result<()> {
        let written = journal.write(number, false);
        written.and_then(|()| self.check_name_now_and_then(journal)).map_err(|error| {
            self.run(|core| {
                // Another thread may have reported the failure, and the store may work again.
                if core.buffers[Buffer::File].journal().is_some_and(|it| Arc::ptr_eq(it, journal)) {
                    core.fail(&error.why, FailureCause::from(&error));
                }
            });
            Error::OutcomeUnknown { why: error.why }
        })
    }

    /// Looks once a second whether the file has its name still; each flush looks too.
    fn check_name_now_and_then(&self, journal: &Journal) -> Result<(), CommitError> {
        let (now, last) = (self.clock.running(), self.name_checked_at.load(Ordering::Relaxed));
        if now.saturating_sub(last) < NAME_CHECK_INTERVAL {
            return Ok(());
        }
        self.name_checked_at.store(now, Ordering::Relaxed);
        journal.check_name()
    }

    /// The last commit of a run: its header says that the store was closed. It goes to the database,
    /// with everything in the journal.
    ///
    /// The lock is released during the flush, so that other calls return `Closed` meanwhile. The
    /// caller releases the lock before it drops the rest, which may run user code.
    pub(super) fn write_last<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> (MutexGuard<'a, Core>, Result<()>, Option<LastCommit>) {
        self.set_time(&mut core);
        core.write_ends_of_claims();
        let Some((edits, batch)) = core.begin_last_commit() else { return (core, Ok(()), None) };
        let Some(engine) = core.buffers[Buffer::File].engine().cloned() else {
            return (core, Ok(()), None);
        };
        let written = core.buffers[Buffer::File].take_write_batch();
        core.buffers[Buffer::File].has_leader = true;
        let after_unlock = self.unlock_only(core);
        let result = engine.checkpoint(&edits, true);
        drop(engine);
        let mut core = self.lock();
        core.buffers[Buffer::File].has_leader = false;
        let outcome = publish_outcome(&mut core, Buffer::File, &Logged::Direct(edits), result);
        for batch in std::iter::once(&batch).chain(&written) {
            let finished = (batch.0.clone(), outcome.clone());
            core.effects.after_unlock.deeds().finished.push(finished);
        }
        (core, outcome, Some((batch, written, after_unlock)))
    }
}

/// What is dropped after the last commit, without the lock.
pub(super) type LastCommit = (BatchGuard, Option<BatchGuard>, AfterUnlock);

/// A commit that a leader has begun.
struct BegunCommit {
    engine: Option<Arc<Engine>>,
    logged: Logged,
    batch: BatchGuard,
    /// The deferred calls that wait for the write of this commit.
    written: Option<BatchGuard>,
    after_unlock: AfterUnlock,
}

/// Flushes a commit.
fn carry_out(engine: Option<&Engine>, logged: &Logged, buffer: Buffer) -> Result<(), CommitError> {
    match (engine, logged) {
        (Some(engine), Logged::Record(number)) => match engine.journal() {
            Some(journal) => journal.write(*number, true),
            None => Ok(()),
        },
        (Some(engine), Logged::Direct(edits)) => engine.checkpoint(edits, buffer == Buffer::File),
        // The write buffer of temporary tubes has no engine before the first such tube.
        (None, _) if buffer == Buffer::Memory => Ok(()),
        (None, _) => Err(CommitError::closed()),
    }
}

/// Stops the store if a leader panics, so that no caller waits for a commit that has no leader. The
/// `BatchGuard` of the batch reports the panic to the calls of the commit itself.
pub(super) struct LeaderGuard<'a> {
    pub(super) inner: &'a StoreInner,
    pub(super) buffer: Buffer,
}

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        self.inner.run(|core| {
            core.fail(LEADER_PANICKED, FailureCause::Defect);
            core.buffers[self.buffer].has_leader = false;
            core.effects.capacity_freed = true;
        });
    }
}
