//! The numbers of a tube, by day.

use std::time::Duration;

use tubewell_drivers::{DayCounts, Spread};

use crate::base::micros::duration;
use crate::values::date::Date;

/// The numbers of a tube on one day; from [`Query::days`](crate::Query::days).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Day {
    /// The day.
    pub date: Date,
    /// Tasks that came into the tube: put, restored, or passed on from another tube.
    pub puts: u64,
    /// Takes, also of tasks that were not handed out: the future of the take was dropped, or the take
    /// could not be [counted](crate::Counting).
    pub takes: u64,
    /// Tasks that their holders finished: acked, or passed on to another tube.
    pub acks: u64,
    /// Tasks that failed for good on this day, and are still buried: those that were buried on it and
    /// have a [failure group](crate::Query::groups) now. A kick, a delete, or a move to another tube
    /// lowers the number of the day and the tube of the failure.
    pub failed: u64,
    /// Failures: attempts that workers [reported](crate::Claim::fail) as failed, and tasks that were
    /// buried with a failure of another cause, such as a last attempt that was lost.
    pub failures: u64,
    /// Claims that ended without their holders: the ttr, the `max_runtime` or the ttl elapsed, or the
    /// session ended. One that is overdue counts when its reclaim delay has elapsed too;
    /// [`CallCounts::lost`](crate::expert::CallCounts::lost) counts it when it becomes overdue. The end of the process counts for [counted](crate::Counting) takes, at the next open.
    pub lost: u64,
    /// Takes of tasks that had been attempted before. Forgiven attempts do not count.
    pub retried: u64,
    /// How long tasks were ready until they were taken, on the timeline of the store.
    pub wait: Summary,
    /// How long tasks were taken until their holders finished them, on running time, which stands
    /// still while the machine is suspended. For a parked claim, since a session resumed it.
    pub run: Summary,
}

/// How durations are distributed: their number, mean and standard deviation, exactly, and their
/// percentiles, from bins.
///
/// The durations are whole microseconds. There are four bins for each power of two from 1 us to 2^40 us
/// (12 days and 17 hours), one for less than 1 us and one for all that is longer. So a bin is at most
/// a quarter of its beginning wide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Summary {
    /// How many durations there are.
    pub count: u64,
    /// Their mean; zero if there are none.
    pub mean: Duration,
    /// Their standard deviation, as that of a sample; zero if there are fewer than two.
    pub std: Duration,
    /// The longest one; zero if there are none.
    pub max: Duration,
    bins: Vec<Bin>,
}

/// A range of durations, and how many there are in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Bin {
    /// The shortest duration of the range.
    pub from: Duration,
    /// The shortest duration above the range; `None` for the last bin, which has no end.
    pub to: Option<Duration>,
    /// How many durations there are in it.
    pub count: u64,
}

impl Day {
    pub(crate) fn new(date: Date, counts: &DayCounts, failed: u64) -> Day {
        Day {
            date,
            puts: counts.puts,
            takes: counts.takes,
            acks: counts.acks,
            failed,
            failures: counts.failures,
            lost: counts.lost,
            retried: counts.retried,
            wait: Summary::new(&counts.wait),
            run: Summary::new(&counts.run),
        }
    }
}

impl Summary {
    fn new(spread: &Spread) -> Summary {
        let bins = spread.bins().map(|(bin, count)| {
            let (from, to) = Spread::bounds(bin);
            Bin { from: duration(from), to: to.map(duration), count }
        });
        Summary {
            count: spread.count,
            mean: mean(spread),
            std: deviation(spread),
            max: duration(spread.max),
            bins: bins.collect(),
        }
    }

