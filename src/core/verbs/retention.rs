//! Retention: a tube that keeps a limited number of done or buried tasks removes the oldest ones.
//!
//! The end that exceeds the number removes one, with its own commit. A number that is lowered leaves
//! a surplus, which is removed by chores: a step at a time, and further by the next open.

use tubewell_drivers::Shelf;

use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::state::window::Rank;
use crate::core::state::{Buffer, Core};
use crate::{Error, Result};

/// How many of the oldest kept tasks one end removes. More than it adds, so that a tube whose surplus
/// is not yet removed approaches its limit.
const TRIM_STEP: u64 = 2;

/// How many tasks of a surplus one step removes, and after how many rows it ends: a task may have
/// thousands of entries and steps.
const SURPLUS_PER_STEP: usize = 256;
const SURPLUS_ROWS: usize = 4096;

/// The shelves whose tasks are kept by number.
const KEPT: [Shelf; 2] = [Shelf::Done, Shelf::Buried];

impl Core {
    /// Removes the oldest kept tasks of a shelf, if its tube keeps a limited number and has more.
    /// If the storage fails they stay until the next call.
    pub(in crate::core) fn trim(&mut self, number: TubeNo, shelf: Shelf, visibility: Visibility) {
        for _ in 0..TRIM_STEP {
            if !self.trim_oldest(number, shelf, visibility).unwrap_or_default() {
                return;
            }
        }
    }

    /// As [`trim`](Core::trim), for one buried task: it only edits rows, since the store is closing.
    pub(in crate::core) fn trim_buried_at_close(&mut self, number: TubeNo) -> Result<()> {
        let Some(after) = self.excess_after(number, Shelf::Buried) else { return Ok(()) };
        let oldest = self.edit(number, |ledger| ledger.undamaged(Shelf::Buried, after, 1))?;
        oldest.iter().try_for_each(|(id, found)| self.remove_as_gone(number, *id, found))
    }

    /// Notes a tube that has more tasks than it keeps, for the chores.
    pub(in crate::core) fn note_surplus(&mut self, number: TubeNo) {
        if KEPT.into_iter().any(|shelf| self.excess_after(number, shelf).is_some()) {
            self.chores.add_surplus(number);
            self.effects.call_writer = true;
        }
    }

    /// Removes some tasks of the next tube of a write buffer that has more than it keeps. Returns
    /// false if no tube has.
    pub(in crate::core) fn trim_next_surplus(&mut self, buffer: Buffer) -> Result<bool> {
        let is_of = |number: &TubeNo| self.buffer_of(*number) == buffer;
        let Some(number) = self.chores.surplus().find(is_of) else { return Ok(false) };
        let is_done = match self.publish_together(|core| core.trim_surplus(number)) {
            // `verify` reports the damaged task. Later ends remove the others.
            Err(Error::Corrupt { .. }) => true,
            trimmed => trimmed?,
        };
        if is_done {
            self.chores.remove_surplus(number);
        }
        Ok(true)
    }

    /// Removes tasks that exceed what a tube keeps: a step of them. Returns whether none is left.
    fn trim_surplus(&mut self, number: TubeNo) -> Result<bool> {
        let (before, visibility) = (self.active_rows(), self.sweep_visibility(number));
        let mut removed = 0;
        for shelf in KEPT {
            while self.trim_oldest(number, shelf, visibility)? {
                removed += 1;
                let rows = self.active_rows().saturating_sub(before);
                if removed == SURPLUS_PER_STEP || rows >= SURPLUS_ROWS {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Removes the oldest kept task of a shelf, if its tube has more than it keeps. Returns false if
    /// there is none to remove.
    ///
    /// It is found anew for each: what becomes visible may lead to a take or to a put, and these to
    /// the end of other tasks.
    fn trim_oldest(
        &mut self,
        number: TubeNo,
        shelf: Shelf,
        visibility: Visibility,
    ) -> Result<bool> {
        let Some(after) = self.excess_after(number, shelf) else { return Ok(false) };
        let oldest = self.edit(number, |ledger| ledger.undamaged(shelf, after, 1))?.pop();
        let Some((id, found)) = oldest else { return Ok(false) };
        // A transaction could not take back what becomes of its edges.
        if self.undo.is_in_transaction() && self.has_edges(number, id, &found) {
            return Ok(false);
        }
        self.forget_one(number, id, &found, visibility)?;
        self.note_trimmed(number, shelf, (found.record.header.order_on(shelf), id));
        Ok(true)
    }

    /// If a shelf has more tasks than its tube keeps: after which rank its first task is.
    fn excess_after(&self, number: TubeNo, shelf: Shelf) -> Option<Option<Rank>> {
        let tube = self.tubes.get(number)?;
        let policies = &tube.definition.policies;
        let (keep, count, after) = match shelf {
            Shelf::Done => (policies.keep_done, tube.counts.done, tube.empty_up_to.done),
            Shelf::Buried => (policies.keep_buried, tube.counts.buried, tube.empty_up_to.buried),
            Shelf::Ready | Shelf::Delayed | Shelf::Blocked | Shelf::Recurring => return None,
        };
        (count > keep?.count?).then_some(after)
    }

    /// Notes that the first task of a shelf, of this rank, was removed. Tasks that end now may have
    /// a lower id than one that has ended at the same time.
    fn note_trimmed(&mut self, number: TubeNo, shelf: Shelf, rank: Rank) {
        if rank.0 >= self.now.timeline {
            return;
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.empty_up_to.set(shelf, rank);
        }
    }
}
