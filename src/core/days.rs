//! The numbers of tubes with metrics, by day: counted in memory, and written with commits that happen
//! anyway.
//!
//! A change is counted when it is decided, so that a row has what the commit with it has.

use std::collections::BTreeMap;

use tubewell_drivers::{DayCounts, FailureTimes, Reads, Row, Rows, Table, keys};

use crate::base::tube_no::TubeNo;
use crate::core::state::{Buffer, Core, Counted, Decided, day_of};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::core::wire::wire_struct;
use crate::values::date::{Date, begin_of, end_of};
use crate::{Error, Result};

/// How long the numbers of a write buffer stay in memory after they were written, in microseconds.
const WRITE_EVERY: u64 = 10_000_000;

/// How many rows of failed tasks one call reads while it holds the lock.
const FAILED_STEP: usize = 4096;

/// The tasks that have failed on each of some days, and where the next step begins.
pub(crate) struct FailedStep {
    pub(crate) days: Vec<u32>,
    pub(crate) next: Option<Vec<u8>>,
}

wire_struct! { FailedStep { days, next } }

verb! {
    /// The numbers of these days, counted from 1970, as far as they are kept.
    45 InTube Look: Days { from: u32, to: u32 } -> Vec<(u32, DayCounts)>
}

impl Decide for Days {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<(u32, DayCounts)>>> {
        core.days(number, (self.from, self.to)).map(Decided::now)
    }
}

verb! {
    /// On which of these days the tasks have failed that are still buried: a step, which begins at the
    /// key `next`.
    46 InTube Look: FailedOn { from: u32, to: u32, next: Vec<u8> } -> FailedStep
}

impl Decide for FailedOn {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<FailedStep>> {
        core.failed_on(number, (self.from, self.to), &self.next).map(Decided::now)
    }
}

impl Core {
    /// Counts, if the tube has metrics.
    #[inline]
    pub(in crate::core) fn count(&mut self, number: TubeNo, counted: Counted) {
        if self.has_metrics(number) {
            self.count_now(number, counted);
        }
    }

    pub(in crate::core) fn has_metrics(&self, number: TubeNo) -> bool {
        self.tubes.get(number).is_some_and(|tube| tube.days.is_some())
    }

    /// Counts the end of a task by its holder, whose claim is still there.
    #[inline]
    pub(in crate::core) fn count_ack(&mut self, number: TubeNo, id: u64) {
        if self.has_metrics(number)
            && let Some(claim) = self.claims.get(id)
        {
            let run = self.now.running.saturating_sub(claim.taken_at);
            self.count_now(number, Counted::Ack { run });
        }
    }

    /// Adds the numbers that were not written for a while to the active edits.
    pub(in crate::core) fn write_days(&mut self, buffer: Buffer, closing: bool) {
        let of = &mut self.buffers[buffer];
        if of.dirty_days.is_empty() || !closing && self.now.running < of.days_due {
            return;
        }
        of.days_due = self.now.running.saturating_add(WRITE_EVERY);
        for number in std::mem::take(&mut self.buffers[buffer].dirty_days) {
            // The next commit tries again. The failure of a read is handled at the end of the call.
            if self.write_days_of(number).is_err() {
                self.buffers[buffer].dirty_days.insert(number);
            }
        }
    }

    /// The numbers of these days, as far as they are kept. Days without numbers are left out, and of
    /// several days those whose row is damaged.
    fn days(&mut self, number: TubeNo, (from, to): (u32, u32)) -> Result<Vec<(u32, DayCounts)>> {
        let from = from.max(self.first_day_of(number)?);
        let Some(tube) = self.tubes.get(number).filter(|_| from <= to) else {
            return Ok(Vec::new());
        };
        let space = tube.definition.space;
        let in_memory = tube.days.as_ref().map(|state| state.days.clone()).unwrap_or_default();
        let rows = self.rows_of_days(number, from, to)?;
        let mut days = BTreeMap::new();
        for (key, row) in rows {
            let Ok((_, day)) = keys::split_day(&key) else { continue };
            match DayCounts::from_row(space, day, &row) {
                Ok(counts) => drop(days.insert(day, counts)),
                Err(error) if from == to => {
                    let what = format!("{} of {} cannot be read", error.what, Date::of_day(day));
                    return Err(Error::corrupt(what));
                }
                // `verify` reports it.
                Err(_) => {}
            }
        }
        for (day, counted) in in_memory.range(from..=to) {
            let counts: &mut DayCounts = days.entry(*day).or_default();
            if counted.has_row {
                counts.clone_from(&counted.counts);
            } else {
                counts.absorb(&counted.counts);
            }
        }
        Ok(days.into_iter().collect())
    }

    /// On which of these days the tasks have failed that are still buried. Begins at the key `next`.
    fn failed_on(
        &mut self,
        number: TubeNo,
        (from, to): (u32, u32),
        next: &[u8],
    ) -> Result<FailedStep> {
        let from = from.max(self.first_day_of(number)?);
        if from > to {
            return Ok(FailedStep { days: Vec::new(), next: None });
        }
        let range = (begin_of(from), end_of(to));
        let FailureTimes { times, next } =
            self.edit(number, |ledger| ledger.failed_between(range, next, FAILED_STEP))?;
        Ok(FailedStep { days: times.into_iter().map(day_of).collect(), next })
    }

