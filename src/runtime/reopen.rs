//! Reopening a storage that failed, in place. Handles, claims and sessions stay valid.
//!
//! Memory has all edits that the database does not have: it writes them to the database with one
//! commit, whatever the journal has. A commit number is used for one set of edits only, over failures
//! too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::inner::StoreInner;
use crate::commit::Restore;
use crate::core::{Buffer, last_commit};
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
        let buffer = &mut core.buffers[Buffer::File];
        let Some(restore) = due.then(|| buffer.begin_restore()).flatten() else { return false };
        let Restore { engine, edits, commits } = restore;
        // No other leader can begin a commit meanwhile, and close waits for this one.
        buffer.has_leader = true;
        drop(core);
        // Wait for the reads that use the old engine without the core's lock.
        drop(self.engine_reads.write());
        let (engine, outcome) = match Arc::try_unwrap(engine) {
            Ok(mut engine) => {
                let found = catch(|| reopen_engine(&mut engine, commits));
                let engine = Arc::new(engine);
                let repeated = found.and_then(|found| {
                    #[cfg(feature = "redb")]
                    let edits = self.edits_to_repeat(&engine, edits, found)?;
                    #[cfg(not(feature = "redb"))]
                    let _ = found;
                    catch(|| repeat_commits(&engine, &edits))
                });
                (engine, repeated)
            }
            Err(engine) => {
                (engine, Err((FailureCause::Storage, "the storage is still being read".to_owned())))
            }
        };
        let mut core = self.lock();
        core.buffers[Buffer::File].set_engine(engine);
        core.buffers[Buffer::File].has_leader = false;
        match &outcome {
            Ok(()) => {
                core.finish_checkpoint(Buffer::File);
                core.resume();
            }
            Err((FailureCause::Storage, why)) => core.retry_later(why),
            Err((FailureCause::Defect, why)) => core.fail(why, FailureCause::Defect),
        }
        core.effects.capacity_freed = true;
        self.unlock_and_run_task(core);
        outcome.is_ok()
    }

    /// What the database must take: a transaction that it does not have is taken back first.
    #[cfg(feature = "redb")]
    fn edits_to_repeat(
        &self,
        engine: &Arc<Engine>,
        edits: Checkpoint,
        found: u64,
    ) -> Result<Checkpoint, Failed> {
        let mut core = self.lock();
        core.buffers[Buffer::File].set_engine(Arc::clone(engine));
        let resolved = core.resolve_transaction(found);
        // The engine is set again once it has the edits.
        drop(core.buffers[Buffer::File].take_engine());
        match resolved {
            Ok(with_transaction) => Ok(with_transaction.unwrap_or(edits)),
            Err(error) => Err((FailureCause::from(&error), error.to_string())),
        }
    }
}

/// Why a storage was not reopened.
type Failed = (FailureCause, String);

/// A panic stops the store.
fn catch<T>(call: impl FnOnce() -> Result<T, Failed>) -> Result<T, Failed> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err((FailureCause::Defect, "a panic while the storage was reopened".to_owned()))
    })
}

/// Reopens the engine. The database must end with one of these commits; returns with which.
fn reopen_engine(engine: &mut Engine, (first, last): (u64, u64)) -> Result<u64, Failed> {
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
    Ok(found)
}

/// Commits the edits that the database may not have.
fn repeat_commits(engine: &Engine, edits: &Checkpoint) -> Result<(), Failed> {
    if edits.is_empty() {
        return Ok(());
    }
    engine.checkpoint(edits, true).map_err(|error| (FailureCause::from(&error), error.why))
}
