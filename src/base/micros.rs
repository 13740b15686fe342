//! Durations as whole microseconds, the unit of the core and of the file.

use std::time::Duration;

/// Whole microseconds, rounded up so that no timer fires early. A duration that does not fit
/// becomes `u64::MAX`, which stands for "never".
pub(crate) fn micros_ceil(duration: Duration) -> u64 {
    let seconds = duration.as_secs().checked_mul(1_000_000);
    let rest = u64::from(duration.subsec_nanos().div_ceil(1000));
    seconds.and_then(|micros| micros.checked_add(rest)).unwrap_or(u64::MAX)
}

/// The inverse of [`micros_ceil`].
pub(crate) fn duration(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// As [`duration`], of a limit: [`Duration::MAX`] is without one.
pub(crate) fn limit(micros: u64) -> Duration {
    if micros == u64::MAX { Duration::MAX } else { duration(micros) }
}

/// A limit of a wait; `None` without one, for [`Duration::MAX`] and all that is as good as endless.
pub(crate) fn within(timeout: Duration) -> Option<Duration> {
    Some(timeout).filter(|timeout| micros_ceil(*timeout) < u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micros_ceil_rounds_up_and_saturates() {
        assert_eq!(micros_ceil(Duration::ZERO), 0);
        assert_eq!(micros_ceil(Duration::from_nanos(1)), 1);
        assert_eq!(micros_ceil(Duration::from_micros(1)), 1);
        assert_eq!(micros_ceil(Duration::from_nanos(1001)), 2);
        assert_eq!(micros_ceil(Duration::from_nanos(1_999_999_001)), 2_000_000);
        assert_eq!(micros_ceil(Duration::MAX), u64::MAX);
        assert_eq!(micros_ceil(duration(u64::MAX)), u64::MAX);
        assert_eq!(micros_ceil(duration(u64::MAX) + Duration::from_nanos(1)), u64::MAX);
        assert_eq!(duration(1_500_000), Duration::from_millis(1500));
    }
}
