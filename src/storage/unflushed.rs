//! The ranges of a medium that were written and not flushed, and the flushes that may cover them.
//!
//! Flushes are counted as they begin. A flush covers the writes that had ended when it began, so a
//! range is noted once its write has ended, with the number of flushes so far.
//!
//! Invariant: a range is dropped only by a flush that began after its write and succeeded. A flush
//! that began before another one failed does not succeed: it may not have heard of the failure.

use std::io;

/// With more ranges than this, only their common range is kept.
const MAX_RANGES: usize = 1 << 16;

/// What was written since the last successful flush.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    ranges: Vec<Written>,
    /// The number of flushes begun.
    flushes: u64,
    /// Flushes up to this number do not count as successful.
    failed: u64,
    /// A flush has failed, and what it may have lost is not written again yet.
    needs_rewrite: bool,
}

#[derive(Clone, Copy, Debug)]
struct Written {
    from: u64,
    to: u64,
    /// The number of flushes begun when the write had ended.
    flushes: u64,
}

impl Unflushed {
    /// Notes a write that has ended, with or without success.
    pub(super) fn note_write(&mut self, from: u64, to: u64) {
        let flushes = self.flushes;
        match self.ranges.last_mut() {
            Some(last) if last.to == from && last.flushes == flushes => last.to = to,
            _ => self.ranges.push(Written { from, to, flushes }),
        }
        if self.ranges.len() > MAX_RANGES {
            let from = self.ranges.iter().map(|range| range.from).min().unwrap_or(0);
            let to = self.ranges.iter().map(|range| range.to).max().unwrap_or(0);
            self.ranges = vec![Written { from, to, flushes }];
        }
    }

    /// Begins a flush. Returns its number. Fails if an earlier one has failed since the last rewrite.
    pub(super) fn begin_flush(&mut self) -> io::Result<u64> {
        if self.needs_rewrite {
            return Err(io::Error::other("an earlier flush failed"));
        }
        self.flushes += 1;
        Ok(self.flushes)
    }

    /// Ends a flush with what the medium has returned.
    pub(super) fn end_flush(&mut self, number: u64, outcome: io::Result<()>) -> io::Result<()> {
        if let Err(error) = outcome {
            self.failed = self.flushes;
            self.needs_rewrite = true;
            return Err(error);
        }
        if number <= self.failed {
            return Err(io::Error::other("another flush failed meanwhile"));
        }
        self.ranges.retain(|range| range.flushes >= number);
        Ok(())
    }

    /// Returns the ranges that must be written again, merged, and admits flushes again. The ranges
    /// stay until a later flush succeeds.
    pub(super) fn begin_rewrite(&mut self) -> Vec<(u64, u64)> {
        self.needs_rewrite = false;
        self.merge();
        self.ranges.iter().map(|range| (range.from, range.to)).collect()
    }

    /// Whether a flush has failed since the last rewrite began.
    pub(super) fn has_failed(&self) -> bool {
        self.needs_rewrite
    }

    /// The rewrite of these ranges has failed: they must be written again, and no flush succeeds
    /// before that.
    pub(super) fn rewrite_failed(&mut self, ranges: &[(u64, u64)]) {
        let flushes = self.flushes;
        (self.failed, self.needs_rewrite) = (flushes, true);
        self.ranges.extend(ranges.iter().map(|(from, to)| Written {
            from: *from,
            to: *to,
            flushes,
        }));
        self.merge();
    }

    /// Merges ranges that overlap or touch.
    fn merge(&mut self) {
        self.ranges.sort_unstable_by_key(|range| (range.from, range.to));
        self.ranges.dedup_by(|next, merged| {
            let touches = next.from <= merged.to;
            if touches {
                merged.to = merged.to.max(next.to);
                merged.flushes = merged.flushes.max(next.flushes);
            }
            touches
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail() -> io::Result<()> {
        Err(io::Error::other("the disk fails"))
    }

    #[test]
    fn flush_covers_the_writes_that_had_ended_when_it_began() {
        let mut unflushed = Unflushed::default();
        unflushed.note_write(0, 10);
        let flush = unflushed.begin_flush().unwrap();
        unflushed.note_write(10, 20);
        unflushed.end_flush(flush, Ok(())).unwrap();
        assert_eq!(unflushed.begin_rewrite(), [(10, 20)]);
        let flush = unflushed.begin_flush().unwrap();
        unflushed.end_flush(flush, Ok(())).unwrap();
        assert_eq!(unflushed.begin_rewrite(), []);
    }

    #[test]
    fn flush_that_began_before_another_one_failed_drops_nothing() {
        for rewritten in [false, true] {
            let mut unflushed = Unflushed::default();
            unflushed.note_write(0, 10);
            let first = unflushed.begin_flush().unwrap();
            unflushed.note_write(20, 30);
            let second = unflushed.begin_flush().unwrap();
            assert!(unflushed.end_flush(second, fail()).is_err());
            assert!(unflushed.begin_flush().is_err(), "what was lost is not written again");
            if rewritten {
                assert_eq!(unflushed.begin_rewrite(), [(0, 10), (20, 30)]);
            }
            assert!(unflushed.end_flush(first, Ok(())).is_err());
            assert_eq!(unflushed.begin_rewrite(), [(0, 10), (20, 30)]);
            let third = unflushed.begin_flush().unwrap();
            unflushed.end_flush(third, Ok(())).unwrap();
            assert_eq!(unflushed.begin_rewrite(), []);
        }
    }

    #[test]
    fn failed_rewrite_keeps_its_ranges_although_they_were_flushed() {
        let mut unflushed = Unflushed::default();
        unflushed.note_write(0, 10);
        let flush = unflushed.begin_flush().unwrap();
        assert!(unflushed.end_flush(flush, fail()).is_err());
        let ranges = unflushed.begin_rewrite();
        unflushed.note_write(0, 10);
        let flush = unflushed.begin_flush().unwrap();
        unflushed.end_flush(flush, Ok(())).unwrap();
        assert!(!unflushed.has_failed());
        unflushed.rewrite_failed(&ranges);
        assert!(unflushed.has_failed());
        assert!(unflushed.begin_flush().is_err());
        assert_eq!(unflushed.begin_rewrite(), [(0, 10)]);
    }

    #[test]
    fn too_many_ranges_are_kept_as_their_common_range() {
        let mut unflushed = Unflushed::default();
        for at in 1..=MAX_RANGES as u64 + 1 {
            unflushed.note_write(10 * at, 10 * at + 1);
        }
        assert_eq!(unflushed.ranges.len(), 1);
        assert_eq!(unflushed.begin_rewrite(), [(10, 10 * (MAX_RANGES as u64 + 1) + 1)]);
    }
}
