//! Group commit: the leader of a write buffer commits the edits of all calls that share its batch.
//!
//! A write buffer has at most one leader, and at most one commit in flight.

use super::inner::StoreInner;
use super::leadership::{WriterTask, next_task, pass_lead, publish_outcome};
use crate::Result;
use crate::commit::{BatchGuard, LEADER_PANICKED};
use crate::core::{AfterUnlock, Core, FILE, MEMORY};
use crate::storage::{CommitError, FailureCause};
use crate::sync::MutexGuard;

impl StoreInner {
    /// The loop of the writer thread: leads the commits that no caller leads, purges the rows of
    /// dropped tubes, and shrinks the file in idle periods.
    pub(crate) fn writer_loop(&self) {
        loop {
            let mut core = self.lock();
            let task = loop {
                if core.outage.is_none()
                    && let Some(task) = next_task(&mut core, !self.clock().is_manual())
                {
                    break task;
                }
                // A leader that is still at work may pass its role to this thread.
                if core.closed && !core.buffers.iter().any(|buffer| buffer.has_leader) {
                    return;
                }
                core.effects.writer_is_parked = true;
                self.writer.wait(&mut core);
                core.effects.writer_is_parked = false;
                self.set_time(&mut core);
            };
            let after_unlock = self.unlock_only(core);
            self.run_task(task);
            drop(after_unlock);
        }
    }

    /// Runs a task of the writer thread. The caller has set `has_leader` of its write buffer.
    pub(super) fn run_task(&self, task: WriterTask) {
        match task {
            WriterTask::Commit(buffer) => self.lead(buffer),
            WriterTask::Shrink => self.shrink_if_mostly_empty(),
        }
    }

    /// Leads one commit of a write buffer, then passes the role on. The caller has set
    /// `has_leader`.
    pub(super) fn lead(&self, buffer: usize) {
        let guard = LeaderGuard { inner: self, buffer };
        let (engine, has_waiters, edits, batch, after_unlock) = {
            let mut core = self.lock();
            if core.outage.is_some() {
                // The store has failed since the role was taken, which has ended all waits.
                core.buffers[buffer].has_leader = false;
                core.effects.capacity_freed = true;
                self.unlock(core);
                std::mem::forget(guard);
                return;
            }
            core.seal(buffer, false);
            core.cancel_flush_timer(buffer);
            let engine = core.buffers[buffer].engine().cloned();
            let has_waiters = core.buffers[buffer].has_waiters;
            let (edits, batch) = core.buffers[buffer].begin_commit();
            (engine, has_waiters, edits, batch, self.unlock_only(core))
        };
        #[cfg(feature = "_shuttle")]
        crate::sync::explored::switch_point();
        let result = match &engine {
            Some(engine) => engine.commit(&edits, buffer == FILE, has_waiters),
            // The write buffer of temporary tubes has no engine before the first such tube.
            None if buffer == MEMORY => Ok(()),
            None => Err(closed()),
        };
        drop(engine);
        let mut core = self.lock();
        let outcome = publish_outcome(&mut core, buffer, result);
        if buffer == FILE && outcome.is_ok() {
            core.start_idle_timer();
        }
        pass_lead(&mut core, buffer);
        batch.0.announce_to_leader(outcome.clone());
        self.unlock(core);
        batch.0.finish(outcome);
        std::mem::forget(guard);
        // Not before: wakers of calls that wait for capacity may wait for this commit.
        drop(after_unlock);
        // Last, and without the lock: dropping many edits takes long.
        drop(edits);
    }

    /// The last commit of a run: its header says that the store was closed.
    ///
    /// The lock is released during the flush, so that other calls return `Closed` meanwhile. The
    /// caller releases the lock before it drops the rest, which may run user code.
    pub(super) fn write_last<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> (MutexGuard<'a, Core>, Result<()>, Option<(BatchGuard, AfterUnlock)>) {
        self.set_time(&mut core);
        core.write_take_counts();
        core.seal(FILE, true);
        let Some(engine) = core.buffers[FILE].engine().cloned() else {
            return (core, Ok(()), None);
        };
        let (edits, batch) = core.buffers[FILE].begin_commit();
        core.buffers[FILE].has_leader = true;
        let after_unlock = self.unlock_only(core);
        let result = engine.commit(&edits, true, false);
        drop((engine, edits));
        let mut core = self.lock();
        core.buffers[FILE].has_leader = false;
        let outcome = publish_outcome(&mut core, FILE, result);
        let finished = (batch.0.clone(), outcome.clone());
        core.effects.after_unlock.finished.push(finished);
        (core, outcome, Some((batch, after_unlock)))
    }
}

/// Stops the store if a leader panics, so that no caller waits for a commit that has no leader. The
/// `BatchGuard` of the batch reports the panic to the calls of the commit itself.
pub(super) struct LeaderGuard<'a> {
    pub(super) inner: &'a StoreInner,
    pub(super) buffer: usize,
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

fn closed() -> CommitError {
    CommitError { why: "the store was closed".into(), outcome_unknown: false, is_transient: false }
}
