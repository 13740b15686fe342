//! The token bucket of a rate: a pure function of the takes so far and the time.
//!
//! Invariant: no period has more takes than the rate allows, wherever it begins. A token comes back one
//! period after its take.

use std::collections::VecDeque;

use crate::Rate;

/// The takes of a period are kept in at most about this many entries. More takes than this share
/// entries, so the size of a bucket does not depend on its rate.
const SLICES: u64 = 64;

/// The rate of a bucket. All times are microseconds of running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    tokens: u32,
    period: u64,
    /// When the bucket was empty and began to fill. `None`: it was full.
    since: Option<u64>,
}

/// The takes of the last period.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bucket {
    /// The time of the last take of an entry, and how many takes it has; in order of time.
    takes: VecDeque<(u64, u32)>,
}

impl Fill {
    /// `since`: when an empty bucket began to fill; `None` for a bucket that is full at first.
    pub(crate) fn new(rate: Rate, since: Option<u64>) -> Fill {
        Fill { tokens: rate.count.max(1), period: rate.micros().max(1), since }
    }

    /// Another rate of the same bucket.
    pub(crate) fn with_rate(&self, rate: Rate) -> Fill {
        Fill::new(rate, self.since)
    }

    /// When a bucket that nothing was taken from has this many tokens.
    fn filled_at(&self, tokens: u64) -> u64 {
        let Some(since) = self.since else { return 0 };
        let time = u128::from(self.period) * u128::from(tokens);
        let time = time.div_ceil(u128::from(self.tokens));
        since.saturating_add(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

impl Bucket {
    /// The earliest time, not before `now`, at which there is a token. There is one now if this is
    /// `now`.
    pub(crate) fn opens_at(&self, fill: &Fill, now: u64) -> u64 {
        let mut used: u64 = self.takes.iter().map(|(_, count)| u64::from(*count)).sum();
        let mut earliest = u64::MAX;
        let mut from = now;
        let mut takes = self.takes.iter();
        loop {
            if used < u64::from(fill.tokens) {
                earliest = earliest.min(from.max(fill.filled_at(used + 1)));
            }
            let Some((at, count)) = takes.next() else { return earliest };
            used -= u64::from(*count);
            from = now.max(at.saturating_add(fill.period));
        }
    }

    /// Uses a token. The caller has asked [`opens_at`](Bucket::opens_at) whether there is one.
    pub(crate) fn take(&mut self, fill: &Fill, now: u64) {
        while self.takes.front().is_some_and(|(at, _)| at.saturating_add(fill.period) <= now) {
            self.takes.pop_front();
        }
        let slice = if u64::from(fill.tokens) > SLICES { (fill.period / SLICES).max(1) } else { 1 };
        match self.takes.back_mut() {
            Some((at, count)) if *at / slice == now / slice => (*at, *count) = (now, *count + 1),
            _ => self.takes.push_back((now, 1)),
        }
    }

    /// When all tokens of the takes have come back: from then on the bucket says nothing that a new one
    /// would not say.
    pub(crate) fn is_new_at(&self, fill: &Fill) -> u64 {
        self.takes.back().map_or(0, |(at, _)| at.saturating_add(fill.period))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn fill(tokens: u32, period: u64, since: Option<u64>) -> Fill {
        Fill::new(Rate::per(tokens, Duration::from_micros(period)), since)
    }

    /// The times of takes by a taker that takes as early as it can.
    fn eager(fill: &Fill, from: u64, takes: usize) -> Vec<u64> {
        let (mut bucket, mut now) = (Bucket::default(), from);
        let mut next = || {
            now = bucket.opens_at(fill, now);
            bucket.take(fill, now);
            now
        };
        (0..takes).map(|_| next()).collect()
    }

    #[test]
    fn full_bucket_allows_a_burst_then_one_take_for_each_token_that_comes_back() {
        assert_eq!(eager(&fill(1, 100, None), 7, 4), [7, 107, 207, 307]);
        assert_eq!(eager(&fill(3, 100, None), 7, 7), [7, 7, 7, 107, 107, 107, 207]);
    }

    #[test]
    fn token_comes_back_one_period_after_its_take() {
        let fill = fill(2, 100, None);
        let mut bucket = Bucket::default();
        for (now, opens_at) in [(10, 10), (50, 110), (110, 150), (150, 210)] {
            bucket.take(&fill, now);
            assert_eq!(bucket.opens_at(&fill, now), opens_at);
        }
        assert_eq!(bucket.is_new_at(&fill), 250);
        assert_eq!(bucket.opens_at(&fill, 900), 900);
    }

    #[test]
    fn empty_bucket_fills_evenly_within_one_period() {
        assert_eq!(eager(&fill(1, 100, Some(7)), 7, 3), [107, 207, 307]);
        assert_eq!(eager(&fill(4, 100, Some(0)), 0, 6), [25, 50, 75, 100, 125, 150]);
        let late = eager(&fill(4, 100, Some(0)), 60, 6);
        assert_eq!(late, [60, 60, 75, 100, 160, 160]);
    }

    #[test]
    fn size_of_a_bucket_does_not_depend_on_its_rate() {
        let fill = fill(1_000_000, 60_000_000, None);
        let mut bucket = Bucket::default();
        for take in 0..1_000_000 {
            bucket.take(&fill, take * 60);
        }
        assert!(bucket.takes.len() as u64 <= SLICES + 1, "{}", bucket.takes.len());
    }

    /// Sharing entries delays a token by at most a slice of the period.
    #[test]
    fn high_rate_loses_at_most_one_slice_of_each_period() {
        let times = eager(&fill(1000, 64_000, None), 0, 11_000);
        assert!(times[10_000] <= 10 * 65_000, "{}", times[10_000]);
        let spread = fill(1000, 64_000, Some(0));
        let times = eager(&spread, 0, 11_000);
        assert!(times[10_000] <= 11 * 65_000, "{}", times[10_000]);
    }

    #[test]
    fn times_at_the_end_of_the_clock_do_not_overflow() {
        let end = u64::MAX - 1;
        let fill = fill(2, 1000, Some(end));
        assert_eq!(Bucket::default().opens_at(&fill, end), u64::MAX);
        let mut bucket = Bucket::default();
        bucket.take(&fill, end);
        assert_eq!(bucket.opens_at(&fill, end), u64::MAX);
        assert_eq!(bucket.is_new_at(&fill), u64::MAX);
    }

    proptest! {
        /// The promise of a rate, for any times of takes; and no bucket stays shut.
        #[test]
        fn no_period_has_more_takes_than_tokens(
            (tokens, period) in (1..200_u32, 1..1000_u64),
            since in proptest::option::of(0..500_u64),
            steps in prop::collection::vec(0..40_u64, 1..600),
        ) {
            let fill = fill(tokens, period, since);
            let (mut bucket, mut now, mut taken) = (Bucket::default(), 500, Vec::new());
            for step in steps {
                now += step;
                let opens_at = bucket.opens_at(&fill, now);
                prop_assert!(opens_at >= now && opens_at <= now + 2 * period);
                prop_assert!(opens_at == now || bucket.opens_at(&fill, opens_at) == opens_at);
                if opens_at == now {
                    bucket.take(&fill, now);
                    taken.push(now);
                }
                prop_assert!(bucket.is_new_at(&fill) <= now + period);
            }
            for window in taken.windows(tokens as usize + 1) {
                prop_assert!(window[tokens as usize] - window[0] >= period, "{taken:?}");
            }
        }
    }
}
