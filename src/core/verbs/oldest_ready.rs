//! How long tasks have been ready that are next in a tube, from a bounded number of reads.
//!
//! Tasks of one order key, such as a priority, are handed out by their ids. So the first ready task of each
//! key is looked at. It usually is the one that has been ready for the longest time; but one that was released or
//! kicked has been ready for less time than the tasks behind it.

use tubewell_drivers::{Header, Reads, Record, Shelf, Value, check_position, keys};

use super::take::ready_rows;
use crate::base::tube_no::TubeNo;
use crate::core::state::Core;
use crate::core::state::window::{Rank, ReadUpTo, WindowSlot, rank_before};

/// How many order keys of a tube are looked at.
const ORDERS: usize = 8;

/// How many rows of a tube are read.
const MAX_ROWS: usize = 32;

/// How many rows a read has: the first ones may be of tasks that are not ready.
const ROWS_OF_READ: usize = 4;

impl Core {
    /// For how long the task has been ready that is ready for the longest time, of the first ready task of each
    /// of the first order keys, in microseconds. Adds the rows that it reads to `rows`. `None` if it finds no
    /// ready task.
    ///
    /// In a tube with sub-queues, these are the first tasks of the sub-queues of which a task can be taken.
    pub(super) fn oldest_ready(&mut self, number: TubeNo, rows: &mut usize) -> Option<u64> {
        // While the storage fails, nothing is read.
        let mut left = if self.check_open().is_ok() { MAX_ROWS } else { 0 };
        let mut oldest: Option<u64> = None;
        let mut from = (0, 0);
        for _ in 0..ORDERS {
            let Some((order, since)) = self.first_ready(number, from, &mut left) else { break };
            oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
            let Some(next) = order.checked_add(1) else { break };
            from = (next, 0);
        }
        *rows += MAX_ROWS - left;
        oldest.map(|since| self.now.timeline.saturating_sub(since))
    }

    /// The order key of the first ready task from this rank on, and since when it is ready.
    fn first_ready(
        &mut self,
        number: TubeNo,
        mut from: Rank,
        left: &mut usize,
    ) -> Option<(u64, u64)> {
        loop {
            let window = &self.tubes.get(number)?.window;
            match window.next_after(rank_before(from)) {
                Some((rank, WindowSlot::Read(entry))) => {
                    return Some((rank.0, entry.header.ready_since()));
                }
                Some((rank, WindowSlot::Unread(sub))) => {
                    let sub = sub.clone();
                    if let Some(header) = self.read_head(number, rank, &sub, left) {
                        return Some((rank.0, header.ready_since()));
                    }
                    from = rank_after(rank)?;
                }
                None => return self.first_stored(number, from, left),
            }
        }
    }

    /// As `first_ready`, behind the cursor of the window.
    fn first_stored(&mut self, number: TubeNo, from: Rank, left: &mut usize) -> Option<(u64, u64)> {
        let tube = self.tubes.get(number)?;
        let buffer = tube.buffer;
        let from = match tube.window.read_up_to() {
            ReadUpTo::Start => from,
            ReadUpTo::At(order, id) => from.max(rank_after((order, id))?),
            ReadUpTo::End => return None,
        };
        let (table, prefix) = ready_rows(&tube.definition);
        let mut begin = keys::ranked(&prefix, from.0, from.1);
        let end = keys::end_of(&prefix);
        while *left > 0 {
            let limit = ROWS_OF_READ.min(*left);
            *left -= limit;
            // The failure of a read is handled at the end of the call.
            let rows = self.buffers[buffer].scan(table, &begin, &end, limit).ok()?;
            let is_full = rows.len() == limit;
            for (key, row) in rows {
                let rank = keys::order_and_id(&key).ok()?;
                if let Some(header) = self.read_row(number, rank, row, left) {
                    return Some((rank.0, header.ready_since()));
                }
                begin = keys::after(&key);
            }
            if !is_full {
                return None;
            }
        }
        None
    }

    /// The header of the ready task of a row. `None` if it is taken, not visible or damaged.
    fn read_row(
        &mut self,
        number: TubeNo,
        rank: Rank,
        row: Value,
        left: &mut usize,
    ) -> Option<Header> {
        if self.publishing.is_invisible(rank.1) || self.claims.contains(rank.1) {
            return None;
        }
        if self.tubes.get(number)?.definition.sub_queued {
            return self.read_head(number, rank, std::str::from_utf8(&row).ok()?, left);
        }
        let record = Record::decode(rank.1, row).ok()?;
        check_position(&record, Shelf::Ready, rank).ok()?;
        Some(record.into_parts().0)
    }

    /// The header of the first task of a sub-queue.
    fn read_head(
        &mut self,
        number: TubeNo,
        rank: Rank,
        sub: &str,
        left: &mut usize,
    ) -> Option<Header> {
        *left = left.checked_sub(1)?;
        Some(self.read_ready(number, rank, sub).ok()??.header)
    }
}

/// The first rank behind this one; `None` if it is the last.
fn rank_after((order, id): Rank) -> Option<Rank> {
    match id.checked_add(1) {
        Some(id) => Some((order, id)),
        None => Some((order.checked_add(1)?, 0)),
    }
}
