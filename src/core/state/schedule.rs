//! A schedule, checked and converted before the core is locked, and the calendar of cron expressions.

use std::sync::Arc;

use tubewell_drivers::{KEY_MAX, NEVER, Recur, RecurRule};

use super::request::{PutRequest, check_key, check_restored_id};
use crate::base::micros::{duration, micros_ceil};
use crate::base::moment::{Moments, micros_of};
use crate::values::put::Encoded;
use crate::values::schedule::{Recurrence, Restored};
use crate::{Error, Missed, OnKey, Overlap, Result, Schedule};

/// The longest number of a run, with its hyphen.
const NUMBER_MAX: usize = 21;
/// Maximum length of the key of a schedule, in bytes: the keys of its runs are longer.
const SCHEDULE_KEY_MAX: usize = KEY_MAX - NUMBER_MAX - 4;

/// Reads cron expressions. The core has no calendar of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar {
    /// Reads an expression in a time zone.
    pub(crate) read: fn(&str, &str) -> Result<Box<dyn Moments>>,
}

/// A schedule, or changes of one, after the checks and conversions that need no lock. What is `None`
/// stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleRequest {
    pub(in crate::core) rule: Option<RecurRule>,
    /// Microseconds of the wall clock.
    pub(in crate::core) starting: Option<u64>,
    pub(in crate::core) times: Option<Option<u64>>,
    /// As in [`Recur`].
    pub(in crate::core) missed: Option<u64>,
    pub(in crate::core) within: Option<Option<u64>>,
    pub(in crate::core) skips_overlap: Option<bool>,
    /// The body and all options of the runs.
    pub(in crate::core) put: Option<PutRequest>,
    /// For a schedule of another store.
    pub(in crate::core) restored: Option<Restored>,
}

impl ScheduleRequest {
    /// A whole schedule: what it does not name has its default. With the key of the schedule.
    pub(crate) fn new(schedule: Schedule, task: Encoded) -> Result<(Arc<str>, ScheduleRequest)> {
        let whole = Schedule {
            times: Some(schedule.times.flatten()),
            missed: Some(schedule.missed.unwrap_or_default()),
            within: Some(schedule.within.flatten()),
            overlap: Some(schedule.overlap.unwrap_or_default()),
            ..schedule
        };
        ScheduleRequest::change(whole, Some(task))
    }

    /// The changes that a schedule names, and a task for further runs. With the key of the schedule.
    ///
    /// The request does not show an interval before it is rounded up, nor each number of missed runs that is
    /// out of bounds. This function checks both.
    pub(crate) fn change(
        named: Schedule,
        task: Option<Encoded>,
    ) -> Result<(Arc<str>, ScheduleRequest)> {
        named.recurrence.as_ref().map_or(Ok(()), Recurrence::check_interval)?;
        named.missed.map_or(Ok(()), Missed::check)?;
        let request = ScheduleRequest {
            rule: named.recurrence.map(rule),
            starting: named.starting.map(micros_of),
            times: named.times,
            missed: named.missed.map(missed_number),
            within: named.within.map(|within| within.map(micros_ceil)),
            skips_overlap: named.overlap.map(|overlap| overlap == Overlap::Skip),
            put: task.map(PutRequest::of),
            restored: named.restored,
        };
        Ok((named.key.into(), request))
    }

    /// Checks what can be checked without the tube.
    fn check(&self, max_body: usize) -> Result<()> {
        let recurrence = self.rule.clone().map(recurrence);
        recurrence.map_or(Ok(()), |recurrence| recurrence.check())?;
        self.missed.map_or(Ok(()), |missed| missed_of(missed).check())?;
        if self.times == Some(Some(0)) {
            return Err(Error::invalid("a schedule ends after at least one run, not after none"));
        }
        let Some(put) = &self.put else { return Ok(()) };
        put.check(max_body)?;
        check_run(put)
    }

    /// As `check`, for a schedule to be stored.
    pub(in crate::core) fn check_new(&self, key: &str, max_body: usize) -> Result<()> {
        check_schedule_key(key)?;
        self.rule_and_task()?;
        self.restored.and_then(|restored| restored.id).map_or(Ok(()), check_restored_id)?;
        self.check(max_body)
    }

    /// As `check`, for changes of a stored schedule.
    pub(in crate::core) fn check_change(&self, key: &str, max_body: usize) -> Result<()> {
        check_key(key)?;
        if self.restored.is_some() {
            return Err(Error::invalid(
                "a change keeps the id and the counts of a schedule; restored is for Tube::schedule",
            ));
        }
        self.check(max_body)
    }