    /// The duration that the share `p` of all durations do not exceed, estimated from the bins: `0.5`
    /// for the median, `0.99` for the 99th percentile. It is in the same bin as the exact one, so it is
    /// off by at most a quarter. `p` is limited to 0 to 1. With 1 it is the longest duration, with no
    /// duration it is zero.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{ManualClock, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().metrics(7))?;
    /// jobs.put_many(vec!["job"; 100])?;
    /// for _ in 0..100 {
    ///     clock.advance(Duration::from_secs(1));
    ///     jobs.try_take()?.unwrap().ack()?;
    /// }
    /// let wait = jobs.query().day(store.today()?)?.wait;
    /// assert_eq!(wait.mean, Duration::from_millis(50_500));
    /// let median = wait.percentile(0.5).as_secs_f64();
    /// assert!((median / 50.0 - 1.0).abs() < 0.25);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn percentile(&self, p: f64) -> Duration {
        if p >= 1.0 {
            return self.max;
        }
        // Also for a share that is no number.
        let rank = p.clamp(0.0, 1.0).max(0.0) * as_float(self.count);
        let mut below = 0.0;
        for bin in &self.bins {
            let count = as_float(bin.count);
            if below + count >= rank {
                let to = bin.to.map_or(self.max, |to| to.min(self.max));
                let width = to.saturating_sub(bin.from);
                let share = ((rank - below) / count).clamp(0.0, 1.0);
                return bin.from.saturating_add(width.mul_f64(share)).min(self.max);
            }
            below += count;
        }
        self.max
    }

    /// The bins that are not empty, the shortest durations first. Their counts add up to
    /// [`count`](Summary::count).
    #[doc(alias = "histogram")]
    #[must_use]
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }
}

fn mean(spread: &Spread) -> Duration {
    match spread.count {
        0 => Duration::ZERO,
        count => nanos(spread.sum.saturating_mul(1000) / u128::from(count)),
    }
}

/// The standard deviation of a sample. The numerator of the variance is exact, as far as it fits.
fn deviation(spread: &Spread) -> Duration {
    let count = u128::from(spread.count);
    if count < 2 {
        return Duration::ZERO;
    }
    let exact = spread.squares.checked_mul(count).zip(spread.sum.checked_mul(spread.sum));
    let numerator = match exact {
        Some((squares, sum)) => wide_as_float(squares.saturating_sub(sum)),
        None => {
            let sum = wide_as_float(spread.sum);
            (wide_as_float(spread.squares) * wide_as_float(count) - sum * sum).max(0.0)
        }
    };
    let variance = numerator / (wide_as_float(count) * wide_as_float(count - 1));
    Duration::try_from_secs_f64(variance.sqrt() / 1e6).unwrap_or(Duration::MAX)
}

fn nanos(nanos: u128) -> Duration {
    let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(secs, u32::try_from(nanos % 1_000_000_000).unwrap_or(0))
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn as_float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "exact enough for a deviation")]
fn wide_as_float(number: u128) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(micros: impl IntoIterator<Item = u64>) -> Summary {
        let mut spread = Spread::default();
        micros.into_iter().for_each(|it| spread.add(it));
        Summary::new(&spread)
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "estimates are compared")]
    fn percentiles_are_in_the_bin_of_the_exact_ones() {
        let lists: [Vec<u64>; 5] = [
            (0..1000).collect(),
            (0..1000).map(|n| n * n * n).collect(),
            vec![5],
            vec![0, u64::MAX / 2],
            (0..1000).map(|n| if n < 990 { 1000 } else { 1 << 45 }).collect(),
        ];
        for mut list in lists {
            let summary = summary(list.iter().copied());
            list.sort_unstable();
            for percent in [1, 10, 50, 90, 99, 100] {
                let exact = list[(list.len() * percent).div_ceil(100).max(1) - 1];
                let found = summary.percentile(percent as f64 / 100.0).as_micros() as f64;
                let error = (found - exact as f64).abs();
                let in_range = exact >= 1 << 40 || error <= exact as f64 / 4.0 + 1.0;
                assert!(in_range, "{percent} % of {list:?}: {found}, not {exact}");
            }
            assert_eq!(summary.percentile(1.0), summary.max);
            for odd in [f64::NAN, -1.0, 2.0, f64::INFINITY] {
                assert!(summary.percentile(odd) <= summary.max);
            }
        }
        assert_eq!(summary([]).percentile(0.5), Duration::ZERO);
    }

    #[test]
    fn mean_and_deviation_are_exact() {
        let second = 1_000_000;
        let twenty = summary((0..20).map(|n| n * second));
        assert_eq!((twenty.count, twenty.mean), (20, Duration::from_millis(9500)));
        assert!((twenty.std.as_secs_f64() - 5.916_079_783).abs() < 1e-9);
        // A small deviation of long durations, which floats would lose.
        let close = summary([1 << 52, (1 << 52) + 2]);
        assert!((close.std.as_secs_f64() * 1e6 - 2.0_f64.sqrt()).abs() < 1e-3);
        assert_eq!((summary([7]).std, summary([]).mean), (Duration::ZERO, Duration::ZERO));
        let extreme = summary([u64::MAX, 0]);
        assert!(extreme.std > Duration::ZERO && extreme.mean > Duration::ZERO);
    }
}
