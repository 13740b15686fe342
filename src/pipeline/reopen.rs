//! Reopening a storage that failed, in place. Handles, claims and sessions stay valid.
//!
//! A commit number is used for one set of edits only, over failures too: the commit that was in
//! flight is repeated under its own number.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::inner::StoreInner;
use crate::core::{FILE, last_commit};
use crate::storage::{Engine, FailureCause, Overlay};
use crate::{Error, Result};

impl StoreInner {
    /// Retries a failed storage if the retry is due, or in any case with `force`. Returns true if
    /// the store works again.
    ///
    /// The commit that was in flight when the storage failed is repeated first, under the same
    /// number. So no number is used twice, and no decided edit is lost.
    pub(super) fn reopen(&self, force: bool) -> bool {
        let mut core = self.lock();
        let due = core.retry_at().is_some_and(|at| force || at <= core.now.running);
        let buffer = &mut core.buffers[FILE];
        let Some(engine) = due.then(|| buffer.take_engine()).flatten() else { return false };
        // No other leader can begin a commit meanwhile, and close waits for this one.
        buffer.has_leader = true;
        let in_flight = buffer.in_flight();
        let acknowledged = buffer.batch.number - 1 - u64::from(in_flight.is_some());
        drop(core);
        // Wait for the reads that use the old engine without the core's lock.
        drop(self.engine_reads.write());
        let (engine, outcome) = match Arc::try_unwrap(engine) {
            Ok(mut engine) => {
                let call =
                    AssertUnwindSafe(|| restore(&mut engine, in_flight.as_deref(), acknowledged));
                let outcome = catch_unwind(call).unwrap_or_else(|_| {
                    Err((FailureCause::Defect, "a panic while the storage was reopened".to_owned()))
                });
                (Arc::new(engine), outcome)
            }
            Err(engine) => {
                (engine, Err((FailureCause::Storage, "the storage is still being read".to_owned())))
            }
        };
        drop(in_flight);
        let mut core = self.lock();
        core.buffers[FILE].set_engine(engine);
        core.buffers[FILE].has_leader = false;
        match &outcome {
            Ok(()) => core.resume(),
            Err((FailureCause::Storage, why)) => core.retry_later(why),
            Err((FailureCause::Defect, why)) => core.fail(why, FailureCause::Defect),
        }
        core.effects.capacity_freed = true;
        self.unlock_and_run_task(core);
        outcome.is_ok()
    }
}

/// Reopens the engine and commits the edits in flight, unless the file has them already.
fn restore(
    engine: &mut Engine,
    in_flight: Option<&Overlay>,
    acknowledged: u64,
) -> Result<(), (FailureCause, String)> {
    let storage_error = |error: Error| (FailureCause::Storage, error.to_string());
    engine.reopen().map_err(storage_error)?;
    let found = last_commit(engine).map_err(storage_error)?;
    match in_flight {
        _ if found < acknowledged => Err((
            FailureCause::Defect,
            format!("the last commit in the file is {found}, but {acknowledged} was acknowledged"),
        )),
        None if found == acknowledged => Ok(()),
        Some(_) if found == acknowledged + 1 => Ok(()),
        Some(edits) if found == acknowledged => engine
            .commit(edits, true, true)
            .map_err(|error| (FailureCause::from(&error), error.why)),
        _ => Err((
            FailureCause::Defect,
            format!("the file has commit {found}, which this store did not write"),
        )),
    }
}
