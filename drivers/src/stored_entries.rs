//! Which entries of the history of a task are stored.

use std::ops::Range;

use bincode::{Decode, Encode};

use crate::limits::HISTORY_MAX;

/// More entries than any task has.
const TOTAL_MAX: u64 = 1 << 62;

/// Which entries of a history are stored: the first one, and the newest of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[expect(clippy::exhaustive_structs, reason = "two numbers")]
pub struct StoredEntries {
    /// How many entries there have been: the number of the next one.
    pub total: u64,
    /// How many of them are stored: 1 to [`HISTORY_MAX`](crate::HISTORY_MAX), and not more than
    /// `total`.
    pub count: u32,
}

impl StoredEntries {
    /// Returns which entries are stored after `added` further ones, in a history of at most `limit`
    /// entries. `None` if that is 0, or if there are none.
    ///
    /// # Example: the first entry, and the newest four
    /// ```
    /// use tubewell_drivers::StoredEntries;
    ///
    /// let stored = StoredEntries::after(None, 100, 5).unwrap();
    /// assert_eq!(stored.numbers().collect::<Vec<_>>(), [0, 96, 97, 98, 99]);
    /// ```
    #[must_use]
    pub fn after(before: Option<StoredEntries>, added: u64, limit: u32) -> Option<StoredEntries> {
        let (total, count) = before.map_or((0, 0), |stored| (stored.total, stored.count));
        let count = u64::from(count).saturating_add(added).min(u64::from(limit.min(HISTORY_MAX)));
        let stored = StoredEntries {
            total: total.saturating_add(added).min(TOTAL_MAX),
            count: u32::try_from(count).unwrap_or(HISTORY_MAX),
        };
        (stored.count > 0).then_some(stored)
    }

    /// Returns the numbers of the stored entries, in order.
    pub fn numbers(self) -> impl Iterator<Item = u64> {
        let first = (self.count > 0).then_some(0);
        first.into_iter().chain(self.newest())
    }

    /// Returns whether the entry of this number is stored.
    #[must_use]
    pub fn contains(self, number: u64) -> bool {
        self.count > 0 && number == 0 || self.newest().contains(&number)
    }

    pub(crate) fn is_valid(self) -> bool {
        self.total <= TOTAL_MAX
            && (1..=HISTORY_MAX).contains(&self.count)
            && u64::from(self.count) <= self.total
    }

    /// The numbers of the stored entries without the first one.
    fn newest(self) -> Range<u64> {
        self.total.saturating_sub(u64::from(self.count.saturating_sub(1)))..self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_entry_and_the_newest_ones_are_stored() {
        let mut stored = None;
        for total in 1..=20 {
            stored = StoredEntries::after(stored, 1, 5);
            let numbers: Vec<u64> = stored.unwrap().numbers().collect();
            let newest = total.max(5) - 4..total;
            let expected = [0].into_iter().chain(newest.filter(|number| *number > 0));
            assert_eq!(numbers, expected.collect::<Vec<_>>());
            for number in 0..=total {
                assert_eq!(stored.unwrap().contains(number), numbers.contains(&number));
            }
        }
        // A higher limit does not bring back what was removed, and a lower one removes more.
        let higher = StoredEntries::after(stored, 2, 10).unwrap();
        assert_eq!(higher.numbers().collect::<Vec<_>>(), [0, 16, 17, 18, 19, 20, 21]);
        let lower = StoredEntries::after(Some(higher), 0, 2).unwrap();
        assert_eq!(lower.numbers().collect::<Vec<_>>(), [0, 21]);
        let one = StoredEntries::after(Some(lower), 1, 1).unwrap();
        assert_eq!(one.numbers().collect::<Vec<_>>(), [0]);
        assert_eq!(StoredEntries::after(Some(one), 1, 0), None);
        assert_eq!(StoredEntries::after(None, 0, 5), None);
    }

    #[test]
    fn numbers_that_no_history_reaches_are_refused() {
        for (total, count, is_valid) in [
            (1, 1, true),
            (TOTAL_MAX, HISTORY_MAX, true),
            (0, 0, false),
            (5, 0, false),
            (5, 6, false),
            (TOTAL_MAX, HISTORY_MAX + 1, false),
            (u64::MAX, 1, false),
        ] {
            assert_eq!(StoredEntries { total, count }.is_valid(), is_valid, "{total} {count}");
        }
    }
}
