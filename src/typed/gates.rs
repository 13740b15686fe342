//! The pause of a typed tube, and the change of its options.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{Codec, Result, Ticket, TubeInfo, TubeOptions, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Pauses the tube. As [`Tube::pause`](crate::Tube::pause).
    ///
    /// # Errors
    /// Those of [`Tube::pause`](crate::Tube::pause).
    pub fn pause(&self) -> Result<()> {
        self.tube().pause()
    }

    /// Pauses the tube for a time. As [`Tube::pause_for`](crate::Tube::pause_for).
    ///
    /// # Errors
    /// Those of [`Tube::pause_for`](crate::Tube::pause_for).
    pub fn pause_for(&self, time: Duration) -> Result<()> {
        self.tube().pause_for(time)
    }

    /// Pauses the tube until a moment. As [`Tube::pause_until`](crate::Tube::pause_until).
    ///
    /// # Errors
    /// Those of [`Tube::pause_until`](crate::Tube::pause_until).
    pub fn pause_until(&self, moment: SystemTime) -> Result<()> {
        self.tube().pause_until(moment)
    }

    /// Ends the pause of the tube. As [`Tube::unpause`](crate::Tube::unpause).
    ///
    /// # Errors
    /// Those of [`Tube::unpause`](crate::Tube::unpause).
    pub fn unpause(&self) -> Result<()> {
        self.tube().unpause()
    }

    /// Changes the options of the tube. As [`Tube::alter`](crate::Tube::alter).
    ///
    /// # Errors
    /// Those of [`Tube::alter`](crate::Tube::alter).
    pub fn alter(&self, options: TubeOptions) -> Result<()> {
        self.tube().alter(options)
    }

    /// The options of the tube, and the calls that wait in it. As
    /// [`Tube::info`](crate::Tube::info).
    ///
    /// # Errors
    /// Those of [`Tube::info`](crate::Tube::info).
    pub fn info(&self) -> Result<TubeInfo> {
        self.tube().info()
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::pause`](crate::Deferred::pause).
    ///
    /// # Errors
    /// Those of [`Deferred::pause`](crate::Deferred::pause).
    pub fn pause(&self) -> Result<Ticket<()>> {
        self.untyped().pause()
    }

    /// As [`Deferred::pause_for`](crate::Deferred::pause_for).
    ///
    /// # Errors
    /// Those of [`Deferred::pause_for`](crate::Deferred::pause_for).
    pub fn pause_for(&self, time: Duration) -> Result<Ticket<()>> {
        self.untyped().pause_for(time)
    }

    /// As [`Deferred::pause_until`](crate::Deferred::pause_until).
    ///
    /// # Errors
    /// Those of [`Deferred::pause_until`](crate::Deferred::pause_until).
    pub fn pause_until(&self, moment: SystemTime) -> Result<Ticket<()>> {
        self.untyped().pause_until(moment)
    }

    /// As [`Deferred::unpause`](crate::Deferred::unpause).
    ///
    /// # Errors
    /// Those of [`Deferred::unpause`](crate::Deferred::unpause).
    pub fn unpause(&self) -> Result<Ticket<()>> {
        self.untyped().unpause()
    }

    /// As [`Deferred::alter`](crate::Deferred::alter).
    ///
    /// # Errors
    /// Those of [`Deferred::alter`](crate::Deferred::alter).
    pub fn alter(&self, options: TubeOptions) -> Result<Ticket<()>> {
        self.untyped().alter(options)
    }
}
