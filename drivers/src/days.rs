//! The numbers of a tube on one day: counters, and how long its tasks have waited and run.
//!
//! A row of `days` has a version byte, the xxh3 of what follows (8 bytes, big-endian), then the
//! numbers in bincode's standard encoding. The checksum is seeded with the space, the day and the
//! version, so that the row of another tube or day is recognised as damage.

use bincode::Encode;
use bincode::enc::Encoder;
use bincode::error::EncodeError;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::record_error::RecordError;
use crate::tables::Value;

const VERSION: u8 = 1;
/// The length of version byte and checksum.
const FRAME: usize = 9;
/// More than the size of any row. Larger lengths in it are refused.
const ROW_MAX: usize = 16 << 10;

/// The bins of a power of two.
const BINS_OF_OCTAVE: usize = 4;
/// The powers of two that have bins: from 1 us to 2^40 us, which are 12 days and 17 hours.
const OCTAVES: usize = 40;
/// The number of bins of a [`Spread`]: one for less than 1 us, 4 for each power of two up to 2^40 us,
/// and one for all above.
pub const SPREAD_BINS: usize = 1 + BINS_OF_OCTAVE * OCTAVES + 1;

/// How many durations there were, and how they are distributed. Durations are microseconds.
///
/// # Example
/// ```
/// use tubewell_drivers::Spread;
///
/// let mut spread = Spread::default();
/// [7, 9].into_iter().for_each(|micros| spread.add(micros));
/// assert_eq!((spread.count, spread.sum, spread.squares, spread.max), (2, 16, 130, 9));
/// assert_eq!(spread.bins().collect::<Vec<_>>(), [(12, 1), (13, 1)]);
/// assert_eq!(Spread::bounds(12), (7, Some(8)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub sum: u128,
    /// The sum of their squares.
    pub squares: u128,
    /// The longest one.
    pub max: u64,
    bins: [u64; SPREAD_BINS],
}

/// The numbers of a tube on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a row of the file")]
pub struct DayCounts {
    /// Tasks that came into the tube.
    pub puts: u64,
    /// Takes.
    pub takes: u64,
    /// Tasks that their holders finished.
    pub acks: u64,
    /// Failures: reported attempts, and tasks that were buried for another cause.
    pub failures: u64,
    /// Claims that ended without their holders.
    pub lost: u64,
    /// Takes of tasks that had been attempted before.
    pub retried: u64,
    /// From ready to taken.
    pub wait: Spread,
    /// From taken to acked.
    pub run: Spread,
}

/// A [`Spread`] as a row has it: the bins that are not empty.
type StoredSpread = (u64, u128, u128, u64, Vec<(u8, u64)>);

/// A row: the counters, the waits, the runs.
type StoredDay = ([u64; 6], StoredSpread, StoredSpread);

impl Default for Spread {
    fn default() -> Spread {
        Spread { count: 0, sum: 0, squares: 0, max: 0, bins: [0; SPREAD_BINS] }
    }
}

impl Spread {
    /// Adds a duration.
    pub fn add(&mut self, micros: u64) {
        self.count = self.count.saturating_add(1);
        self.sum = self.sum.saturating_add(u128::from(micros));
        let square = u128::from(micros) * u128::from(micros);
        self.squares = self.squares.saturating_add(square);
        self.max = self.max.max(micros);
        let bin = &mut self.bins[bin_of(micros)];
        *bin = bin.saturating_add(1);
    }

