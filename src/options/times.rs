//! Times as the file keeps them: whole microseconds.

use std::time::Duration;

use tubewell_drivers::NEVER;

use crate::base::micros::{duration, micros_ceil};

/// A time in microseconds; [`NEVER`] without a limit.
pub(crate) fn micros(time: Option<Duration>) -> u64 {
    time.map_or(NEVER, micros_ceil)
}

/// A time as the file keeps it.
pub(super) fn whole(time: Duration) -> Duration {
    duration(micros_ceil(time))
}

/// A time as the file keeps it; `None` without a limit.
pub(super) fn limited(time: Duration) -> Option<Duration> {
    Some(micros_ceil(time)).filter(|time| *time != NEVER).map(duration)
}
