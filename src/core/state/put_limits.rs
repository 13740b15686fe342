//! The limits of the idempotency key, of the claims and of the traceparent of a put.

use tubewell_drivers::{
    IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_TIME, IDEMPOTENCY_KEY_TIME_MAX, Traceparent,
};

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

/// Reads where a task belongs in a trace. Refuses a text of another form.
pub(in crate::core) fn traceparent_of(text: &str) -> Result<Traceparent> {
    Traceparent::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        Error::invalid(format!(
            "{shown:?} is not a traceparent; write 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, in lower case, \
             with a trace id and a span id that are not all zeros, or leave it out"
        ))
    })
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
