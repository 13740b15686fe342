//! The parents of tasks of typed tubes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{Codec, Receipt, Result, Ticket, Tube, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Adds parents to a task. As [`Tube::add_parents`].
    ///
    /// # Errors
    /// Those of [`Tube::add_parents`].
    pub fn add_parents(&self, id: u64, of: &Tube, parents: &[u64]) -> Result<Receipt> {
        self.tube().add_parents(id, of, parents)
    }

    /// Removes parents of a task. As [`Tube::remove_parents`].
    ///
    /// # Errors
    /// Those of [`Tube::remove_parents`].
    pub fn remove_parents(&self, id: u64, parents: Option<&[u64]>) -> Result<Receipt> {
        self.tube().remove_parents(id, parents)
    }

    /// The parents of a task that are not done. As [`Tube::parents`].
    ///
    /// # Errors
    /// Those of [`Tube::parents`].
    pub fn parents(&self, id: u64) -> Result<Vec<u64>> {
        self.tube().parents(id)
    }

    /// The tasks that wait for a task. As [`Tube::children`].
    ///
    /// # Errors
    /// Those of [`Tube::children`].
    pub fn children(&self, id: u64) -> Result<Vec<u64>> {
        self.tube().children(id)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`TypedTube::add_parents`].
    ///
    /// # Errors
    /// Those of [`Deferred::add_parents`](crate::Deferred::add_parents).
    pub fn add_parents(&self, id: u64, of: &Tube, parents: &[u64]) -> Result<Ticket<Receipt>> {
        self.untyped().add_parents(id, of, parents)
    }

    /// As [`TypedTube::remove_parents`].
    ///
    /// # Errors
    /// Those of [`Deferred::remove_parents`](crate::Deferred::remove_parents).
    pub fn remove_parents(&self, id: u64, parents: Option<&[u64]>) -> Result<Ticket<Receipt>> {
        self.untyped().remove_parents(id, parents)
    }
}
