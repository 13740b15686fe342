//! The sweeper: what falls due is done on its thread, or on the thread that moves a manual clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tubewell_drivers::NEVER;

use super::inner::{SWEEP_PENDING, StoreInner};
use super::leadership::{next_task, request_commit_now};
use crate::clock::TimeDriven;
use crate::core::{Core, FILE, MEMORY};
use crate::storage::FailureCause;
use crate::sync::MutexGuard;
use crate::{Result, WhenFull};

/// What the sweeper does under one hold of the lock.
const SWEEP_STEP: usize = 64;
/// The sweeper looks at the clock this often even if nothing is due: clocks are set, machines
/// sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl StoreInner {
    /// The loop of the sweeper thread.
    pub(crate) fn sweeper_loop(&self) {
        loop {
            if self.sweep_step() {
                continue;
            }
            let mut core = self.enter();
            if core.closed {
                return;
            }
            let now = core.now.running;
            let due = core.next_due();
            let sleep = crate::micros::duration(due.saturating_sub(now)).min(LONGEST_SLEEP);
            if !sleep.is_zero() {
                core.sweeper_wakes = now.saturating_add(crate::micros::micros_ceil(sleep));
                self.sweeper.wait_for(&mut core, sleep);
                core.sweeper_wakes = 0;
            }
            drop(core);
        }
    }

    /// As `leave`. A manual clock has everything done on the thread that moves it, and so always in
    /// the same order: what the writer thread would lead is led here, before it can come by. True
    /// if there was something.
    pub(super) fn leave_and_lead(&self, mut core: MutexGuard<'_, Core>) -> bool {
        let mut work = None;
        if self.clock.is_manual() && core.check_open().is_ok() {
            core.effects.call_writer = false;
            work = next_task(&mut core, true);
        }
        let after_unlock = self.unlock(core);
        if let Some(work) = work {
            self.run_task(work);
        }
        drop(after_unlock);
        work.is_some()
    }

    /// Sweeps until nothing is due.
    pub(crate) fn catch_up(&self) -> Result<()> {
        while self.sweep_step() {}
        self.enter().check_open()
    }

    /// Sweeps a little; true if more is due. The sweeper does not die: what goes wrong stops the
    /// store and is told to everyone.
    fn sweep_step(&self) -> bool {
        let Ok(mut core) = self.enter_with_capacity(FILE, WhenFull::Block, SWEEP_PENDING) else {
            return false;
        };
        if core.outage.is_some() {
            drop(core);
            return self.reopen(false);
        }
        let swept = catch_unwind(AssertUnwindSafe(|| core.sweep(SWEEP_STEP)));
        let more = match swept {
            Ok(Ok(more)) => more,
            Ok(Err(error)) => {
                core.fail_with(&error);
                false
            }
            Err(_) => {
                core.fail("the sweeper met a defect of its own", FailureCause::Defect);
                false
            }
        };
        self.leave_and_lead(core) || more
    }
}

impl TimeDriven for StoreInner {
    fn next_due(&self) -> Option<u64> {
        let core = self.enter();
        let idle = core.outage.is_none() && core.buffers.iter().all(|buffer| !buffer.has_leader);
        let due = match &*core {
            core if core.closed => NEVER,
            core if core.has_purges() && idle => 0,
            core => core.next_due(),
        };
        (due != NEVER).then(|| due.max(core.now.running))
    }

    fn sweep_due(&self) {
        while self.sweep_step() {}
        // Whoever moves the clock sees what fell due done, flushes included, whoever leads them.
        for buffer in [FILE, MEMORY] {
            let mut core = self.enter();
            let has_waiters = core.buffers[buffer].has_waiters && core.check_open().is_ok();
            let known = &core.buffers[buffer];
            let batch =
                if has_waiters { Some(&known.batch) } else { known.in_flight_batch() }.cloned();
            let lead = has_waiters
                && batch.as_ref().is_some_and(|it| request_commit_now(&mut core, buffer, it));
            let after_unlock = self.unlock(core);
            if lead {
                self.lead(buffer);
            }
            drop(after_unlock);
            if let Some(batch) = batch {
                // A failure is told to those whose calls it concerns.
                let _ = self.wait_batch(buffer, &batch);
            }
        }
    }
}
