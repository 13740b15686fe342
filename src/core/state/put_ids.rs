//! Which tasks were put into a tube in this run of the store, as far as it is known.

use std::collections::VecDeque;

/// The newest ranges that are kept. Tasks that are put one after the other into one tube share a range.
const MAX_RANGES: usize = 512;

/// The ids of tasks that were put into a tube. Invariant: the ranges are in order, and do not overlap.
#[derive(Debug, Default)]
pub(crate) struct PutIds {
    /// First id, and the end.
    ranges: VecDeque<(u64, u64)>,
}

impl PutIds {
    /// Notes a task that was put. One whose id is below that of an earlier one stays unknown.
    #[inline]
    pub(crate) fn note(&mut self, id: u64) {
        match self.ranges.back_mut() {
            Some((_, end)) if *end == id => *end += 1,
            Some((_, end)) if *end > id => {}
            _ => {
                if self.ranges.len() == MAX_RANGES {
                    self.ranges.pop_front();
                }
                self.ranges.push_back((id, id.saturating_add(1)));
            }
        }
    }

    /// Whether it is known that this task was put into the tube.
    pub(crate) fn contains(&self, id: u64) -> bool {
        let at = self.ranges.partition_point(|(_, end)| *end <= id);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_ids_are_known_in_ranges() {
        let mut put = PutIds::default();
        assert!(!put.contains(0));
        for id in [3, 4, 5, 9, 7, u64::MAX] {
            put.note(id);
        }
        assert_eq!(put.ranges, [(3, 6), (9, 10), (u64::MAX, u64::MAX)]);
        let known: Vec<u64> = (0..12).filter(|id| put.contains(*id)).collect();
        assert_eq!(known, [3, 4, 5, 9]);
    }

    #[test]
    fn newest_ranges_are_kept() {
        let mut put = PutIds::default();
        (0..1000).for_each(|n| put.note(2 * n));
        assert_eq!(put.ranges.len(), MAX_RANGES);
        assert!(put.contains(1998) && put.contains(1998 - 1022) && !put.contains(1998 - 1024));
    }
}
