//! The sweeper: processes what falls due, on its own thread or on the thread that advances a manual
//! clock.
//!
//! It holds the lock for a bounded slice of work at a time.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tubewell_drivers::NEVER;

use super::checkpoint::must_write;
use super::inner::{SWEEP_MAX_ACTIVE_ROWS, StoreInner};
use super::leadership::{next_task, request_commit_now};
use crate::Result;
use crate::base::clock::TimeDriven;
use crate::base::micros::duration;
use crate::base::sync::MutexGuard;
use crate::base::user_code::catch_panic;
use crate::commit::WriteBuffer;
use crate::core::{Buffer, Core};
use crate::storage::FailureCause;

/// Dues that the sweeper processes each time that it holds the lock.
const SWEEP_SLICE: usize = 64;
/// The sweeper wakes at least this often, even if nothing is due: a suspend of the machine advances
/// the timeline, but not the clock of its wait.
const MAX_SLEEP: Duration = Duration::from_secs(30);

impl StoreInner {
    /// The loop of the sweeper thread.
    pub(crate) fn sweeper_loop(&self) {
        loop {
            if self.sweep_step() {
                continue;
            }
            let mut core = self.lock();
            if core.health.is_closed() {
                return;
            }
            if must_write(&core) && core.threads.checkpoint_is_busy {
                self.write_deferred(core, false);
                continue;
            }
            let now = core.now.running;
            let due = core.next_due();
            let sleep = duration(due.saturating_sub(now)).min(MAX_SLEEP);
            if !sleep.is_zero() {
                core.threads.sweeper_wakes_at =
                    now.saturating_add(crate::base::micros::micros_ceil(sleep));
                self.sweeper.wait_for(&mut core, sleep);
                core.threads.sweeper_wakes_at = 0;
            }
            drop(core);
        }
    }

    /// As `unlock`. With a manual clock, first runs the next task of the writer thread here, before
    /// that thread can wake. So everything runs on the thread that advances the clock, always in
    /// the same order. Returns true if there was a task.
    pub(super) fn unlock_and_run_task(&self, mut core: MutexGuard<'_, Core>) -> bool {
        let mut task = None;
        if self.clock.is_manual() && core.check_open().is_ok() {
            core.effects.call_writer = false;
            task = next_task(&mut core, true);
        }
        let after_unlock = self.unlock_only(core);
        if let Some(task) = task {
            self.run_task(task);
        }
        drop(after_unlock);
        task.is_some()
    }

    /// Sweeps until nothing is due, and tells all children of parents that have ended of it.
    /// Calls `progress` with how many dues of tasks are done, which may end it: the sweeper does the rest.
    pub(crate) fn catch_up(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        self.check_outside_transaction()?;
        let before = {
            let mut core = self.lock();
            core.config.hold_due = false;
            core.threads.swept
        };
        while self.sweep_step() {
            let swept = self.lock().threads.swept;
            let mut goes_on = ControlFlow::Continue(());
            catch_panic(|| goes_on = progress(swept - before));
            if goes_on.is_break() {
                return self.lock().check_open();
            }
        }
        if !self.lock().has_ends_to_tell() {
            if self.lock().has_invisible_changes() {
                // Schedules have put tasks, or the writer thread has told the last children.
                self.flush_buffer(Buffer::File)?;
            }
            return self.lock().check_open();
        }
        loop {
            let has_more = self.step(Core::tell_children);
            // A step is visible once it is committed. The last one may be that of the writer thread.
            self.flush_buffer(Buffer::File)?;
            self.flush_buffer(Buffer::Memory)?;
            if !has_more {
                return self.lock().check_open();
            }
        }
    }

    /// Sweeps one slice. Returns true if more is due.
    fn sweep_step(&self) -> bool {
        self.step(|core| core.sweep(SWEEP_SLICE))
    }

    /// Makes a step, and returns whether more is to be done. An error or a panic stops the store, which
    /// reports it to every caller; the sweeper itself continues.
    fn step(&self, step: impl FnOnce(&mut Core) -> Result<bool>) -> bool {
        let Ok(mut core) = self.lock_with_capacity(Buffer::File, SWEEP_MAX_ACTIVE_ROWS) else {
            return false;
        };
        if core.health.has_failed() {
            drop(core);
            return self.reopen(false);
        }
        let swept = catch_unwind(AssertUnwindSafe(|| step(&mut core)));
        let more = match swept {
            Ok(Ok(more)) => more,
            Ok(Err(error)) => {
                core.fail_with(&error);
                false
            }
            Err(_) => {
                core.fail("the sweeper panicked", FailureCause::Defect);
                false
            }
        };
        self.unlock_and_run_task(core) || more
    }
}

impl TimeDriven for StoreInner {
    fn next_due(&self) -> Option<u64> {
        self.check_process().ok()?;
        let core = self.lock();
        let idle =
            !core.health.has_failed() && core.buffers.iter().all(|buffer| !buffer.has_leader);
        let due = match &*core {
            core if core.health.is_closed() => NEVER,
            core if core.has_chores() && idle => 0,
            core if core.health.has_failed() => core.next_due(),
            // A flush that another thread has begun may be due too.
            core => {
                let flushes = core.buffers.iter().filter_map(WriteBuffer::in_flight_flush_by);
                flushes.min().unwrap_or(NEVER).min(core.next_due())
            }
        };
        (due != NEVER).then(|| due.max(core.now.running))
    }

    fn sweep_due(&self) {
        if self.check_process().is_err() {
            return;
        }
        if self.in_transaction.is_here() {
            return self.in_transaction.note_skipped_sweep();
        }
        while self.sweep_step() {}
        // When the clock has advanced, everything that fell due is processed and flushed, also if
        // another thread leads the commit.
        for buffer in Buffer::ALL {
            let mut core = self.lock();
            let has_waiters = core.buffers[buffer].has_waiters && core.check_open().is_ok();
            let edits = &core.buffers[buffer];
            let batch =
                if has_waiters { Some(&edits.batch) } else { edits.in_flight_batch() }.cloned();
            let lead = has_waiters
                && batch.as_ref().is_some_and(|it| request_commit_now(&mut core, buffer, it));
            let after_unlock = self.unlock_only(core);
            if lead {
                self.lead(buffer);
            }
            drop(after_unlock);
            if let Some(batch) = batch {
                // A failure is reported to the calls of the batch.
                let _ = self.wait_batch(buffer, &batch);
            }
        }
    }
}
