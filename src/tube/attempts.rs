//! Attempts of tasks that a session has taken, by their ids.

use std::time::Duration;

use super::Tube;
use crate::core::list::{BuryHeld, Fail, Snooze, SnoozeIn};
use crate::micros::micros_ceil;
use crate::{Failure, Mode, Receipt};

impl<T, M: Mode> Tube<T, M> {
    /// Reports that the attempt of a task which this handle's session has taken has failed. As
    /// [`Claim::fail`](crate::Claim::fail), by id.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`SessionEnded`](crate::Error::SessionEnded);
    /// [`Invalid`](crate::Error::Invalid): the failure group. Nothing changed: the task is still
    /// taken. [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in
    /// [`Claim::ack`](crate::Claim::ack).
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// use tubewell::{Failure, TaskState};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().detach();
    /// let receipt = tube.fail(id, &Failure::new("timeout", "no answer"))?;
    /// assert_eq!(receipt.state, TaskState::Ready); // without a limit of attempts and a backoff
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn fail(&self, id: u64, failure: &Failure) -> M::Answer<Receipt> {
        self.make_held(id, Fail { delay: None, failure: failure.clone() })
    }

    /// As [`fail`](Tube::fail), with this delay instead of the backoff of the tube. As
    /// [`Claim::fail_in`](crate::Claim::fail_in), by id.
    ///
    /// # Errors
    /// Those of [`fail`](Tube::fail). [`Unsupported`](crate::Error::Unsupported): the driver has no
    /// delays. Nothing changed.
    pub fn fail_in(&self, id: u64, delay: Duration, failure: &Failure) -> M::Answer<Receipt> {
        let delay = Some(micros_ceil(delay));
        self.make_held(id, Fail { delay, failure: failure.clone() })
    }

    /// Gives back a task that this handle's session has taken, and forgives the attempt. As
    /// [`Claim::snooze`](crate::Claim::snooze), by id.
    ///
    /// # Errors
    /// Those of [`release`](Tube::release). Nothing changed: the task is still taken.
    pub fn snooze(&self, id: u64, delay: Duration) -> M::Answer<Receipt> {
        if delay.is_zero() {
            return self.make_held(id, Snooze {});
        }
        self.make_held(id, SnoozeIn { delay: micros_ceil(delay) })
    }

    /// Buries a task that this handle's session has taken, in the group of this failure. As
    /// [`Claim::bury_with`](crate::Claim::bury_with), by id.
    ///
    /// # Errors
    /// Those of [`fail`](Tube::fail), with the same state after each.
    #[doc(alias = "dead letter")]
    pub fn bury_with(&self, id: u64, failure: &Failure) -> M::Answer<Receipt> {
        self.make_held(id, BuryHeld { failure: Some(failure.clone()) })
    }
}
