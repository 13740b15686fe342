//! The moments of a schedule: which of them runs next.

use std::sync::Arc;

use tubewell_drivers::{Header, NEVER, Recur, RecurRule};

use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, Expression, Interval, SAME_CLOCK};

/// How late a run may be that is not made up for if it was missed, in microseconds: a minute. An open
/// store is not so late, unless its machine was suspended.
pub(super) const LATE: u64 = 60_000_000;

/// How many of the newest moments of an expression are looked for.
const MAX_LATEST: u64 = 100;

/// What is to be done of a schedule that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueRun {
    /// The moment whose run is to be put; `None` if all that are due are too late.
    pub(super) run: Option<u64>,
    /// The moment that follows.
    pub(super) next: u64,
}

impl Core {
    /// Why a schedule stands still, if it does.
    pub(super) fn stopped(&self, number: TubeNo, recur: &Recur) -> Option<String> {
        let tube = self.tubes.get(number)?;
        if let Err(error) = tube.driver(|| self.tubes.known_drivers()) {
            return Some(error.to_string());
        }
        let RecurRule::Cron { expression, zone } = &recur.rule else { return None };
        let read = self.ask_calendar((expression, zone), |_| ());
        read.err().map(|error| error.to_string())
    }

    pub(super) fn ask_calendar<T>(
        &self,
        rule: (&Arc<str>, &Arc<str>),
        ask: impl FnOnce(&mut Expression) -> T,
    ) -> Result<T> {
        self.schedules.calendars.ask(self.config.calendar, rule, ask)
    }

    /// The time on the clock of a rule.
    pub(super) fn time_of(&self, rule: &RecurRule) -> u64 {
        match rule {
            RecurRule::Every(_) => self.now.timeline,
            RecurRule::Cron { .. } => self.wall.at(self.now.timeline),
        }
    }

    /// The first moment of a rule, from now on. `starting`: the moment of the wall clock at which it
    /// begins.
    pub(super) fn first_moment(&self, rule: &RecurRule, starting: Option<u64>) -> Result<u64> {
        let now = self.now.timeline;
        match (rule, starting) {
            (RecurRule::Every(_), None) => Ok(now),
            (RecurRule::Every(interval), Some(starting)) => {
                Ok(Interval(*interval).at_or_after(self.timeline_of(starting), now))
            }
            (RecurRule::Cron { .. }, starting) => {
                let wall = self.wall.at(now);
                let after = starting.map_or(wall, |from| from.saturating_sub(1).max(wall));
                self.moment_after(rule, after)
            }
        }
    }

    /// The moment of the next run of a schedule of another store, which may have passed: then it is
    /// kept, since an expression that was changed while the run waited does not name it.
    pub(super) fn restored_moment(&self, rule: &RecurRule, next: u64) -> Result<u64> {
        match rule {
            RecurRule::Every(_) => Ok(self.timeline_of(next)),
            RecurRule::Cron { .. } => {
                let named = self.moment_after(rule, next.saturating_sub(1))?;
                Ok(if next <= self.time_of(rule) { next } else { named })
            }
        }
    }

    /// A moment of the wall clock on the timeline, as the clocks are now. If they are less than a
    /// second apart, they count as the same, so that nine o'clock stays nine o'clock.
    fn timeline_of(&self, moment: u64) -> u64 {
        if moment == NEVER {
            return NEVER;
        }
        let now = self.now.timeline;
        let wall = self.wall.at(now);
        if wall.abs_diff(now) < SAME_CLOCK {
            return moment;
        }
        match moment.checked_sub(wall) {
            Some(left) => now.saturating_add(left),
            None => now.saturating_sub(wall - moment),
        }
    }

    /// The moment that follows one; `NEVER` after the last one.
    pub(super) fn moment_after(&self, rule: &RecurRule, moment: u64) -> Result<u64> {
        match rule {
            RecurRule::Every(interval) => Ok(Interval(*interval).after(moment)),
            RecurRule::Cron { expression, zone } => {
                self.ask_calendar((expression, zone), |read| read.after(moment))
            }
        }
    }

    /// Which of the moments that are due runs next.
    pub(super) fn due_run(&self, recur: &Recur) -> Result<DueRun> {
        let now = self.time_of(&recur.rule);
        let within = match recur.missed {
            0 => Some(recur.within.unwrap_or(NEVER).min(LATE)),
            _ => recur.within,
        };
        let oldest = within.map_or(0, |within| now.saturating_sub(within));
        // The clock was behind, and is right again: what was put before is not made up for.
        let covered = recur.covered.filter(|covered| *covered < now);
        let uncovered = |covered: u64| covered.saturating_add(1).min(now.saturating_sub(LATE));
        let oldest = oldest.max(covered.map_or(0, uncovered));
        let run = match &recur.rule {
            RecurRule::Every(interval) => {
                let interval = Interval(*interval);
                let last = interval.last(recur.next, now.max(recur.next));
                let steps = recur.missed.max(1) - 1;
                let run = match recur.missed {
                    Recur::ALL => recur.next,
                    _ => interval.before(last, steps, recur.next),
                };
                interval.at_or_after(run, oldest)
            }
            RecurRule::Cron { .. } => self.due_moment(recur, now, oldest)?,
        };
        if run > now && run > recur.next {
            return Ok(DueRun { run: None, next: run });
        }
        Ok(DueRun { run: Some(run), next: self.moment_after(&recur.rule, run)? })
    }

    /// As `due_run`, for a cron expression.
    fn due_moment(&self, recur: &Recur, now: u64, oldest: u64) -> Result<u64> {
        let RecurRule::Cron { expression, zone } = &recur.rule else { return Ok(recur.next) };
        self.ask_calendar((expression, zone), |read| {
            let run = match recur.missed {
                Recur::ALL => recur.next,
                // One moment further back for each run that is made up for.
                missed => read.newest(missed.clamp(1, MAX_LATEST), now, recur.next),
            };
            if run < oldest { read.after(oldest - 1) } else { run }
        })
    }
}

/// Sets when a schedule is due: at this time on the clock of its rule.
pub(super) fn set_due(header: &mut Header, recur: Recur, due: u64) {
    let is_cron = matches!(recur.rule, RecurRule::Cron { .. });
    header.ready_at = if is_cron { 0 } else { due };
    header.edit_more(|more| {
        more.not_before = is_cron.then_some(due);
        more.recur = Some(recur.into());
    });
}
