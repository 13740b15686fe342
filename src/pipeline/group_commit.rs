//! Leading a commit, and finding who leads the next one.

use super::inner::StoreInner;
use super::leadership::{WriterTask, next_task, pass_lead, publish_outcome};
use crate::Result;
use crate::commit::{BROKEN_OFF, BatchGuard};
use crate::core::{AfterUnlock, Core, FILE, MEMORY};
use crate::storage::{CommitError, FailureCause};
use crate::sync::MutexGuard;

impl StoreInner {
    /// The loop of the writer thread: leads what nobody else does, clears away dead spaces.
    pub(crate) fn writer_loop(&self) {
        loop {
            let mut core = self.enter();
            let work = loop {
                if core.outage.is_none()
                    && let Some(work) = next_task(&mut core, !self.clock().is_manual())
                {
                    break work;
                }
                // A leader that is still under way may have a commit to hand on.
                if core.closed && !core.buffers.iter().any(|buffer| buffer.has_leader) {
                    return;
                }
                core.effects.writer_is_parked = true;
                self.writer.wait(&mut core);
                core.effects.writer_is_parked = false;
                self.set_time(&mut core);
            };
            let after_unlock = self.unlock(core);
            self.run_task(work);
            drop(after_unlock);
        }
    }

    /// Does what the writer thread is to do. Its lane is marked as led.
    pub(super) fn run_task(&self, work: WriterTask) {
        match work {
            WriterTask::Commit(buffer) => self.lead(buffer),
            WriterTask::Shrink => self.shrink_if_drained(),
        }
    }

    /// Leads one commit of a lane, then hands the role on. The caller has marked the lane as led.
    pub(super) fn lead(&self, buffer: usize) {
        let dart = LeaderGuard { inner: self, buffer };
        let (engine, has_waiters, layer, batch, after_unlock) = {
            let mut core = self.enter();
            if core.outage.is_some() {
                // Since the role was taken, the store has failed: nobody waits here any more.
                core.buffers[buffer].has_leader = false;
                core.effects.room = true;
                self.leave(core);
                std::mem::forget(dart);
                return;
            }
            core.seal(buffer, false);
            core.cancel_flush_timer(buffer);
            let engine = core.buffers[buffer].engine().cloned();
            let has_waiters = core.buffers[buffer].has_waiters;
            let (layer, batch) = core.buffers[buffer].begin_commit();
            (engine, has_waiters, layer, batch, self.unlock(core))
        };
        #[cfg(shuttle)]
        crate::sync::explored::pause();
        let result = match &engine {
            Some(engine) => engine.commit(&layer, buffer == FILE, has_waiters),
            // Without temporary tubes, that lane has none.
            None if buffer == MEMORY => Ok(()),
            None => Err(closed()),
        };
        drop(engine);
        let mut core = self.enter();
        let outcome = publish_outcome(&mut core, buffer, result);
        if buffer == FILE && outcome.is_ok() {
            core.start_idle_timer();
        }
        pass_lead(&mut core, buffer);
        self.leave(core);
        batch.0.finish(outcome);
        std::mem::forget(dart);
        // Not before: wakers of calls that wait for capacity may wait for this commit.
        drop(after_unlock);
        // Last, without the lock: there may be many edits to let go of.
        drop(layer);
    }

    /// The last commit of a life: it says that the store was closed.
    ///
    /// The lock is released during the flush, so that other calls return `Closed` meanwhile. The
    /// caller releases the lock before it drops the rest, which may run user code.
    pub(super) fn write_last<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> (MutexGuard<'a, Core>, Result<()>, Option<(BatchGuard, AfterUnlock)>) {
        self.set_time(&mut core);
        core.keep_takes();
        core.seal(FILE, true);
        let Some(engine) = core.buffers[FILE].engine().cloned() else {
            return (core, Ok(()), None);
        };
        let (layer, batch) = core.buffers[FILE].begin_commit();
        core.buffers[FILE].has_leader = true;
        let after_unlock = self.unlock(core);
        let result = engine.commit(&layer, true, false);
        drop((engine, layer));
        let mut core = self.enter();
        core.buffers[FILE].has_leader = false;
        let outcome = publish_outcome(&mut core, FILE, result);
        let finished = (batch.0.clone(), outcome.clone());
        core.effects.after_unlock.finished.push(finished);
        (core, outcome, Some((batch, after_unlock)))
    }
}

/// Strikes if a leader panics: nobody must wait for a commit that nobody makes. Those in the commit
/// itself are told by its [`BatchGuard`](super::batch::BatchGuard).
pub(super) struct LeaderGuard<'a> {
    pub(super) inner: &'a StoreInner,
    pub(super) buffer: usize,
}

impl Drop for LeaderGuard<'_> {
    fn drop(&mut self) {
        self.inner.run(|core| {
            core.fail(BROKEN_OFF, FailureCause::Defect);
            core.buffers[self.buffer].has_leader = false;
            core.effects.room = true;
        });
    }
}

fn closed() -> CommitError {
    CommitError { why: "the store was closed".into(), unknown: false, may_pass: false }
}
