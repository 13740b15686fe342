//! Deferred calls that pause a sub-queue.

use std::time::Duration;

use super::{Deferred, Ticket};
use crate::Result;
use crate::core::list::PauseSubQueue;
use crate::micros::micros_ceil;

impl<T> Deferred<T> {
    /// As [`Tube::pause_sub_queue`](crate::Tube::pause_sub_queue). No task of the sub-queue can be taken
    /// once this has returned.
    ///
    /// # Errors
    /// Those of [`Tube::pause_sub_queue`](crate::Tube::pause_sub_queue) that are known before the flush,
    /// and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn pause_sub_queue(&self, name: &str, time: Duration) -> Result<Ticket<()>> {
        self.make(&PauseSubQueue { name: name.into(), time: micros_ceil(time) })
    }

    /// As [`Tube::unpause_sub_queue`](crate::Tube::unpause_sub_queue). Tasks of the sub-queue can be taken
    /// once this has returned.
    ///
    /// # Errors
    /// Those of [`Tube::unpause_sub_queue`](crate::Tube::unpause_sub_queue) that are known before the
    /// flush, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn unpause_sub_queue(&self, name: &str) -> Result<Ticket<()>> {
        self.make(&PauseSubQueue { name: name.into(), time: 0 })
    }
}
