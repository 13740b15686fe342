//! Reopening a storage that failed, in place. Handles, claims and sessions stay valid.
//!
//! Memory has all edits that the database does not have: it writes them to the database with one
//! commit, whatever the journal has. A commit number is used for one set of edits only, over failures
//! too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::inner::StoreInner;
use crate::commit::Restore;
use crate::core::{FILE, last_commit};
use crate::storage::{Checkpoint, Engine, FailureCause};
use crate::{Error, Result};

impl StoreInner {
    /// Retries a failed storage if the retry is due, or in any case with `force`. Returns true if
    /// the store works again.
    ///
    /// The commits that the database may not have are repeated first, so that no decided edit is lost.
    pub(super) fn reopen(&self, force: bool) -> bool {
        let mut core = self.lock();
        let due = core.retry_at().is_some_and(|at| force || at <= core.now.running);
        let buffer = &mut core.buffers[FILE];
        let Some(restore) = due.then(|| buffer.begin_restore()).flatten() else { return false };
        let Restore { engine, edits, commits } = restore;
        // No other leader can begin a commit meanwhile, and close waits for this one.
        buffer.has_leader = true;
        drop(core);
        // Wait for the reads that use the old engine without the core's lock.
        drop(self.engine_reads.write());
        let (engine, outcome) = match Arc::try_unwrap(engine) {
            Ok(mut engine) => {
                let call = AssertUnwindSafe(|| repeat_commits(&mut engine, &edits, commits));
                let outcome = catch_unwind(call).unwrap_or_else(|_| {
                    Err((FailureCause::Defect, "a panic while the storage was reopened".to_owned()))
                });
                (Arc::new(engine), outcome)
            }
            Err(engine) => {
                (engine, Err((FailureCause::Storage, "the storage is still being read".to_owned())))
            }
        };
        drop(edits);
        let mut core = self.lock();
        core.buffers[FILE].set_engine(engine);
        core.buffers[FILE].has_leader = false;
        match &outcome {
            Ok(()) => {
                core.finish_checkpoint(FILE);
                core.resume();
            }
            Err((FailureCause::Storage, why)) => core.retry_later(why),
            Err((FailureCause::Defect, why)) => core.fail(why, FailureCause::Defect),
        }
        core.effects.capacity_freed = true;
        self.unlock_and_run_task(core);
        outcome.is_ok()
    }
}

/// Reopens the engine and commits the edits. The database must end with one of these commits.
fn repeat_commits(
    engine: &mut Engine,
    edits: &Checkpoint,
    (first, last): (u64, u64),
) -> Result<(), (FailureCause, String)> {
    let storage_error = |error: Error| (FailureCause::Storage, error.to_string());
    engine.reopen().map_err(storage_error)?;
    let found = last_commit(engine).map_err(storage_error)?;
    if found < first {
        let why = format!("the last commit in the file is {found}, but {first} was acknowledged");
        return Err((FailureCause::Defect, why));
    }
    if found > last {
        let why = format!("the file has commit {found}, which this store did not write");
        return Err((FailureCause::Defect, why));
    }
    if edits.is_empty() {
        return Ok(());
    }
    engine.checkpoint(edits, true).map_err(|error| (FailureCause::from(&error), error.why))
}
