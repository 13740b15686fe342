//! Deferred calls of a claim that report a failure or a result.

use std::time::Duration;

use super::claim::Refused;
use crate::core::list::{Ack, BuryHeld, Fail, Snooze, SnoozeIn};
use crate::micros::micros_ceil;
use crate::{Claim, Failure, Receipt, Result, Ticket, WhenFull};

impl<T> Claim<T> {
    /// As [`fail`](Claim::fail), but returns once the call is decided. The [`Ticket`] has the answer
    /// after the flush.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with the reasons of [`ack_deferred`](Claim::ack_deferred)
    /// or [`Invalid`](crate::Error::Invalid). Nothing changed.
    pub fn fail_deferred(
        self,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        self.make_end_deferred(when_full, &Fail { delay: None, failure })
    }

    /// As [`fail_in`](Claim::fail_in), but returns once the call is decided. As
    /// [`fail_deferred`](Claim::fail_deferred).
    ///
    /// # Errors
    /// Those of [`fail_deferred`](Claim::fail_deferred).
    pub fn fail_in_deferred(
        self,
        delay: Duration,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        let delay = Some(micros_ceil(delay));
        self.make_end_deferred(when_full, &Fail { delay, failure })
    }

    /// As [`snooze`](Claim::snooze), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush.
    ///
    /// # Errors
    /// Those of [`release_deferred`](Claim::release_deferred).
    pub fn snooze_deferred(
        self,
        delay: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        if delay.is_zero() {
            return self.make_end_deferred(when_full, &Snooze {});
        }
        self.make_end_deferred(when_full, &SnoozeIn { delay: micros_ceil(delay) })
    }

    /// As [`bury_with`](Claim::bury_with), but returns once the call is decided. The [`Ticket`] has
    /// the answer after the flush.
    ///
    /// # Errors
    /// Those of [`fail_deferred`](Claim::fail_deferred).
    pub fn bury_with_deferred(
        self,
        failure: Failure,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        self.make_end_deferred(when_full, &BuryHeld { failure: Some(failure) })
    }

    /// As [`ack_with`](Claim::ack_with), but returns once the call is decided. The [`Ticket`] has
    /// the answer after the flush.
    ///
    /// # Errors
    /// Those of [`ack_deferred`](Claim::ack_deferred). [`Invalid`](crate::Error::Invalid) and
    /// [`DiskFull`](crate::Error::DiskFull) as in [`ack_with`](Claim::ack_with). Nothing changed.
    pub fn ack_with_deferred(
        self,
        result: impl Into<Vec<u8>>,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        self.make_end_deferred(when_full, &Ack { result: Some(result.into()) })
    }
}
