//! Deferred calls that report a failure or a result of a task of a typed tube.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{Codec, Failure, Receipt, Result, Ticket};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::fail`](crate::Deferred::fail).
    ///
    /// # Errors
    /// Those of [`Deferred::fail`](crate::Deferred::fail).
    pub fn fail(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.untyped().fail(id, failure)
    }

    /// As [`Deferred::fail_in`](crate::Deferred::fail_in).
    ///
    /// # Errors
    /// Those of [`Deferred::fail_in`](crate::Deferred::fail_in).
    pub fn fail_in(&self, id: u64, delay: Duration, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.untyped().fail_in(id, delay, failure)
    }

    /// As [`Deferred::snooze`](crate::Deferred::snooze).
    ///
    /// # Errors
    /// Those of [`Deferred::snooze`](crate::Deferred::snooze).
    pub fn snooze(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        self.untyped().snooze(id, delay)
    }

    /// As [`Deferred::bury_with`](crate::Deferred::bury_with).
    ///
    /// # Errors
    /// Those of [`Deferred::bury_with`](crate::Deferred::bury_with).
    pub fn bury_with(&self, id: u64, failure: &Failure) -> Result<Ticket<Receipt>> {
        self.untyped().bury_with(id, failure)
    }

    /// As [`Deferred::ack_with`](crate::Deferred::ack_with).
    ///
    /// # Errors
    /// Those of [`Deferred::ack_with`](crate::Deferred::ack_with).
    pub fn ack_with(&self, id: u64, result: impl AsRef<[u8]>) -> Result<Ticket<Receipt>> {
        self.untyped().ack_with(id, result)
    }

    /// As [`Deferred::resolve`](crate::Deferred::resolve).
    ///
    /// # Errors
    /// Those of [`Deferred::resolve`](crate::Deferred::resolve).
    pub fn resolve(&self, id: u64, result: Option<&[u8]>) -> Result<Ticket<Receipt>> {
        self.untyped().resolve(id, result)
    }

    /// As [`Deferred::forget`](crate::Deferred::forget).
    ///
    /// # Errors
    /// Those of [`Deferred::forget`](crate::Deferred::forget).
    pub fn forget(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.untyped().forget(id)
    }
}