    /// Adds the durations of another spread.
    pub fn absorb(&mut self, other: &Spread) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        self.max = self.max.max(other.max);
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin = bin.saturating_add(*more);
        }
    }

    /// Returns the bins that are not empty, by their numbers, each with its count.
    pub fn bins(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bins.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Returns the least duration of a bin, and the least one above it; `None` for the last bin, which
    /// has no upper bound.
    #[must_use]
    pub fn bounds(bin: usize) -> (u64, Option<u64>) {
        let begin = |bin: usize| match bin.checked_sub(1) {
            None => 0,
            Some(bin) => {
                let (octave, part) = (bin / BINS_OF_OCTAVE, (bin % BINS_OF_OCTAVE) as u64);
                // The first powers of two have fewer than 4 whole numbers: some bins stay empty.
                let from = (4 + part) << octave;
                from.div_ceil(BINS_OF_OCTAVE as u64)
            }
        };
        let bin = bin.min(SPREAD_BINS - 1);
        (begin(bin), (bin + 1 < SPREAD_BINS).then(|| begin(bin + 1)))
    }

    /// The sum of the bins.
    pub(crate) fn binned(&self) -> u64 {
        self.bins.iter().fold(0, |sum: u64, bin| sum.saturating_add(*bin))
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 bins")]
    fn to_stored(&self) -> StoredSpread {
        let bins = self.bins().map(|(bin, count)| (bin as u8, count)).collect();
        (self.count, self.sum, self.squares, self.max, bins)
    }

    /// `None` if a bin does not exist.
    fn from_stored((count, sum, squares, max, stored): StoredSpread) -> Option<Spread> {
        let mut bins = [0; SPREAD_BINS];
        for (bin, count) in stored {
            *bins.get_mut(usize::from(bin))? = count;
        }
        Some(Spread { count, sum, squares, max, bins })
    }
}

impl DayCounts {
    /// Adds the numbers of another part of the day.
    pub fn absorb(&mut self, other: &DayCounts) {
        for (mine, theirs) in self.counters_mut().into_iter().zip(other.counters()) {
            *mine = mine.saturating_add(theirs);
        }
        self.wait.absorb(&other.wait);
        self.run.absorb(&other.run);
    }

    /// Encodes a row of `days`.
    #[must_use]
    pub fn to_row(&self, space: u32, day: u32) -> Value {
        let mut row = vec![0; FRAME];
        row[0] = VERSION;
        let encoded = bincode::encode_into_std_write(self, &mut row, bincode::config::standard());
        debug_assert!(encoded.is_ok(), "writing to memory does not fail");
        let sum = checksum(space, day, VERSION, &row[FRAME..]);
        row[1..FRAME].copy_from_slice(&sum);
        row.into()
    }

    /// Decodes a row of `days`.
    ///
    /// # Errors
    /// The row is damaged, or a newer release wrote it.
    pub fn from_row(space: u32, day: u32, row: &[u8]) -> Result<DayCounts, RecordError> {
        let damaged = || RecordError::new(0, format!("the numbers of day {day} (wrong checksum)"));
        let (frame, rest) = row.split_at_checked(FRAME).ok_or_else(damaged)?;
        let version = frame[0];
        if frame[1..] != checksum(space, day, version, rest) {
            return Err(damaged());
        }
        if version != VERSION {
            return Err(RecordError::newer(0, &format!("version {version} of a day")));
        }
        let config = bincode::config::standard().with_limit::<ROW_MAX>();
        let decoded: Option<(StoredDay, usize)> = bincode::decode_from_slice(rest, config).ok();
        let (stored, _) = decoded.filter(|(_, read)| *read == rest.len()).ok_or_else(damaged)?;
        let ([puts, takes, acks, failures, lost, retried], wait, run) = stored;
        let spreads = Spread::from_stored(wait).zip(Spread::from_stored(run));
        let (wait, run) = spreads.ok_or_else(damaged)?;
        Ok(DayCounts { puts, takes, acks, failures, lost, retried, wait, run })
    }

    fn counters(&self) -> [u64; 6] {
        [self.puts, self.takes, self.acks, self.failures, self.lost, self.retried]
    }

    fn counters_mut(&mut self) -> [&mut u64; 6] {
        let DayCounts { puts, takes, acks, failures, lost, retried, .. } = self;
        [puts, takes, acks, failures, lost, retried]
    }
}

impl Encode for DayCounts {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.counters(), self.wait.to_stored(), self.run.to_stored()).encode(encoder)
    }
}

