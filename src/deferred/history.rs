//! Deferred entries in histories.

use super::{Deferred, Ticket};
use crate::core::list::{Log, LogHeld};
use crate::{Claim, Receipt, Result, WhenFull};

impl<T> Deferred<T> {
    /// As [`Tube::log`](crate::Tube::log), except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::log`](crate::Tube::log) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn log(&self, id: u64, text: &str) -> Result<Ticket<Receipt>> {
        self.make(&Log { id, text: text.into() })
    }
}

impl<T> Claim<T> {
    /// As [`log`](Claim::log), without waiting for the flush.
    ///
    /// # Errors
    /// Those of [`log`](Claim::log); [`Overloaded`](crate::Error::Overloaded) with
    /// [`WhenFull::Refuse`]. Nothing changed.
    pub fn log_deferred(&self, text: &str, when_full: WhenFull) -> Result<Ticket<Receipt>> {
        self.make_deferred(when_full, &LogHeld { text: text.into() })
    }
}
