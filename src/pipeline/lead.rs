//! Leading a commit, and finding who leads the next one.

use std::sync::Arc;

use super::batch::{BROKEN_OFF, Batch, Outcome};
use super::shared::Shared;
use crate::core::{Cause, Core, FILE, MEMORY};
use crate::storage::CommitError;
use crate::{Error, Result};

impl Shared {
    /// The loop of the writer thread: leads what nobody else does, clears away dead spaces.
    pub(crate) fn write_on(&self) {
        loop {
            let mut core = self.enter();
            let work = loop {
                if core.failed.is_none()
                    && let Some(work) = next_work(&mut core, !self.clock().is_manual())
                {
                    break work;
                }
                // A leader that is still under way may have a commit to hand on.
                if core.closed && !core.lanes.iter().any(|lane| lane.led) {
                    return;
                }
                core.outbox.writer_rests = true;
                self.writer.wait(&mut core);
                core.outbox.writer_rests = false;
                self.set_time(&mut core);
            };
            self.leave(core);
            self.perform(work);
        }
    }

    /// Does what the writer thread is to do. Its lane is marked as led.
    pub(super) fn perform(&self, work: Work) {
        match work {
            Work::Commit(lane) => self.lead(lane),
            Work::Rest => self.rest(),
        }
    }

    /// Leads one commit of a lane, then hands the role on. The caller has marked the lane as led.
    pub(super) fn lead(&self, lane: usize) {
        let dart = Dart { shared: self, lane };
        let (engine, awaited, layer, batch) = {
            let mut core = self.enter();
            if core.failed.is_some() {
                // Since the role was taken, the store has failed: nobody waits here any more.
                core.lanes[lane].led = false;
                core.outbox.room = true;
                self.leave(core);
                std::mem::forget(dart);
                return;
            }
            core.seal(lane, false);
            core.calm_flush_timer(lane);
            let engine = core.lanes[lane].engine().cloned();
            let awaited = core.lanes[lane].wanted;
            let (layer, batch) = core.lanes[lane].launch();
            self.leave(core);
            (engine, awaited, layer, batch)
        };
        #[cfg(shuttle)]
        crate::sync::explored::pause();
        let result = match &engine {
            Some(engine) => engine.commit(&layer, lane == FILE, awaited),
            // Without temporary tubes, that lane has none.
            None if lane == MEMORY => Ok(()),
            None => Err(closed()),
        };
        drop(engine);
        let mut core = self.enter();
        let outcome = settle(&mut core, lane, result);
        if lane == FILE && outcome.is_ok() {
            core.await_pause();
        }
        hand_on(&mut core, lane);
        self.leave(core);
        batch.0.finish(outcome);
        std::mem::forget(dart);
        // Last, without the lock: there may be many edits to let go of.
        drop(layer);
    }

    /// The last commit of a life: it says that the store was closed.
    pub(super) fn write_last(&self, core: &mut Core) -> Result<()> {
        self.set_time(core);
        core.keep_takes();
        core.seal(FILE, true);
        let Some(engine) = core.lanes[FILE].engine().cloned() else { return Ok(()) };
        let (layer, batch) = core.lanes[FILE].launch();
        let result = engine.commit(&layer, true, false);
        let outcome = settle(core, FILE, result);
        batch.0.finish(outcome.clone());
        outcome
    }
}

/// A commit is over: what it holds becomes visible, or stays in flight until it can be tried again.
fn settle(core: &mut Core, lane: usize, result: Result<(), CommitError>) -> Outcome {
    match result {
        Ok(()) => {
            if lane == FILE {
                core.ids.reserved = core.ids.reserving;
            }
            core.land(lane);
            Ok(())
        }
        Err(error) => {
            core.fail(&error.why, Cause::from(&error));
            Err(Error::OutcomeUnknown { why: error.why })
        }
    }
}

fn closed() -> CommitError {
    CommitError { why: "the store was closed".into(), unknown: false, may_pass: false }
}

/// Somebody waits for this batch. True if the caller is to lead its commit.
pub(super) fn want(core: &mut Core, lane: usize, batch: &Arc<Batch>) -> bool {
    let lane = &mut core.lanes[lane];
    if !Arc::ptr_eq(&lane.batch, batch) {
        return false;
    }
    lane.wanted = true;
    !std::mem::replace(&mut lane.led, true)
}

/// As `want`, for a caller who waits here and now.
pub(super) fn want_now(core: &mut Core, lane: usize, batch: &Arc<Batch>) -> bool {
    recall(core, lane);
    want(core, lane, batch)
}

/// Takes back what the writer thread was asked to lead, unless it is about to: it may be in others'
/// code, a waker's, and the caller with it.
pub(super) fn recall(core: &mut Core, lane: usize) {
    if !core.outbox.writer_rests {
        core.lanes[lane].recall();
    }
}

/// Finds the next leader of a lane, if somebody waits for its pending batch.
pub(super) fn hand_on(core: &mut Core, number: usize) {
    let failed = core.failed.is_some();
    let lane = &mut core.lanes[number];
    lane.led = lane.wanted && !failed;
    if lane.led {
        core.outbox.errands.leader = lane.batch.hand_over();
        if core.outbox.errands.leader.is_none() {
            lane.handed = true;
            core.outbox.call_writer = true;
        }
    }
    core.outbox.room |= core.held_up > 0;
}

/// What the writer thread does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Leads a commit of this lane.
    Commit(usize),
    /// Uses a pause.
    Rest,
}

/// What the writer thread is to do: to lead what it was handed or nobody leads, to use a pause, or,
/// if it is to `clear`, to remove rows that nobody needs.
pub(super) fn next_work(core: &mut Core, clear: bool) -> Option<Work> {
    for number in [FILE, MEMORY] {
        let lane = &mut core.lanes[number];
        if std::mem::take(&mut lane.handed) {
            return Some(Work::Commit(number));
        }
        if lane.wanted && !lane.led {
            lane.led = true;
            return Some(Work::Commit(number));
        }
    }
    if !core.closed && !core.lanes[FILE].led && core.begins_to_rest() {
        core.lanes[FILE].led = true;
        return Some(Work::Rest);
    }
    if clear && core.has_dying() && !core.closed && core.lanes.iter().all(|lane| !lane.led) {
        match core.clear_some() {
            Ok(Some(number)) => {
                core.lanes[number].led = true;
                return Some(Work::Commit(number));
            }
            Ok(None) => {}
            Err(error) => core.fail_with(&error),
        }
    }
    None
}

/// Strikes if a leader panics: nobody must wait for a commit that nobody makes. Those in the commit
/// itself are told by its [`Led`](super::batch::Led).
pub(super) struct Dart<'a> {
    pub(super) shared: &'a Shared,
    pub(super) lane: usize,
}

impl Drop for Dart<'_> {
    fn drop(&mut self) {
        self.shared.run(|core| {
            core.fail(BROKEN_OFF, Cause::Defect);
            core.lanes[self.lane].led = false;
            core.outbox.room = true;
        });
    }
}
