//! How many takes a tube or a sub-queue allows in a time.

use std::time::Duration;

use crate::base::micros::{duration, micros_ceil};
use crate::{Error, Result};

/// The longest time of a rate, and of a cooldown: a year.
pub(crate) const LONGEST_RATE: Duration = Duration::from_secs(365 * 86_400);

/// A rate limit: at most this many takes in any period of this length.
///
/// The limit is a token bucket. Each take uses a token, and the token comes back when the period has
/// passed since that take. So a burst of takes may use all tokens, and no period of this length, wherever
/// it begins, has more takes than tokens. The time is running time, which stands still while the machine
/// is suspended.
///
/// The buckets are in memory. When a store is opened, the bucket of each limit of an existing tube is
/// empty, and fills evenly within one period: a program that is restarted again and again has the
/// same rate as one that runs on. The bucket of a new tube is full.
///
/// With more than 64 takes in a period, the tokens of takes that are close to each other (within a
/// 64th of the period) come back together with the last of them.
///
/// The text of a rate is its number and its period: `10/1s`, `1/500ms`. Parsing also accepts a unit
/// without a number, as in `10/s` or `5000/h`. Durations are those of a [`Backoff`](crate::Backoff).
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::Rate;
///
/// let rate = Rate::per(10, Duration::from_secs(1));
/// assert_eq!("10/s".parse(), Ok(rate));
/// assert_eq!(rate.to_string(), "10/1s");
/// ```
#[doc(alias = "throttle")]
#[doc(alias = "token bucket")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub(crate) count: u32,
    pub(crate) period: Duration,
}

impl Rate {
    /// At most `count` takes in any `period`. The period is rounded up to microseconds.
    ///
    /// The call that a rate is given to returns [`Invalid`](crate::Error::Invalid) if the count is
    /// zero, or if the period is zero or longer than 365 days.
    #[must_use]
    pub fn per(count: u32, period: Duration) -> Rate {
        Rate { count, period }
    }

    /// The number of takes.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The time in which there are at most so many takes.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Refuses a rate with which no task could be taken, or that is no limit.
    pub(crate) fn check(&self) -> Result<()> {
        if self.count == 0 {
            return Err(Error::invalid(
                "the count of a rate must be above zero; pause the tube to stop its takes",
            ));
        }
        if self.period.is_zero() || self.period > LONGEST_RATE {
            return Err(Error::invalid("the period of a rate must be from 1 us to 365 days"));
        }
        Ok(())
    }

    /// This rate with a period as the file keeps it.
    pub(crate) fn whole(self) -> Rate {
        Rate::per(self.count, duration(self.micros()))
    }

    /// The period in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        micros_ceil(self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_out_of_bounds_are_refused() {
        let second = Duration::from_secs(1);
        Rate::per(1, Duration::from_nanos(1)).check().unwrap();
        Rate::per(u32::MAX, LONGEST_RATE).check().unwrap();
        assert!(Rate::per(0, second).check().is_err());
        assert!(Rate::per(1, Duration::ZERO).check().is_err());
        assert!(Rate::per(1, LONGEST_RATE + Duration::from_nanos(1)).check().is_err());
        assert!(Rate::per(1, Duration::MAX).check().is_err());
    }
}
