//! Durations, counted in fixed buckets.

/// The number of buckets with an upper bound.
const BUCKETS: usize = 14;

/// The upper bounds of the buckets of waits and runs of tasks, in microseconds: 1 ms to a day.
pub(crate) const OF_TASKS: &[u64; BUCKETS] = &[
    1_000,
    5_000,
    25_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
    21_600_000_000,
    86_400_000_000,
];

/// Those of flushes and checkpoints: 50 us to 10 s.
pub(crate) const OF_STORAGE: &[u64; BUCKETS] = &[
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// Durations that are counted. Counting allocates nothing.
#[derive(Clone, Debug)]
pub(crate) struct DurationCounts {
    bounds: &'static [u64; BUCKETS],
    counts: [u64; BUCKETS],
    above: u64,
    sum: u64,
}

impl DurationCounts {
    pub(crate) fn new(bounds: &'static [u64; BUCKETS]) -> DurationCounts {
        DurationCounts { bounds, counts: [0; BUCKETS], above: 0, sum: 0 }
    }

    /// Counts a duration, in microseconds. One that equals a bound is below it.
    pub(crate) fn add(&mut self, micros: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < micros);
        let count = self.counts.get_mut(bucket).unwrap_or(&mut self.above);
        *count = count.saturating_add(1);
        self.sum = self.sum.saturating_add(micros);
    }

    pub(crate) fn read(&self) -> Histogram {
        let buckets = self.bounds.iter().copied().zip(self.counts);
        Histogram { buckets: buckets.collect(), above: self.above, sum: self.sum }
    }
}

/// The durations that were counted, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// The upper bound of each bucket, and how many durations are above the one before and not above it.
    pub(crate) buckets: Vec<(u64, u64)>,
    /// How many are above the last bound.
    pub(crate) above: u64,
    pub(crate) sum: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend() {
        assert!(OF_TASKS.is_sorted_by(|one, next| one < next));
        assert!(OF_STORAGE.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn duration_counts_in_the_first_bucket_whose_bound_is_not_below_it() {
        let mut counts = DurationCounts::new(OF_STORAGE);
        for micros in [0, 50, 51, 10_000_000, 10_000_001, 7] {
            counts.add(micros);
        }
        let Histogram { buckets, above, sum } = counts.read();
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(50, 3), (100, 1), (10_000_000, 1)]);
        assert_eq!((above, sum), (1, 20_000_109));
    }

    #[test]
    fn sum_saturates() {
        let mut counts = DurationCounts::new(OF_TASKS);
        for micros in [u64::MAX, 5] {
            counts.add(micros);
        }
        assert_eq!((counts.read().above, counts.read().sum), (1, u64::MAX));
    }
}
