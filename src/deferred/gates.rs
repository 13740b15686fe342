//! Deferred calls that pause or alter a tube.

use std::time::{Duration, SystemTime};

use super::{Deferred, Ticket};
use crate::core::list::{Alter, Pause, PauseUntil};
use crate::micros::micros_ceil;
use crate::moment::micros_of;
use crate::{Result, TubeOptions};

impl<T> Deferred<T> {
    /// As [`Tube::pause`](crate::Tube::pause). No task can be taken once this has returned.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn pause(&self) -> Result<Ticket<()>> {
        self.pause_for(Duration::MAX)
    }

    /// As [`Tube::pause_for`](crate::Tube::pause_for). No task can be taken once this has returned.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn pause_for(&self, time: Duration) -> Result<Ticket<()>> {
        self.make(&Pause { time: micros_ceil(time) })
    }

    /// As [`Tube::pause_until`](crate::Tube::pause_until). No task can be taken once this has returned.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn pause_until(&self, moment: SystemTime) -> Result<Ticket<()>> {
        self.make(&PauseUntil { moment: micros_of(moment) })
    }

    /// As [`Tube::unpause`](crate::Tube::unpause). Tasks can be taken once this has returned.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn unpause(&self) -> Result<Ticket<()>> {
        self.make(&Pause { time: 0 })
    }

    /// As [`Tube::alter`](crate::Tube::alter).
    ///
    /// # Errors
    /// Those of [`Tube::alter`](crate::Tube::alter) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn alter(&self, options: TubeOptions) -> Result<Ticket<()>> {
        self.make(&Alter { options })
    }
}
