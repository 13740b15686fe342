//! Deferred entries in histories.

use crate::core::list::LogHeld;
use crate::{Claim, Receipt, Result, Ticket, WhenFull};

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
