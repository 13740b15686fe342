//! Pauses of the sub-queues of a typed tube.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{Codec, PausedSubQueue, Result, Ticket, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Pauses a sub-queue. As [`Tube::pause_sub_queue`](crate::Tube::pause_sub_queue).
    ///
    /// # Errors
    /// Those of [`Tube::pause_sub_queue`](crate::Tube::pause_sub_queue).
    pub fn pause_sub_queue(&self, name: &str, time: Duration) -> Result<()> {
        self.tube().pause_sub_queue(name, time)
    }

    /// Ends the pause of a sub-queue. As [`Tube::unpause_sub_queue`](crate::Tube::unpause_sub_queue).
    ///
    /// # Errors
    /// Those of [`Tube::unpause_sub_queue`](crate::Tube::unpause_sub_queue).
    pub fn unpause_sub_queue(&self, name: &str) -> Result<()> {
        self.tube().unpause_sub_queue(name)
    }

    /// The paused sub-queues. As [`Tube::paused_sub_queues`](crate::Tube::paused_sub_queues).
    ///
    /// # Errors
    /// Those of [`Tube::paused_sub_queues`](crate::Tube::paused_sub_queues).
    pub fn paused_sub_queues(&self) -> Result<Vec<PausedSubQueue>> {
        self.tube().paused_sub_queues()
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::pause_sub_queue`](crate::Deferred::pause_sub_queue).
    ///
    /// # Errors
    /// Those of [`Deferred::pause_sub_queue`](crate::Deferred::pause_sub_queue).
    pub fn pause_sub_queue(&self, name: &str, time: Duration) -> Result<Ticket<()>> {
        self.untyped().pause_sub_queue(name, time)
    }

    /// As [`Deferred::unpause_sub_queue`](crate::Deferred::unpause_sub_queue).
    ///
    /// # Errors
    /// Those of [`Deferred::unpause_sub_queue`](crate::Deferred::unpause_sub_queue).
    pub fn unpause_sub_queue(&self, name: &str) -> Result<Ticket<()>> {
        self.untyped().unpause_sub_queue(name)
    }
}
