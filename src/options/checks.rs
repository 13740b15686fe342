//! Which values of options are refused.

use std::time::Duration;

use crate::values::rate::LONGEST_RATE;
use crate::{Error, Result};

/// The most days that a tube keeps its numbers. A truncate copies their rows with one commit.
pub(super) const METRICS_MAX: u32 = 1000;

/// Refuses a limit with which no task could be taken.
pub(super) fn above_zero<T: Default + PartialEq>(
    limit: T,
    what: &str,
    instead: &str,
) -> Result<()> {
    if limit == T::default() {
        return Err(Error::invalid(format!("{what} must be above zero; {instead}")));
    }
    Ok(())
}

pub(super) fn at_most(number: u32, most: u32, what: &str, unit: &str) -> Result<()> {
    if number > most {
        return Err(Error::invalid(format!("{what} at most {most} {unit}, not {number}")));
    }
    Ok(())
}

/// Refuses a cooldown that is as good as a pause.
pub(super) fn check_cooldown(time: Duration) -> Result<()> {
    if time > LONGEST_RATE {
        return Err(Error::invalid(
            "the cooldown of a sub-queue must be at most 365 days; pause the sub-queue to stop its takes",
        ));
    }
    Ok(())
}

/// Refuses a limit of attempts, of a tube or of a task, with which no task could be taken.
pub(crate) fn check_max_attempts(limit: Option<u32>) -> Result<()> {
    limit.map_or(Ok(()), |limit| above_zero(limit, "max_attempts", "no limit is the default"))
}
