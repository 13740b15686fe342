//! Who leads the next commit of a write buffer: a caller that waits for it, or the writer thread.

use std::sync::Arc;

use crate::Error;
use crate::commit::{Batch, Outcome};
use crate::core::{Core, FILE, MEMORY};
use crate::storage::{CommitError, FailureCause};

/// A commit is over: what it holds becomes visible, or stays in flight until it can be tried again.
pub(super) fn publish_outcome(
    core: &mut Core,
    buffer: usize,
    result: Result<(), CommitError>,
) -> Outcome {
    match result {
        Ok(()) => {
            if buffer == FILE {
                core.ids.reserved = core.ids.reserving;
            }
            core.finish_commit(buffer);
            Ok(())
        }
        Err(error) => {
            core.fail(&error.why, FailureCause::from(&error));
            Err(Error::OutcomeUnknown { why: error.why })
        }
    }
}

/// Somebody waits for this batch. True if the caller is to lead its commit.
pub(super) fn request_commit(core: &mut Core, buffer: usize, batch: &Arc<Batch>) -> bool {
    let buffer = &mut core.buffers[buffer];
    if !Arc::ptr_eq(&buffer.batch, batch) {
        return false;
    }
    buffer.has_waiters = true;
    !std::mem::replace(&mut buffer.has_leader, true)
}

/// As `request_commit`, for a caller who waits here and now.
pub(super) fn request_commit_now(core: &mut Core, buffer: usize, batch: &Arc<Batch>) -> bool {
    reclaim_lead(core, buffer);
    request_commit(core, buffer, batch)
}

/// Takes back what the writer thread was asked to lead, unless it is about to: it may be in others'
/// code, a waker's, and the caller with it.
pub(super) fn reclaim_lead(core: &mut Core, buffer: usize) {
    if !core.effects.writer_is_parked {
        core.buffers[buffer].reclaim_lead();
    }
}

/// Finds the next leader of a lane, if somebody waits for its pending batch.
pub(super) fn pass_lead(core: &mut Core, number: usize) {
    let failed = core.outage.is_some();
    let buffer = &mut core.buffers[number];
    buffer.has_leader = buffer.has_waiters && !failed;
    if buffer.has_leader {
        core.effects.after_unlock.leader = buffer.batch.choose_leader();
        if core.effects.after_unlock.leader.is_none() {
            buffer.left_to_writer = true;
            core.effects.call_writer = true;
        }
    }
    core.effects.room |= core.blocked_callers > 0;
}

/// What the writer thread does.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriterTask {
    /// Leads a commit of this lane.
    Commit(usize),
    /// Uses a pause.
    Shrink,
}

/// What the writer thread is to do: to lead what it was handed or nobody leads, to use a pause, or,
/// if it is to `clear`, to remove rows that nobody needs.
pub(super) fn next_task(core: &mut Core, clear: bool) -> Option<WriterTask> {
    for number in [FILE, MEMORY] {
        let buffer = &mut core.buffers[number];
        if std::mem::take(&mut buffer.left_to_writer) {
            return Some(WriterTask::Commit(number));
        }
        if buffer.has_waiters && !buffer.has_leader {
            buffer.has_leader = true;
            return Some(WriterTask::Commit(number));
        }
    }
    if !core.closed && !core.buffers[FILE].has_leader && core.take_idle_work() {
        core.buffers[FILE].has_leader = true;
        return Some(WriterTask::Shrink);
    }
    if clear
        && core.has_purges()
        && !core.closed
        && core.buffers.iter().all(|buffer| !buffer.has_leader)
    {
        match core.purge_some() {
            Ok(Some(number)) => {
                core.buffers[number].has_leader = true;
                return Some(WriterTask::Commit(number));
            }
            Ok(None) => {}
            Err(error) => core.fail_with(&error),
        }
    }
    None
}
