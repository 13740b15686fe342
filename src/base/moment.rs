//! Moments of the wall clock, as the caller gives them and as the file has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::micros::micros_ceil;

/// A moment of the wall clock.
pub(crate) use std::time::SystemTime as Moment;

/// Microseconds since 1970 UTC, rounded up so that no moment comes early. A moment before 1970 is
/// that of 1970, and one that does not fit becomes `u64::MAX`, which stands for "never".
pub(crate) fn micros_of(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).map_or(0, micros_ceil)
}

/// The inverse of [`micros_of`]. A moment that the type of this platform cannot hold becomes an
/// earlier one.
pub(crate) fn system_time(micros: u64) -> SystemTime {
    let halves = (0..u64::BITS).map(|by| Duration::from_micros(micros >> by));
    halves
        .map(|since| UNIX_EPOCH.checked_add(since))
        .find_map(|moment| moment)
        .unwrap_or(UNIX_EPOCH)
}

/// The moments that a cron expression names in a time zone, in microseconds since 1970 UTC.
pub(crate) trait Moments: Send {
    /// The first moment that is after this one; `None` if there is none.
    fn next(&self, after: u64) -> Option<u64>;

    /// The last moment that is not after this one.
    fn last(&self, until: u64) -> Option<u64>;

    /// Whether it names moments every so often, and not fixed times of the day.
    fn is_interval(&self) -> bool;

    /// Whether the time zone still has the rules with which it was read.
    fn is_current(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rounded_up_and_saturate() {
        let at = |since: Duration| micros_of(UNIX_EPOCH + since);
        assert_eq!(at(Duration::ZERO), 0);
        assert_eq!(at(Duration::from_nanos(1001)), 2);
        assert_eq!(micros_of(UNIX_EPOCH - Duration::from_secs(1)), 0);
        for micros in [0, 1, 1_790_000_000_000_000] {
            assert_eq!(micros_of(system_time(micros)), micros);
        }
        if let Some(last) = UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)) {
            assert_eq!(micros_of(last), u64::MAX);
        }
        assert!(system_time(u64::MAX) > system_time(1_790_000_000_000_000));
    }
}
