//! The limits of the idempotency key and of the claims of a put.

use tubewell_drivers::{IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_TIME, IDEMPOTENCY_KEY_TIME_MAX};

use crate::{Error, Result};

/// Refuses a limit with which every claim ends at once.
pub(super) fn check_max_runtime(limit: Option<u64>) -> Result<()> {
    if limit != Some(0) {
        return Ok(());
    }
    Err(Error::invalid(
        "the max_runtime of a task must be above zero; leave it out for that of its tube",
    ))
}

/// Refuses a text that cannot be the idempotency key of a put.
pub(super) fn check_idempotency_key(key: &str) -> Result<()> {
    if (1..=IDEMPOTENCY_KEY_MAX).contains(&key.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "an idempotency key must have 1 to {IDEMPOTENCY_KEY_MAX} bytes; this one has {}",
        key.len()
    )))
}

/// Refuses a time for which no idempotency key is remembered.
pub(super) fn check_unique_for(time: u64, has_key: bool) -> Result<()> {
    if !has_key {
        return Err(Error::invalid(
            "unique_for says how long an idempotency key is remembered; give the put an idempotency_key",
        ));
    }
    if (1..=IDEMPOTENCY_KEY_TIME_MAX).contains(&time) {
        return Ok(());
    }
    let days = IDEMPOTENCY_KEY_TIME_MAX / (24 * IDEMPOTENCY_KEY_TIME);
    Err(Error::invalid(format!(
        "unique_for must be above zero and at most {days} days; for longer, give the task a key, and keep what is \
         done in its tube (keep_done)"
    )))
}
