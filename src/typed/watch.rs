//! Waiting for the end of tasks whose bodies are values.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::Codec;
use super::tube::TypedTube;
use crate::{CallFuture, Ending, Receipt, Result};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Waits for the end of a task. As [`Tube::wait_done`](crate::Tube::wait_done).
    ///
    /// # Errors
    /// Those of [`Tube::wait_done`](crate::Tube::wait_done).
    pub fn wait_done(
        &self,
        id: u64,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Ending>> {
        self.tube().wait_done(id, timeout)
    }

    /// As [`wait_done`](TypedTube::wait_done), as a future that blocks no thread. As
    /// [`Tube::wait_done_async`](crate::Tube::wait_done_async).
    ///
    /// # Errors
    /// The future resolves to those of [`wait_done`](TypedTube::wait_done).
    pub fn wait_done_async(
        &self,
        id: u64,
        timeout: impl Into<Option<Duration>>,
    ) -> CallFuture<Option<Ending>> {
        self.tube().wait_done_async(id, timeout)
    }

    /// Puts a value as a task, and waits for its end. As
    /// [`Tube::put_and_wait`](crate::Tube::put_and_wait).
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded: nothing was put. Those of
    /// [`Tube::put_and_wait`](crate::Tube::put_and_wait).
    pub fn put_and_wait(
        &self,
        value: &T,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<(Receipt, Option<Ending>)> {
        self.tube().put_and_wait(self.task(value)?, timeout)
    }

    /// As [`put_and_wait`](TypedTube::put_and_wait), as a future that blocks no thread. As
    /// [`Tube::put_and_wait_async`](crate::Tube::put_and_wait_async).
    ///
    /// # Errors
    /// The future resolves to those of [`put_and_wait`](TypedTube::put_and_wait).
    pub fn put_and_wait_async(
        &self,
        value: &T,
        timeout: impl Into<Option<Duration>>,
    ) -> CallFuture<(Receipt, Option<Ending>)> {
        match self.task(value) {
            Ok(task) => self.tube().put_and_wait_async(task, timeout),
            Err(error) => CallFuture::new(async move { Err(error) }),
        }
    }

    /// Waits until no task is ready, taken or delayed. As
    /// [`Tube::wait_drained`](crate::Tube::wait_drained).
    ///
    /// # Errors
    /// Those of [`Tube::wait_drained`](crate::Tube::wait_drained).
    pub fn wait_drained(&self, timeout: impl Into<Option<Duration>>) -> Result<bool> {
        self.tube().wait_drained(timeout)
    }

    /// As [`wait_drained`](TypedTube::wait_drained), as a future that blocks no thread. As
    /// [`Tube::wait_drained_async`](crate::Tube::wait_drained_async).
    ///
    /// # Errors
    /// The future resolves to those of [`wait_drained`](TypedTube::wait_drained).
    pub fn wait_drained_async(&self, timeout: impl Into<Option<Duration>>) -> CallFuture<bool> {
        self.tube().wait_drained_async(timeout)
    }

    /// Waits until there is a task to take, and takes nothing. As
    /// [`Tube::wait_ready`](crate::Tube::wait_ready).
    ///
    /// # Errors
    /// Those of [`Tube::wait_ready`](crate::Tube::wait_ready).
    pub fn wait_ready(&self, timeout: impl Into<Option<Duration>>) -> Result<bool> {
        self.tube().wait_ready(timeout)
    }

    /// As [`wait_ready`](TypedTube::wait_ready), as a future that blocks no thread. As
    /// [`Tube::wait_ready_async`](crate::Tube::wait_ready_async).
    ///
    /// # Errors
    /// The future resolves to those of [`wait_ready`](TypedTube::wait_ready).
    pub fn wait_ready_async(&self, timeout: impl Into<Option<Duration>>) -> CallFuture<bool> {
        self.tube().wait_ready_async(timeout)
    }
}
