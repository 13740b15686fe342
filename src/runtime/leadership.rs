//! The choice of the leader of the next commit: a caller that waits for it, or the writer thread.
//!
//! `has_leader` of a write buffer is set while a leader has the role or has been asked to take it.

use std::sync::Arc;

use crate::Error;
use crate::commit::{Batch, Logged, Outcome};
use crate::core::{Buffer, Core};
use crate::storage::{CommitError, FailureCause};

/// Processes the result of a commit: its changes become visible, or stay in flight until the commit
/// is retried.
pub(super) fn publish_outcome(
    core: &mut Core,
    buffer: Buffer,
    logged: &Logged,
    result: Result<(), CommitError>,
) -> Outcome {
    match result {
        Ok(()) => {
            if matches!(logged, Logged::Direct(_)) {
                core.finish_checkpoint(buffer);
            }
            core.finish_flush(buffer);
            Ok(())
        }
        Err(error) => {
            core.fail(&error.why, FailureCause::from(&error));
            Err(Error::OutcomeUnknown { why: error.why })
        }
    }
}

/// Notes that a caller waits for this batch. Returns true if the caller must lead its commit.
pub(super) fn request_commit(core: &mut Core, buffer: Buffer, batch: &Arc<Batch>) -> bool {
    let buffer = &mut core.buffers[buffer];
    if !Arc::ptr_eq(&buffer.batch, batch) {
        return false;
    }
    buffer.has_waiters = true;
    !std::mem::replace(&mut buffer.has_leader, true)
}

/// As `request_commit`, for a caller that waits immediately.
pub(super) fn request_commit_now(core: &mut Core, buffer: Buffer, batch: &Arc<Batch>) -> bool {
    reclaim_lead(core, buffer);
    request_commit(core, buffer, batch)
}

/// Takes back the role that the writer thread was asked to take, unless that thread is parked and
/// about to take it. Otherwise it may be running user code, such as a waker that made this very
/// call.
pub(super) fn reclaim_lead(core: &mut Core, buffer: Buffer) {
    if !core.effects.writer_is_parked {
        core.buffers[buffer].reclaim_lead();
    }
}

/// Chooses the next leader of a write buffer, if a caller waits for its active batch.
pub(super) fn pass_lead(core: &mut Core, of: Buffer) {
    let failed = core.health.has_failed();
    let buffer = &mut core.buffers[of];
    buffer.has_leader = buffer.has_waiters && !failed;
    if buffer.has_leader {
        match buffer.batch.choose_leader() {
            Some(leader) => core.effects.after_unlock.deeds().leader = Some(leader),
            None => {
                buffer.left_to_writer = true;
                core.effects.call_writer = true;
            }
        }
    }
    core.effects.capacity_freed |= core.waits.has_blocked();
    // The writer thread may have found that there was a leader.
    core.effects.call_writer |= core.has_chores();
}

/// A task of the writer thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum WriterTask {
    /// Leads a commit of this write buffer.
    Commit(Buffer),
    /// Writes the journal for deferred calls.
    Write,
    /// Shrinks the file in an idle period.
    Shrink,
    /// Carries out calls in line.
    Line,
}

/// The next task of the writer thread: a write of the journal, then a commit that was left to it or
/// has no leader, then the shrinking of an idle file, then, with `chores`, a step of a chore, such as
/// a commit that purges rows.
pub(super) fn next_task(core: &mut Core, chores: bool) -> Option<WriterTask> {
    if core.buffers[Buffer::File].needs_write {
        return Some(WriterTask::Write);
    }
    for of in Buffer::ALL {
        let buffer = &mut core.buffers[of];
        if std::mem::take(&mut buffer.left_to_writer) {
            return Some(WriterTask::Commit(of));
        }
        if buffer.has_waiters && !buffer.has_leader {
            buffer.has_leader = true;
            return Some(WriterTask::Commit(of));
        }
    }
    if !core.health.is_closed() && !core.buffers[Buffer::File].has_leader && core.take_idle_work() {
        core.buffers[Buffer::File].has_leader = true;
        return Some(WriterTask::Shrink);
    }
    if !chores || core.health.is_closed() || !core.has_chores() {
        return None;
    }
    for of in Buffer::ALL {
        if core.buffers[of].has_leader {
            continue;
        }
        match core.do_next_chore(of) {
            Ok(true) => {
                core.buffers[of].has_leader = true;
                return Some(WriterTask::Commit(of));
            }
            Ok(false) => {}
            Err(error) => {
                core.fail_with(&error);
                return None;
            }
        }
    }
    None
}
