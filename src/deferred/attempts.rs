//! Deferred calls that report a failure or a result of a task, by its id.

use std::time::Duration;

use super::{Deferred, Ticket};
use crate::core::list::{Ack, BuryHeld, Fail, Forget, Resolve, Snooze, SnoozeIn};
use crate::micros::micros_ceil;
use crate::{Failure, Receipt, Result};

impl<T> Deferred<T> {
    /// As [`Tube::fail`](crate::Tube::fail).
    ///
    /// # Errors
    /// Those of [`Tube::fail`](crate::Tube::fail) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn fail(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.make_held(id, &Fail { delay: None, failure: failure.clone() })
    }

    /// As [`Tube::fail_in`](crate::Tube::fail_in).
    ///
    /// # Errors
    /// Those of [`Tube::fail_in`](crate::Tube::fail_in) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn fail_in(&self, id: u64, delay: Duration, failure: &Failure) -> Result<Ticket<Receipt>> {
        let delay = Some(micros_ceil(delay));
        self.make_held(id, &Fail { delay, failure: failure.clone() })
    }

    /// As [`Tube::snooze`](crate::Tube::snooze).
    ///
    /// # Errors
    /// Those of [`Tube::snooze`](crate::Tube::snooze) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn snooze(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        if delay.is_zero() {
            return self.make_held(id, &Snooze {});
        }
        self.make_held(id, &SnoozeIn { delay: micros_ceil(delay) })
    }

    /// As [`Tube::bury_with`](crate::Tube::bury_with).
    ///
    /// # Errors
    /// Those of [`Tube::bury_with`](crate::Tube::bury_with) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn bury_with(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.make_held(id, &BuryHeld { failure: Some(failure.clone()) })
    }

    /// As [`Tube::ack_with`](crate::Tube::ack_with).
    ///
    /// # Errors
    /// Those of [`Tube::ack_with`](crate::Tube::ack_with) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn ack_with(&self, id: u64, result: impl AsRef<[u8]>) -> Result<Ticket<Receipt>> {
        self.make_held(id, &Ack { result: Some(result.as_ref().to_vec()) })
    }

    /// As [`Tube::resolve`](crate::Tube::resolve), except that a missing task is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::resolve`](crate::Tube::resolve) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn resolve(&self, id: u64, result: Option<&[u8]>) -> Result<Ticket<Receipt>> {
        self.make(&Resolve { id, result: result.map(<[u8]>::to_vec) })
    }

    /// As [`Tube::forget`](crate::Tube::forget), except that a missing task is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::forget`](crate::Tube::forget) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn forget(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&Forget { id })
    }
}