/// The bin of a duration.
fn bin_of(micros: u64) -> usize {
    let Some(octave) = micros.checked_ilog2() else { return 0 };
    // The two bits behind the first one.
    let part = usize::try_from((u128::from(micros) << 2 >> octave) & 3).unwrap_or(0);
    let bin = 1 + octave as usize * BINS_OF_OCTAVE + part;
    bin.min(SPREAD_BINS - 1)
}

fn checksum(space: u32, day: u32, version: u8, bytes: &[u8]) -> [u8; 8] {
    let place = u64::from(space) << 32 | u64::from(day);
    xxh3_64_with_seed(bytes, place ^ u64::from(version) << 56).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_within_the_bounds_of_its_bin() {
        let around = (0..64).flat_map(|bits| {
            let power = 1_u64 << bits;
            [power - 1, power, power + 1, power / 4 * 5, power / 2 * 3, power / 4 * 7]
        });
        for micros in around.chain([u64::MAX]) {
            let bin = bin_of(micros);
            let (from, to) = Spread::bounds(bin);
            assert!(from <= micros && to.is_none_or(|to| micros < to), "{micros} in bin {bin}");
            if bin > 0 && bin + 1 < SPREAD_BINS {
                assert!(to.is_some_and(|to| to - from <= from.div_ceil(4)), "{bin}");
            }
        }
        assert_eq!((bin_of(0), bin_of(1)), (0, 1));
        assert_eq!(bin_of((1 << 40) - 1), SPREAD_BINS - 2);
        assert_eq!(bin_of(1 << 40), SPREAD_BINS - 1);
        assert_eq!(Spread::bounds(SPREAD_BINS - 1), (1 << 40, None));
    }

    fn sample() -> DayCounts {
        let mut day = DayCounts { puts: 3, takes: 300, lost: u64::MAX, ..DayCounts::default() };
        for micros in [0, 1, 1_000_000, 1 << 41, u64::MAX] {
            day.wait.add(micros);
        }
        day.run.add(7);
        day
    }

    #[test]
    fn row_reads_back_and_any_other_byte_is_damage() {
        let day = sample();
        let row = day.to_row(7, 20_000);
        assert_eq!(DayCounts::from_row(7, 20_000, &row), Ok(day));
        assert!(DayCounts::from_row(8, 20_000, &row).is_err());
        assert!(DayCounts::from_row(7, 20_001, &row).is_err());
        for at in 0..row.len() {
            let mut bad = row.to_vec();
            bad[at] ^= 1;
            assert!(DayCounts::from_row(7, 20_000, &bad).is_err(), "byte {at}");
            assert!(DayCounts::from_row(7, 20_000, &row[..at]).is_err());
        }
        let empty = DayCounts::default();
        assert_eq!(DayCounts::from_row(0, 0, &empty.to_row(0, 0)), Ok(empty));
    }

    #[test]
    fn row_of_a_newer_release_is_refused_by_name() {
        let mut row = sample().to_row(7, 9).to_vec();
        row[0] = 2;
        let sum = checksum(7, 9, 2, &row[FRAME..]);
        row[1..FRAME].copy_from_slice(&sum);
        let error = DayCounts::from_row(7, 9, &row).unwrap_err();
        assert!(error.what.contains("newer release"), "{error}");
    }

    #[test]
    fn parts_of_a_day_add_up() {
        let mut whole = DayCounts::default();
        let mut parts = DayCounts::default();
        for micros in [0, 5, 5, 70_000, 1 << 50] {
            let mut part = DayCounts { takes: 1, ..DayCounts::default() };
            part.wait.add(micros);
            parts.absorb(&part);
            whole.takes += 1;
            whole.wait.add(micros);
        }
        assert_eq!(parts, whole);
        assert_eq!(whole.wait.binned(), 5);
        parts.absorb(&DayCounts { takes: u64::MAX, ..DayCounts::default() });
        assert_eq!(parts.takes, u64::MAX);
    }
}
