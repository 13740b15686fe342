//! The policies of tubes: backoff, counted takes, kept outcomes.

use std::time::Duration;

use tubewell_drivers::NEVER;

use crate::base::micros::{duration, micros_ceil};
use crate::{Error, Result};

/// How long a task is delayed before its next attempt.
///
/// A tube with a backoff delays a task after [`fail`](crate::Claim::fail), and when an attempt is
/// lost: the ttr has elapsed, or the session or the process of the worker has ended. The delay
/// before attempt `n + 1` is `first × factor^(n − 1)`, at most `cap`. With jitter a share of it is
/// taken off, so that tasks that failed together do not come back together.
///
/// The jitter depends on the id of the task and the attempt only, so a run can be repeated.
/// Exponential backoff with jitter is described in the
/// [AWS Architecture Blog](https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/);
/// its "full jitter" is `jitter(1.0)`.
///
/// The text of a backoff is `none`, a delay such as `10s`, or a delay with the fields that differ
/// from their defaults: `1s,factor=3,cap=1h,jitter=0.5`. In a text the default of the factor is 1.
/// Durations have the units `d`, `h`, `m`, `s`, `ms`, `us` and `ns`; parsing also accepts `1.5s` and
/// `1h30m`, and the fields in any order.
///
/// # Example: 1 s, 3 s, 9 s, 27 s, then 60 s
/// ```
/// use std::time::Duration;
/// use tubewell::Backoff;
///
/// let backoff = Backoff::exponential(Duration::from_secs(1)).factor(3.0);
/// let backoff = backoff.cap(Duration::from_secs(60));
/// assert_eq!(backoff.delay(17, 3), Duration::from_secs(9));
/// assert_eq!(backoff.delay(17, 5), Duration::from_secs(60));
///
/// let backoff = backoff.jitter(0.5);
/// let delay = backoff.delay(17, 5);
/// assert!(delay > Duration::from_secs(30) && delay <= Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    pub(crate) first: Duration,
    /// In thousandths.
    pub(crate) factor: u32,
    pub(crate) cap: Duration,
    /// In thousandths.
    pub(crate) jitter: u32,
}

/// The cap of a backoff without one: a year.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(365 * 86_400);
/// The largest factor, in thousandths.
const MAX_FACTOR: u32 = 1_000_000;

impl Backoff {
    /// No delay. This is the default.
    #[must_use]
    pub fn none() -> Backoff {
        Backoff::constant(Duration::ZERO)
    }

    /// The same delay before each attempt.
    #[must_use]
    pub fn constant(delay: Duration) -> Backoff {
        Backoff { first: delay, factor: 1000, cap: LONGEST_BACKOFF, jitter: 0 }
    }

    /// `first` before the second attempt, then twice the delay before each further one.
    #[must_use]
    pub fn exponential(first: Duration) -> Backoff {
        Backoff { factor: 2000, ..Backoff::constant(first) }
    }

    /// By how much each delay is longer than the one before. Default of
    /// [`exponential`](Backoff::exponential): 2. From 1 to 1000, in steps of a thousandth.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> Backoff {
        self.factor = thousandths(factor);
        self
    }

    /// The longest delay. Default: a year.
    #[must_use]
    pub fn cap(mut self, cap: Duration) -> Backoff {
        self.cap = cap;
        self
    }

    /// Which share of each delay is taken off at most, from 0 to 1 in steps of a thousandth.
    /// Default: 0.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Backoff {
        self.jitter = thousandths(share);
        self
    }

    /// The delay of the task with this id after this attempt. The first attempt is 1.
    #[must_use]
    pub fn delay(&self, id: u64, attempt: u32) -> Duration {
        let cap = u128::from(micros_ceil(self.cap.min(LONGEST_BACKOFF)));
        let mut delay = u128::from(micros_ceil(self.first)).min(cap);
        for _ in 1..attempt {
            let longer = (delay * u128::from(self.factor) / 1000).min(cap);
            if longer == delay {
                break;
            }
            delay = longer;
        }
        let share = u128::from(self.jitter) * u128::from(mixed(id, attempt));
        delay -= (delay * share / 1000) >> 32;
        Duration::from_micros(u64::try_from(delay).unwrap_or(u64::MAX))
    }

    /// This backoff with times as the file keeps them.
    pub(crate) fn whole(self) -> Backoff {
        let whole = |time: Duration| duration(micros_ceil(time.min(LONGEST_BACKOFF)));
        Backoff { first: whole(self.first), cap: whole(self.cap), ..self }
    }

    /// Refuses a factor and a share that are out of bounds.
    pub(crate) fn check(&self) -> Result<()> {
        if !(1000..=MAX_FACTOR).contains(&self.factor) {
            return Err(Error::invalid("the factor of a backoff must be from 1 to 1000"));
        }
        if self.jitter > 1000 {
            return Err(Error::invalid("the jitter of a backoff must be from 0 to 1"));
        }
        Ok(())
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::none()
    }
}

