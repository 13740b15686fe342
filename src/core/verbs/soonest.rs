//! The delayed tasks of a tube, in the order in which they become ready.
//!
//! No index has them in this order. The rows of the times at which something is due have: those of the
//! timeline, and those of moments of the wall clock, of all tubes. Both are read from the cursor on and
//! merged; what is not a delayed task of the tube is passed over, and counts as looked at.
//!
//! A row has its place at the moment at which its task becomes ready, and a cursor has that moment and the
//! id. Invariant: as long as the wall clock is not set, a row keeps its place, so that a cursor leaves
//! out no task and repeats none, whatever else comes and goes.

use tubewell_drivers::{Found, NEVER, Position, Shelf, Value};

use super::listing::{Matches, READ, ReadRow, Row};
use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::state::Core;
use crate::core::state::window::Rank;
use crate::core::time::DueKind;
use crate::values::task::Cursor;

/// A row of a time: the moment at which it is due, and its id; the space of its task; where it leads.
type TimeRow = (Rank, u32, Value);

impl Core {
    /// Adds the delayed tasks of a tube behind the cursor, in the order in which they become ready.
    pub(super) fn match_soonest(
        &mut self,
        number: TubeNo,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let mut after: Option<Rank> = begin.map(super::peek::rank_of);
        loop {
            let (rows, may_have_more) = self.times_after(number, after)?;
            after = rows.last().map(|(rank, ..)| *rank);
            let mut read = Vec::with_capacity(rows.len());
            for ((moment, id), space, pointer) in rows {
                let found = self.delayed_at(number, id, space, &pointer);
                read.push((Cursor::of_soonest(moment, id), id, Row::of(found)?));
            }
            let read: Vec<ReadRow> = read;
            if self.add_wanted(matches, read, may_have_more).is_some() {
                return Ok(());
            }
        }
    }

    /// The next rows of times, of all tubes that are stored where this one is, and whether there may be
    /// more.
    fn times_after(&mut self, number: TubeNo, after: Option<Rank>) -> Result<(Vec<TimeRow>, bool)> {
        let Some(tube) = self.tubes.get(number) else { return Ok((Vec::new(), false)) };
        let buffer = tube.buffer;
        let (mut rows, mut whole_up_to) = (Vec::new(), None);
        for kind in DueKind::ALL {
            let ahead = match kind {
                DueKind::Timeline => self.clocks().shown_ahead(),
                DueKind::Moment => 0,
            };
            let from = after.map(|(moment, id)| kind.key_after(shift(moment, -ahead), id));
            let of_kind = kind.rows(&mut self.buffers[buffer], from, READ)?;
            let is_full = of_kind.len() == READ;
            for (key, pointer) in of_kind {
                // An unreadable key: `verify` reports it.
                let Ok((time, space, id)) = kind.split(&key) else { continue };
                rows.push(((shift(time, ahead), id), space, pointer));
            }
            let last = rows.last().filter(|_| is_full).map(|(rank, ..)| *rank);
            whole_up_to = whole_up_to.into_iter().chain(last).min();
        }
        rows.sort_unstable_by_key(|(rank, ..)| *rank);
        if let Some(last) = whole_up_to {
            rows.retain(|(rank, ..)| *rank <= last);
        }
        let may_have_more = whole_up_to.is_some() && !rows.is_empty();
        Ok((rows, may_have_more))
    }

    /// The task to which a row of a time leads, if it is a delayed one of this tube.
    fn delayed_at(
        &mut self,
        number: TubeNo,
        id: u64,
        space: u32,
        pointer: &Value,
    ) -> Result<Option<Found>> {
        if self.tubes.of_space(space) != Some(number) {
            return Ok(None);
        }
        let position = Position::from_pointer(id, pointer)?;
        if position.shelf != Shelf::Delayed {
            return Ok(None);
        }
        self.edit(number, |ledger| ledger.at(&position))
    }
}

/// A time that is `by` later; the last one at most.
fn shift(time: u64, by: i128) -> u64 {
    u64::try_from((i128::from(time) + by).max(0)).unwrap_or(NEVER)
}