    /// The rows of a tube whose space is about to change, for `put_days_back`.
    pub(in crate::core) fn take_days(&mut self, number: TubeNo) -> Result<Vec<(u32, DayCounts)>> {
        let Some(tube) = self.tubes.get(number).filter(|tube| tube.days.is_some()) else {
            return Ok(Vec::new());
        };
        let space = tube.definition.space;
        let rows = self.rows_of_days(number, 0, u32::MAX)?;
        let days = rows.into_iter().filter_map(|(key, row)| {
            let (_, day) = keys::split_day(&key).ok()?;
            Some((day, DayCounts::from_row(space, day, &row).ok()?))
        });
        Ok(days.collect())
    }

    /// Writes rows in the new space of a tube. Those in the old one are purged.
    pub(in crate::core) fn put_days_back(&mut self, number: TubeNo, days: Vec<(u32, DayCounts)>) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let (space, buffer) = (tube.definition.space, tube.buffer);
        for (day, counts) in days {
            let row = counts.to_row(space, day);
            self.buffers[buffer].insert(Table::Days, keys::day(space, day), row);
        }
        if let Some(state) = &mut tube.days {
            // A damaged row was left behind.
            state.days.values_mut().for_each(|day| day.is_damaged = false);
        }
    }

    /// Removes all numbers of a tube.
    pub(in crate::core) fn remove_days(&mut self, number: TubeNo) -> Result<()> {
        let rows = self.rows_of_days(number, 0, u32::MAX)?;
        let buffer = self.buffer_of(number);
        for (key, _) in rows {
            self.buffers[buffer].remove(Table::Days, key);
        }
        self.buffers[buffer].dirty_days.remove(&number);
        Ok(())
    }

    /// Checks that the numbers in memory agree with each other.
    pub(in crate::core) fn check_days(&self, findings: &mut Vec<String>) {
        for tube in self.tubes.values() {
            let days = tube.days.iter().flat_map(|state| &state.days);
            for (day, counted) in days {
                let found = counted.counts.disagreements();
                let date = Date::of_day(*day);
                findings.extend(found.into_iter().map(|what| {
                    format!("tube {:?}: the numbers of {date}: {what}", tube.definition.name)
                }));
            }
        }
    }

    fn count_now(&mut self, number: TubeNo, counted: Counted) {
        #[cfg(feature = "redb")]
        if self.undo.count_later(number, counted) {
            return;
        }
        let today = day_of(self.now.timeline);
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let Some(state) = &mut tube.days else { return };
        let kept = tube.definition.policies.metrics;
        let buffer = &mut self.buffers[tube.buffer];
        if state.count(today, counted) {
            // A day begins: the one before it is complete, and an old one may be over.
            buffer.days_due = 0;
            state.days.retain(|day, _| *day >= first_kept(today, kept));
        }
        buffer.dirty_days.insert(number);
    }

    /// Writes the numbers of a tube, and removes the days that it does not keep.
    fn write_days_of(&mut self, number: TubeNo) -> Result<()> {
        let Some(tube) = self.tubes.get_mut(number) else { return Ok(()) };
        let (space, kept) = (tube.definition.space, tube.definition.policies.metrics);
        let Some(state) = &mut tube.days else { return Ok(()) };
        let rows = &mut self.buffers[tube.buffer];
        let today = day_of(self.now.timeline);
        let first = first_kept(today, kept);
        for (day, counted) in &mut state.days {
            let key = keys::day(space, *day);
            if !counted.has_row
                && let Some(row) = rows.get(Table::Days, &key)?
            {
                match DayCounts::from_row(space, *day, &row) {
                    Ok(stored) => counted.counts.absorb(&stored),
                    Err(_) => counted.is_damaged = true,
                }
            }
            counted.has_row = !counted.is_damaged;
            if counted.has_row && *day >= first {
                rows.replace(Table::Days, key, counted.counts.to_row(space, *day));
            }
        }
        if state.removed_on != Some(today) {
            let (from, to) = (keys::day(space, 0), keys::day(space, first));
            for (key, row) in rows.scan(Table::Days, &from, &to, usize::MAX)? {
                // A damaged row stays for `verify`. It may be that of another day.
                let day = keys::split_day(&key).map_or(0, |(_, day)| day);
                if DayCounts::from_row(space, day, &row).is_ok() {
                    rows.remove(Table::Days, key);
                }
            }
            state.removed_on = Some(today);
        }
        state.days.retain(|day, _| *day == today);
        Ok(())
    }

    /// The first day that a tube keeps.
    fn first_day_of(&self, number: TubeNo) -> Result<u32> {
        let definition = &self.tubes.get(number).ok_or(Error::Closed)?.definition;
        let kept = definition.policies.metrics;
        if kept == 0 {
            let name = &definition.name;
            return Err(Error::invalid(format!(
                "tube {name:?} has no metrics; create it or alter it with metrics(days)"
            )));
        }
        Ok(first_kept(day_of(self.now.timeline), kept))
    }

    fn rows_of_days(&mut self, number: TubeNo, from: u32, to: u32) -> Result<Vec<Row>> {
        let Some(tube) = self.tubes.get(number) else { return Ok(Vec::new()) };
        let space = tube.definition.space;
        let (from, to) = (keys::day(space, from), keys::after(&keys::day(space, to)));
        self.buffers[tube.buffer].scan(Table::Days, &from, &to, usize::MAX)
    }
}

/// The first of the days that a tube keeps.
fn first_kept(today: u32, kept: u32) -> u32 {
    today.saturating_sub(kept.saturating_sub(1))
}
