//! Deferred calls on schedules.

use super::{Deferred, Ticket};
use crate::core::{ScheduleRequest, ScheduleVerb, Verb, check_key};
use crate::{Receipt, Reschedule, Result, Schedule};

impl Deferred {
    /// As [`Tube::schedule`](crate::Tube::schedule).
    ///
    /// # Errors
    /// Those of [`Tube::schedule`](crate::Tube::schedule) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn schedule(&self, schedule: Schedule) -> Result<Ticket<Receipt>> {
        let (key, request) = ScheduleRequest::new(schedule, self.tube.max_body())?;
        self.defer(Verb::Schedules(ScheduleVerb::Set { key: &key, request: &request }))
    }

    /// As [`Tube::reschedule`](crate::Tube::reschedule), except that a missing schedule is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::reschedule`](crate::Tube::reschedule) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`KeyNotFound`](crate::Error::KeyNotFound) as in [`requeue`](Deferred::requeue).
    pub fn reschedule(&self, key: &str, change: Reschedule) -> Result<Ticket<Receipt>> {
        check_key(key)?;
        let request = ScheduleRequest::change(change, self.tube.max_body())?;
        self.defer(Verb::Schedules(ScheduleVerb::Change { key, request: &request }))
    }

    /// As [`Tube::unschedule`](crate::Tube::unschedule), except that a missing schedule is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Deferred::reschedule`].
    pub fn unschedule(&self, key: &str) -> Result<Ticket<Receipt>> {
        check_key(key)?;
        self.defer(Verb::Schedules(ScheduleVerb::Remove(key)))
    }
}
