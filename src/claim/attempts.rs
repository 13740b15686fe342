//! Attempts of a claim: what its worker reports when the work could not be done.

use std::time::Duration;

use crate::core::list::{BuryHeld, Fail, Snooze, SnoozeIn};
use crate::micros::micros_ceil;
use crate::{Claim, Failure, Mode, Receipt};

impl<T, M: Mode> Claim<T, M> {
    /// Which attempt this is; the first one is 1. Takes that were forgiven do not count: after
    /// [`snooze`](Claim::snooze), [`Admin::revoke`](crate::Admin::revoke) and
    /// [`Tube::kick`](crate::Tube::kick).
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.held.grant.header.attempts()
    }

    /// How many attempts are left after this one; `None` without a limit. See
    /// [`TubeOptions::max_attempts`](crate::TubeOptions::max_attempts).
    #[must_use]
    pub fn attempts_left(&self) -> Option<u32> {
        self.held.grant.attempts_left
    }

    /// Reports that this attempt has failed. While attempts are left, the task is ready again after
    /// the [backoff](crate::TubeOptions::backoff) of its tube, or immediately without one. After the
    /// last attempt it is buried, in the group of the failure. [`Receipt::state`] says which.
    ///
    /// The failure is kept until the task ends: [`TaskInfo::failure`](crate::TaskInfo::failure)
    /// shows the last one. In a tube without
    /// [`max_attempts`](crate::TubeOptions::max_attempts) a task is attempted without a limit.
    ///
    /// Once this returns, the failure and what becomes of the task survive what a put survives. The
    /// call blocks for a flush, and in a written tube for a write.
    ///
    /// # Errors
    /// Those of [`ack`](Claim::ack), with the same state after each. [`Invalid`](crate::Error::Invalid):
    /// the failure group has no bytes or more than 255; the task is released.
    ///
    /// # Example: two attempts, a second apart
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Backoff, FIFOTTL, Failure, ManualClock, TaskState, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let options = TubeOptions::new().max_attempts(2);
    /// let options = options.backoff(Backoff::exponential(Duration::from_secs(1)));
    /// let mails = store.create_tube("mails", FIFOTTL, options)?;
    /// let id = mails.put("to: ann")?.id;
    ///
    /// let timeout = || Failure::new("timeout", "mail.example.org does not answer");
    /// let receipt = mails.try_take()?.unwrap().fail(timeout())?;
    /// assert_eq!(receipt.state, TaskState::Delayed);
    /// clock.advance(Duration::from_secs(1));
    /// let receipt = mails.try_take()?.unwrap().fail(timeout())?;
    /// assert_eq!(receipt.state, TaskState::Buried);
    /// assert_eq!(mails.peek(id)?.info.failure.unwrap().group, "timeout");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn fail(self, failure: Failure) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Ok(Fail { delay: None, failure }))
    }

    /// As [`fail`](Claim::fail), with this delay instead of the backoff of the tube: for a server
    /// that says when to come back. A buried task has no delay.
    ///
    /// # Errors
    /// Those of [`fail`](Claim::fail). [`Unsupported`](crate::Error::Unsupported): the driver has no
    /// delays; the task is released.
    #[doc(alias = "retry after")]
    pub fn fail_in(self, delay: Duration, failure: Failure) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Ok(Fail { delay: Some(micros_ceil(delay)), failure }))
    }

    /// Gives the task back for a while, through no fault of its own: ready in its old place, or
    /// ready after `delay`. The attempt is forgiven.
    ///
    /// Without a delay only memory changes and the call does not block; after a crash the attempt
    /// may count. With a delay it is as [`release`](Claim::release) with one.
    ///
    /// # Errors
    /// Those of [`release`](Claim::release), with the same state after each, but the attempt is
    /// forgiven then too. [`Unsupported`](crate::Error::Unsupported): the driver has no delays. A
    /// [worker](crate::worker) holds a task of such a tube instead.
    ///
    /// # Example: the server is under maintenance
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFOTTL, TaskState, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFOTTL, TubeOptions::new().max_attempts(3))?;
    /// let id = jobs.put("work")?.id;
    /// jobs.try_take()?.unwrap().snooze(Duration::from_secs(600))?;
    /// assert_eq!(jobs.peek(id)?.info.attempts_left, Some(3));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "reschedule")]
    pub fn snooze(self, delay: Duration) -> M::Answer<Receipt> {
        if delay.is_zero() {
            return self.held.end::<M, _>(Ok(Snooze {}));
        }
        self.held.end::<M, _>(Ok(SnoozeIn { delay: micros_ceil(delay) }))
    }

    /// Buries the task in the group of this failure, whatever attempts are left: for a task that no
    /// attempt can do. As [`bury`](Claim::bury).
    ///
    /// # Errors
    /// Those of [`fail`](Claim::fail), with the same state after each.
    #[doc(alias = "discard")]
    #[doc(alias = "dead letter")]
    pub fn bury_with(self, failure: Failure) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Ok(BuryHeld { failure: Some(failure) }))
    }
}
