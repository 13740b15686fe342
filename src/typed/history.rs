//! The history of a task of a typed tube.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{
    CallFuture, Codec, HistoryEntry, Receipt, Result, Ticket, TypedClaim, TypedTube, WhenFull,
};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Returns the history of a task. As [`Tube::history`](crate::Tube::history).
    ///
    /// # Errors
    /// Those of [`Tube::history`](crate::Tube::history).
    pub fn history(&self, id: u64) -> Result<Vec<HistoryEntry>> {
        self.tube().history(id)
    }

    /// As [`history`](TypedTube::history), as a future. As
    /// [`Tube::history_async`](crate::Tube::history_async).
    ///
    /// # Errors
    /// The future resolves to those of [`history`](TypedTube::history).
    pub fn history_async(&self, id: u64) -> CallFuture<Vec<HistoryEntry>> {
        self.tube().history_async(id)
    }

    /// Adds an entry to the history of a task. As [`Tube::log`](crate::Tube::log).
    ///
    /// # Errors
    /// Those of [`Tube::log`](crate::Tube::log).
    pub fn log(&self, id: u64, text: &str) -> Result<Receipt> {
        self.tube().log(id, text)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::log`](crate::Deferred::log).
    ///
    /// # Errors
    /// Those of [`Deferred::log`](crate::Deferred::log).
    pub fn log(&self, id: u64, text: &str) -> Result<Ticket<Receipt>> {
        self.untyped().log(id, text)
    }
}

impl<T> TypedClaim<T> {
    /// Adds an entry to the history of the task. As [`Claim::log`](crate::Claim::log).
    ///
    /// # Errors
    /// Those of [`Claim::log`](crate::Claim::log).
    pub fn log(&self, text: &str) -> Result<Receipt> {
        self.claim().log(text)
    }

    /// As [`log`](TypedClaim::log), without waiting for the flush. As
    /// [`Claim::log_deferred`](crate::Claim::log_deferred).
    ///
    /// # Errors
    /// Those of [`Claim::log_deferred`](crate::Claim::log_deferred).
    pub fn log_deferred(&self, text: &str, when_full: WhenFull) -> Result<Ticket<Receipt>> {
        self.claim().log_deferred(text, when_full)
    }
}
