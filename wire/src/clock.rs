//! The clock of all time-outs.

use std::time::{Duration, Instant};

pub(crate) use crate::os::now;

/// Longer time-outs are not understood by each system.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// The instant `after` from now; one far ahead if the sum is out of range.
pub(crate) fn in_time(after: Duration) -> Instant {
    let now = now();
    let far = Duration::from_secs(60 * 60 * 24 * 365);
    now.checked_add(after.min(far)).unwrap_or(now)
}

/// What is left until `deadline`; zero once it has passed.
pub(crate) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(now())
}
