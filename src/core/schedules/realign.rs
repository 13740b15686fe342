//! Schedules after the wall clock was set back.
//!
//! A clock that was ahead for a while has moved the next run of a cron expression ahead. Once the clock
//! is right again, the schedule must not wait until the clock has caught up: it goes on from the clock
//! as it is. Invariant: as of the moment of [`Alignment::as_of`], each next run is the one that the
//! wall clock names. So the schedules are looked at again only if that clock is behind the moment.

use std::ops::Bound;
use std::sync::Arc;

use tubewell_drivers::{Found, Header, Position, Reads, RecurRule, Shelf, Table};

use super::moments::LATE;
use crate::base::codec;
use crate::base::tube_no::TubeNo;
use crate::core::catalog::encode;
use crate::core::state::{Buffer, Core, SAME_CLOCK};
use crate::core::verbs::found_position;
use crate::{Error, Result};

/// The key of the row of `meta` that stores the moment up to which schedules follow the wall clock.
const ALIGNED: &[u8] = b"aligned";

/// How far the wall clock may be set back without repeating a run at a fixed time of the day, in
/// microseconds: three hours, as for the hour that comes twice when clocks go back.
const NO_REPEAT: u64 = 3 * 3_600_000_000;

/// How many tubes without schedules one step skips.
const SKIPPED_TUBES: usize = 1000;

impl Core {
    /// Reads up to where the schedules of the file follow the wall clock.
    pub(in crate::core) fn load_alignment(&mut self) -> Result<()> {
        let row = self.buffers[Buffer::File].get(Table::Meta, ALIGNED)?;
        // A damaged row does not prevent an open: the schedules are looked at once more.
        let as_of = row.map(|row| codec::decode_row(&row).unwrap_or(u64::MAX));
        self.schedules.alignment.as_of[Buffer::File] = as_of.unwrap_or_default();
        Ok(())
    }

    /// Notes that the next run of a schedule of this tube is the one that the wall clock names now.
    pub(super) fn note_aligned(&mut self, number: TubeNo, rule: &RecurRule) {
        if !matches!(rule, RecurRule::Cron { .. }) {
            return;
        }
        let buffer = self.buffer_of(number);
        let now = self.wall.at(self.now.timeline);
        if now > self.schedules.alignment.as_of[buffer] {
            self.set_aligned(buffer, now);
        }
    }

    pub(super) fn note_aligned_header(&mut self, number: TubeNo, header: &Header) {
        if let Some(recur) = header.recur() {
            self.note_aligned(number, &recur.rule);
        }
    }

    /// Whether the wall clock is behind where schedules went on by it.
    pub(in crate::core) fn must_realign(&self) -> bool {
        let as_of = self.schedules.alignment.as_of[Buffer::File]
            .max(self.schedules.alignment.as_of[Buffer::Memory]);
        !self.config.hold_due
            && as_of > SAME_CLOCK
            && self.wall.at(self.now.timeline) < as_of - SAME_CLOCK
    }

    /// Looks at the next schedule, or ends the round.
    pub(in crate::core) fn realign_next(&mut self) -> Result<()> {
        let now = self.wall.at(self.now.timeline);
        self.schedules.alignment.round_began.get_or_insert(now);
        let Some((name, number, after)) = self.tube_to_realign() else { return Ok(()) };
        let shelf = Shelf::Recurring;
        let page = self.edit(number, |ledger| ledger.page(shelf, after.as_ref(), 1))?;
        let Some((id, found)) = page.tasks.into_iter().next() else {
            self.schedules.alignment.reached = Some((name, None));
            return Ok(());
        };
        self.schedules.alignment.reached = Some((name, Some(found_position(id, &found))));
        match self.realign(number, id, &found, now) {
            // It stands still, or `verify` reports it.
            Err(Error::Invalid { .. } | Error::Corrupt { .. }) => Ok(()),
            done => done,
        }
    }

    /// The tube with the next schedule to look at; `None` if that is found with the next step. Ends the
    /// round after the last tube.
    fn tube_to_realign(&mut self) -> Option<(Arc<str>, TubeNo, Option<Position>)> {
        let reached = self.schedules.alignment.reached.take();
        let from = match &reached {
            None => Bound::Unbounded,
            Some((name, None)) => Bound::Excluded(name.clone()),
            Some((name, Some(_))) => Bound::Included(name.clone()),
        };
        let mut skipped = None;
        let tubes = self.tubes.names_in::<Arc<str>>((from, Bound::Unbounded));
        for (name, number) in tubes.take(SKIPPED_TUBES) {
            if self.tubes.get(number).is_some_and(|tube| tube.counts.recurring > 0) {
                let after = reached.filter(|(reached, _)| reached == name).and_then(|(_, it)| it);
                return Some((name.clone(), number, after));
            }
            skipped = Some(name.clone());
        }
        self.schedules.alignment.reached = skipped.map(|name| (name, None));
        if self.schedules.alignment.reached.is_none() {
            let began = self.schedules.alignment.round_began.take().unwrap_or_default();
            for buffer in Buffer::ALL {
                if self.schedules.alignment.as_of[buffer] > began {
                    self.set_aligned(buffer, began);
                }
            }
        }
        None
    }

    /// Moves the next run of a schedule to the moment that its expression names next, if that is
    /// earlier.
    fn realign(&mut self, number: TubeNo, id: u64, found: &Found, now: u64) -> Result<()> {
        let Some(recur) = found.record.header.recur() else { return Ok(()) };
        let RecurRule::Cron { expression, zone } = &recur.rule else { return Ok(()) };
        if recur.next <= now {
            let due = found.record.header.moment(Shelf::Recurring);
            // It is due, and waits for space.
            if due.is_some_and(|due| due > now.saturating_add(LATE)) {
                self.write_schedule(number, id, found, recur.clone(), Some(now))?;
            }
            return Ok(());
        }
        let from = now.max(recur.starting.map_or(0, |starting| starting.saturating_sub(1)));
        let (next, is_interval) =
            self.ask_calendar((expression, zone), |read| (read.after(from), read.is_interval()))?;
        let covered = recur.fired.max(recur.covered);
        let is_recent =
            covered.is_some_and(|run| run.saturating_sub(now) <= NO_REPEAT && run > now);
        if next >= recur.next || is_recent && !is_interval {
            return Ok(());
        }
        let mut recur = recur.clone();
        recur.next = next;
        recur.covered = covered.filter(|covered| *covered >= next);
        self.write_schedule(number, id, found, recur, Some(next))
    }

    fn set_aligned(&mut self, buffer: Buffer, as_of: u64) {
        self.schedules.alignment.as_of[buffer] = as_of;
        if buffer == Buffer::File {
            let rows = &mut self.buffers[Buffer::File].edits.active;
            rows.replace(Table::Meta, ALIGNED.to_vec(), encode(&as_of));
        }
    }
}