/// A number in thousandths. One that is negative or no number is beyond every limit.
fn thousandths(number: f64) -> u32 {
    // The cast saturates.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
    if number >= 0.0 { (number * 1000.0).round() as u32 } else { u32::MAX }
}

/// A number from 0 to 2^32 that depends on id and attempt alone: the finalizer of
/// [SplitMix64](https://prng.di.unimi.it/splitmix64.c).
fn mixed(id: u64, attempt: u32) -> u64 {
    let mut mixed = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(attempt));
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) >> 32
}

/// When the take of a task with a limited number of attempts is counted.
///
/// | counting | a killed process | a power cut | a take costs |
/// |---|---|---|---|
/// | [`Lazily`](Counting::Lazily) | forgets the newest takes | forgets the newest takes | nothing |
/// | [`Written`](Counting::Written) (default) | counts every take | forgets the newest takes | a write |
/// | [`Flushed`](Counting::Flushed) | counts every take | counts every take | a flush, shared with others |
///
/// A take that is forgotten is one attempt more. The text of a counting is `lazily`, `written` or
/// `flushed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the three levels of durability")]
pub enum Counting {
    /// With the end of the claim, as for tasks without a limit. For work whose failures are errors
    /// and panics, and never the death of the process.
    Lazily,
    /// The task is handed out once the operating system has the count. A task that kills its
    /// process uses up its attempts.
    #[default]
    Written,
    /// The task is handed out once the count is flushed. With
    /// [`max_attempts(1)`](crate::TubeOptions::max_attempts), a task is handed out at most once,
    /// whatever happens.
    Flushed,
}

/// What a tube keeps of the tasks that have ended, and for how long.
///
/// The text of a retention is `all`, `count=1000`, `age=1d`, or `count=1000,age=1d`. Durations are
/// those of a [`Backoff`].
///
/// # Example: results for a day, the newest 10,000 of them
/// ```
/// use std::time::Duration;
/// use tubewell::{Keep, Outcome, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let keep = Keep::new().count(10_000).age(Duration::from_secs(86_400));
/// let sums = store.open_tube("sums", TubeOptions::new().keep_done(keep))?;
/// let id = sums.put("2 + 2")?.id;
/// sums.try_take()?.unwrap().end(Outcome::result("4"))?;
/// let result = Some(b"4".to_vec());
/// assert_eq!(sums.ending(id)?, Some(tubewell::Ending::Done { result }));
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keep {
    pub(crate) count: Option<u64>,
    pub(crate) age: Option<Duration>,
}

impl Keep {
    /// Keeps all, without a limit of time.
    #[must_use]
    pub fn new() -> Keep {
        Keep::default()
    }

    /// The newest ones, up to this number. Default: all.
    #[must_use]
    pub fn count(mut self, count: u64) -> Keep {
        self.count = Some(count);
        self
    }

    /// Each for this long. Default: without a limit.
    #[must_use]
    pub fn age(mut self, age: Duration) -> Keep {
        self.age = Some(age);
        self
    }

    /// This retention with an age as the file keeps it.
    pub(crate) fn whole(self) -> Keep {
        let age = self.age.map(micros_ceil).filter(|age| *age != NEVER);
        Keep { age: age.map(duration), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_up_to_its_cap() {
        let second = Duration::from_secs(1);
        let backoff = Backoff::exponential(second).factor(1.5).cap(second * 4);
        let delays = (1..=6).map(|attempt| backoff.delay(1, attempt).as_millis());
        assert!(delays.eq([1000, 1500, 2250, 3375, 4000, 4000]));
        assert_eq!(Backoff::none().delay(1, u32::MAX), Duration::ZERO);
        assert_eq!(Backoff::exponential(second).delay(1, u32::MAX), LONGEST_BACKOFF);
        assert_eq!(Backoff::constant(Duration::MAX).delay(1, 9), LONGEST_BACKOFF);
    }

    #[test]
    fn jitter_takes_off_at_most_its_share_and_can_be_repeated() {
        let backoff = Backoff::constant(Duration::from_secs(10)).jitter(0.25);
        let delays: Vec<u128> = (0..1000).map(|id| backoff.delay(id, 2).as_millis()).collect();
        assert!(delays.iter().all(|delay| (7500..=10_000).contains(delay)));
        let mean = delays.iter().sum::<u128>() / 1000;
        assert!((8600..=8900).contains(&mean), "{mean}");
        assert_eq!(backoff.delay(5, 2).as_millis(), delays[5]);
        assert_ne!(backoff.delay(5, 2), backoff.delay(5, 3));
    }

    #[test]
    fn factor_and_share_out_of_bounds_are_refused() {
        let backoff = Backoff::exponential(Duration::from_secs(1));
        for factor in [0.0, 0.999, -1.0, 1000.1, f64::NAN, f64::INFINITY] {
            assert!(backoff.factor(factor).check().is_err(), "{factor}");
        }
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(backoff.jitter(share).check().is_err(), "{share}");
        }
        backoff.factor(1000.0).jitter(1.0).check().unwrap();
    }
}
