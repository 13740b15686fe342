//! Deferred calls on schedules.

use super::{Deferred, Ticket};
use crate::core::ScheduleRequest;
use crate::core::list::{ChangeSchedule, RemoveSchedule};
use crate::{IntoPut, Receipt, Reschedule, Result, Schedule};

impl<T> Deferred<T> {
    /// As [`Tube::schedule`](crate::Tube::schedule).
    ///
    /// # Errors
    /// Those of [`Tube::schedule`](crate::Tube::schedule) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn schedule<P: IntoPut<T>>(&self, schedule: Schedule<P>) -> Result<Ticket<Receipt>> {
        self.make(&self.tube.set_schedule(schedule)?)
    }

    /// As [`Tube::reschedule`](crate::Tube::reschedule), except that a missing schedule is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::reschedule`](crate::Tube::reschedule) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`KeyNotFound`](crate::Error::KeyNotFound) as in [`requeue`](Deferred::requeue).
    pub fn reschedule(&self, key: &str, change: Reschedule) -> Result<Ticket<Receipt>> {
        let request = ScheduleRequest::change(change)?;
        self.make(&ChangeSchedule { key: key.into(), request })
    }

    /// As [`Tube::unschedule`](crate::Tube::unschedule), except that a missing schedule is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Deferred::reschedule`].
    pub fn unschedule(&self, key: &str) -> Result<Ticket<Receipt>> {
        self.make(&RemoveSchedule { key: key.into() })
    }
}
