//! Outcomes of the tasks of typed tubes. A result is bytes, whatever the type of the bodies is.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    CallFuture, Codec, Ending, FailureGroup, Receipt, Refused, Result, Ticket, TypedClaim,
    TypedTube, WhenFull,
};

impl<T> TypedClaim<T> {
    /// Finishes the task with a result. As [`Claim::ack_with`](crate::Claim::ack_with).
    ///
    /// # Errors
    /// Those of [`Claim::ack_with`](crate::Claim::ack_with).
    pub fn ack_with(self, result: impl Into<Vec<u8>>) -> Result<Receipt> {
        self.into_parts().1.ack_with(result)
    }

    /// Finishes the task with a result, without blocking. As
    /// [`Claim::ack_with_deferred`](crate::Claim::ack_with_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back.
    pub fn ack_with_deferred(
        self,
        result: impl Into<Vec<u8>>,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.ack_with_deferred(result, when_full))
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// How a task has ended. As [`Tube::outcome`](crate::Tube::outcome).
    ///
    /// # Errors
    /// Those of [`Tube::outcome`](crate::Tube::outcome).
    pub fn outcome(&self, id: u64) -> Result<Option<Ending>> {
        self.tube().outcome(id)
    }

    /// As [`outcome`](TypedTube::outcome), as a future that blocks no thread. As
    /// [`Tube::outcome_async`](crate::Tube::outcome_async).
    ///
    /// # Errors
    /// The future resolves to those of [`outcome`](TypedTube::outcome).
    pub fn outcome_async(&self, id: u64) -> CallFuture<Option<Ending>> {
        self.tube().outcome_async(id)
    }

    /// The failure groups of the buried tasks. As [`Tube::groups`](crate::Tube::groups).
    ///
    /// # Errors
    /// Those of [`Tube::groups`](crate::Tube::groups).
    pub fn groups(&self) -> Result<Vec<FailureGroup>> {
        self.tube().groups()
    }

    /// Ends a task that no session has taken. As [`Tube::resolve`](crate::Tube::resolve).
    ///
    /// # Errors
    /// Those of [`Tube::resolve`](crate::Tube::resolve).
    pub fn resolve(&self, id: u64, result: Option<&[u8]>) -> Result<Receipt> {
        self.tube().resolve(id, result)
    }

    /// Removes a task that is done and kept. As [`Tube::forget`](crate::Tube::forget).
    ///
    /// # Errors
    /// Those of [`Tube::forget`](crate::Tube::forget).
    pub fn forget(&self, id: u64) -> Result<Receipt> {
        self.tube().forget(id)
    }

    /// Finishes a taken task with a result. As [`Tube::ack_with`](crate::Tube::ack_with).
    ///
    /// # Errors
    /// Those of [`Tube::ack_with`](crate::Tube::ack_with).
    pub fn ack_with(&self, id: u64, result: impl AsRef<[u8]>) -> Result<Receipt> {
        self.tube().ack_with(id, result)
    }
}
