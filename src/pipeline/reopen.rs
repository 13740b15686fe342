//! Opening a storage that failed again, in place: handles, claims and waits stay what they are.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::inner::StoreInner;
use crate::core::{FILE, last_commit};
use crate::storage::{Engine, FailureCause, Overlay};
use crate::{Error, Result};

impl StoreInner {
    /// Tries a failed storage again, if it is time to; true if the store goes on. `now`: whether
    /// it is time or not.
    ///
    /// What was in flight when the storage failed is committed first, under the number that it
    /// had: no number is given twice, and nothing that was decided is forgotten.
    pub(super) fn reopen(&self, now: bool) -> bool {
        let mut core = self.enter();
        let due = core.retry_at().is_some_and(|at| now || at <= core.now.running);
        let buffer = &mut core.buffers[FILE];
        let Some(engine) = due.then(|| buffer.take_engine()).flatten() else { return false };
        // Nobody else leads a commit meanwhile, and close waits for the end of this one.
        buffer.has_leader = true;
        let flight = buffer.in_flight();
        let landed = buffer.batch.number - 1 - u64::from(flight.is_some());
        drop(core);
        // Whoever reads the old engine without the lock finishes first.
        drop(self.reading.write());
        let (engine, outcome) = match Arc::try_unwrap(engine) {
            Ok(mut engine) => {
                let call = AssertUnwindSafe(|| restore(&mut engine, flight.as_deref(), landed));
                let outcome = catch_unwind(call).unwrap_or_else(|_| {
                    Err((FailureCause::Defect, "reopening was broken off by a defect".to_owned()))
                });
                (Arc::new(engine), outcome)
            }
            Err(engine) => {
                (engine, Err((FailureCause::Storage, "it is still being read".to_owned())))
            }
        };
        drop(flight);
        let mut core = self.enter();
        core.buffers[FILE].set_engine(engine);
        core.buffers[FILE].has_leader = false;
        match &outcome {
            Ok(()) => core.go_on(),
            Err((FailureCause::Storage, why)) => core.retry_later(why),
            Err((FailureCause::Defect, why)) => core.fail(why, FailureCause::Defect),
        }
        core.effects.room = true;
        self.leave_and_lead(core);
        outcome.is_ok()
    }
}

/// Brings the file to where the core stands: all that landed, and what was in flight.
fn restore(
    engine: &mut Engine,
    flight: Option<&Overlay>,
    landed: u64,
) -> Result<(), (FailureCause, String)> {
    let may_pass = |error: Error| (FailureCause::Storage, error.to_string());
    engine.reopen().map_err(may_pass)?;
    let found = last_commit(engine).map_err(may_pass)?;
    match flight {
        _ if found < landed => Err((
            FailureCause::Defect,
            format!("the file is back at commit {found}, but {landed} was acknowledged"),
        )),
        None if found == landed => Ok(()),
        Some(_) if found == landed + 1 => Ok(()),
        Some(layer) if found == landed => engine
            .commit(layer, true, true)
            .map_err(|error| (FailureCause::from(&error), error.why)),
        _ => Err((
            FailureCause::Defect,
            format!("the file has commit {found}, of which this store knows nothing"),
        )),
    }
}
