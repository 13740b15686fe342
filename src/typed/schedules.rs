//! Schedules of typed tubes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::task::Cursor;
use crate::{
    Codec, Page, Put, Receipt, Reschedule, Result, Schedule, ScheduleInfo, Ticket, TypedTube,
};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Stores a schedule whose runs have a value. As [`Tube::schedule`](crate::Tube::schedule): the
    /// value replaces the body of the schedule's task.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Tube::schedule`](crate::Tube::schedule). Nothing changed.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFO, ManualClock, Schedule, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.schedule(Schedule::every(Duration::from_secs(60)).key("seven"), &7)?;
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(*numbers.try_take()?.unwrap().value(), 7);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn schedule(&self, schedule: Schedule, value: &T) -> Result<Receipt> {
        self.tube().schedule(with_value::<T, C>(schedule, value)?)
    }

    /// Changes a schedule. As [`Tube::reschedule`](crate::Tube::reschedule): a body of the change is
    /// bytes.
    ///
    /// # Errors
    /// Those of [`Tube::reschedule`](crate::Tube::reschedule).
    pub fn reschedule(&self, key: &str, change: Reschedule) -> Result<Receipt> {
        self.tube().reschedule(key, change)
    }

    /// Removes a schedule. As [`Tube::unschedule`](crate::Tube::unschedule).
    ///
    /// # Errors
    /// Those of [`Tube::unschedule`](crate::Tube::unschedule).
    pub fn unschedule(&self, key: &str) -> Result<Receipt> {
        self.tube().unschedule(key)
    }

    /// A page of schedules. As [`Tube::schedules`](crate::Tube::schedules).
    ///
    /// # Errors
    /// Those of [`Tube::schedules`](crate::Tube::schedules).
    pub fn schedules(
        &self,
        after: impl Into<Option<Cursor>>,
        limit: usize,
    ) -> Result<Page<ScheduleInfo>> {
        self.tube().schedules(after, limit)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`TypedTube::schedule`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Deferred::schedule`](crate::Deferred::schedule). Nothing changed.
    pub fn schedule(&self, schedule: Schedule, value: &T) -> Result<Ticket<Receipt>> {
        self.untyped().schedule(with_value::<T, C>(schedule, value)?)
    }

    /// As [`Deferred::reschedule`](crate::Deferred::reschedule): a body of the change is bytes.
    ///
    /// # Errors
    /// Those of [`Deferred::reschedule`](crate::Deferred::reschedule).
    pub fn reschedule(&self, key: &str, change: Reschedule) -> Result<Ticket<Receipt>> {
        self.untyped().reschedule(key, change)
    }

    /// As [`Deferred::unschedule`](crate::Deferred::unschedule).
    ///
    /// # Errors
    /// Those of [`Deferred::unschedule`](crate::Deferred::unschedule).
    pub fn unschedule(&self, key: &str) -> Result<Ticket<Receipt>> {
        self.untyped().unschedule(key)
    }
}

fn with_value<T: Serialize, C: Codec>(mut schedule: Schedule, value: &T) -> Result<Schedule> {
    schedule.put = Put { body: C::encode(value)?, ..schedule.put };
    Ok(schedule)
}
