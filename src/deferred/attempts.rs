//! Deferred calls about the attempts of tasks that a session has taken, by their ids.

use std::time::Duration;

use super::{Deferred, Ticket};
use crate::core::HolderVerb;
use crate::micros::micros_ceil;
use crate::{Failure, Receipt, Result};

impl Deferred {
    /// As [`Tube::fail`](crate::Tube::fail).
    ///
    /// # Errors
    /// Those of [`Tube::fail`](crate::Tube::fail) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed: the task is still taken.
    pub fn fail(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.defer_held(id, HolderVerb::Fail { delay: None, failure })
    }

    /// As [`Tube::fail_in`](crate::Tube::fail_in).
    ///
    /// # Errors
    /// Those of [`Tube::fail_in`](crate::Tube::fail_in) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed: the task is still taken.
    pub fn fail_in(&self, id: u64, delay: Duration, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.defer_held(id, HolderVerb::Fail { delay: Some(micros_ceil(delay)), failure })
    }

    /// As [`Tube::snooze`](crate::Tube::snooze).
    ///
    /// # Errors
    /// Those of [`Tube::snooze`](crate::Tube::snooze) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed: the task is still taken.
    pub fn snooze(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        self.defer_held(id, HolderVerb::Snooze { delay: micros_ceil(delay) })
    }

    /// As [`Tube::bury_with`](crate::Tube::bury_with).
    ///
    /// # Errors
    /// Those of [`Tube::bury_with`](crate::Tube::bury_with) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed: the task is still taken.
    pub fn bury_with(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.defer_held(id, HolderVerb::Bury(Some(failure)))
    }
}