    /// What a schedule cannot be stored without.
    pub(in crate::core) fn rule_and_task(&self) -> Result<(&RecurRule, &PutRequest)> {
        let no_rule =
            || Error::invalid("a schedule needs to say when its runs are: every, or cron");
        let no_task = || Error::invalid("a schedule needs a task that its runs put");
        Ok((self.rule.as_ref().ok_or_else(no_rule)?, self.put.as_ref().ok_or_else(no_task)?))
    }
}

/// Refuses a text that cannot be the key of a schedule.
fn check_schedule_key(key: &str) -> Result<()> {
    if (1..=SCHEDULE_KEY_MAX).contains(&key.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the key of a schedule must have 1 to {SCHEDULE_KEY_MAX} bytes; this one has {}",
        key.len()
    )))
}

/// Refuses for the task of each run what follows from the schedule.
fn check_run(put: &PutRequest) -> Result<()> {
    let refused = [
        ("a key: it follows from that of the schedule", put.key.is_some()),
        ("a rule for its key", put.on_key != OnKey::Reject),
        ("an idempotency key: no run is put twice", put.idempotency_key.is_some()),
        ("parents", put.after.is_some()),
        ("a moment before which it is not ready: use a delay", put.not_before.is_some()),
        ("a traceparent: it begins a trace of its own", put.traceparent.is_some()),
    ];
    match refused.into_iter().find(|(_, given)| *given) {
        Some((what, _)) => {
            Err(Error::invalid(format!("a run of a schedule cannot be put with {what}")))
        }
        None => Ok(()),
    }
}

fn rule(recurrence: Recurrence) -> RecurRule {
    match recurrence {
        Recurrence::Every(interval) => RecurRule::Every(micros_ceil(interval)),
        Recurrence::Cron { expression, zone } => {
            RecurRule::Cron { expression: expression.into(), zone: zone.into() }
        }
    }
}

/// The inverse of [`rule`].
pub(in crate::core) fn recurrence(rule: RecurRule) -> Recurrence {
    match rule {
        RecurRule::Every(interval) => Recurrence::Every(duration(interval)),
        RecurRule::Cron { expression, zone } => {
            Recurrence::Cron { expression: expression.to_string(), zone: zone.to_string() }
        }
    }
}

/// 0 stands for none.
fn missed_number(missed: Missed) -> u64 {
    match missed {
        Missed::Latest(runs) => u64::from(runs),
        Missed::All => Recur::ALL,
        Missed::Skip => 0,
    }
}

/// The inverse of `missed_number`.
pub(in crate::core) fn missed_of(number: u64) -> Missed {
    match number {
        0 => Missed::Skip,
        Recur::ALL => Missed::All,
        runs => Missed::Latest(u32::try_from(runs).unwrap_or(u32::MAX)),
    }
}

/// The moments of an interval.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Interval(pub(in crate::core) u64);

impl Interval {
    /// The moment that follows one.
    pub(in crate::core) fn after(self, moment: u64) -> u64 {
        moment.saturating_add(self.0)
    }

    /// The last moment from `first` on that is not after `now`, which is not before `first`.
    pub(in crate::core) fn last(self, first: u64, now: u64) -> u64 {
        now - (now - first) % self.0.max(1)
    }

    /// The first moment from `first` on that is not before `time`.
    pub(in crate::core) fn at_or_after(self, first: u64, time: u64) -> u64 {
        let Some(late) = time.checked_sub(first) else { return first };
        let steps = late.div_ceil(self.0.max(1));
        steps.checked_mul(self.0).and_then(|by| first.checked_add(by)).unwrap_or(NEVER)
    }

    /// So many moments before one, but not before `first`.
    pub(in crate::core) fn before(self, moment: u64, steps: u64, first: u64) -> u64 {
        moment.saturating_sub(self.0.saturating_mul(steps)).max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_an_interval_are_counted_from_the_first() {
        let tens = Interval(10);
        assert_eq!((tens.last(3, 3), tens.last(3, 12), tens.last(3, 13)), (3, 3, 13));
        assert_eq!((tens.at_or_after(3, 0), tens.at_or_after(3, 4)), (3, 13));
        assert_eq!((tens.at_or_after(3, 13), tens.at_or_after(3, NEVER)), (13, NEVER));
        assert_eq!((tens.before(43, 2, 3), tens.before(43, 9, 3)), (23, 3));
        assert_eq!((tens.after(3), tens.after(NEVER - 1)), (13, NEVER));
        assert_eq!(Interval(NEVER).before(9, NEVER, 2), 2);
    }

    #[test]
    fn missed_runs_have_numbers() {
        for missed in [Missed::Skip, Missed::All, Missed::Latest(1), Missed::Latest(100)] {
            assert_eq!(missed_of(missed_number(missed)), missed);
        }
    }
}
