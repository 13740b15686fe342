//! The steps of the work on a task of a typed tube.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{CallFuture, Codec, Error, Put, Result, Step, Tube, TypedClaim, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Returns the steps of a task that are stored. As [`Tube::steps`].
    ///
    /// # Errors
    /// Those of [`Tube::steps`].
    pub fn steps(&self, id: u64) -> Result<Vec<Step>> {
        self.tube().steps(id)
    }

    /// As [`steps`](TypedTube::steps), as a future. As [`Tube::steps_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`steps`](TypedTube::steps).
    pub fn steps_async(&self, id: u64) -> CallFuture<Vec<Step>> {
        self.tube().steps_async(id)
    }
}

impl<T> TypedClaim<T> {
    /// Runs a step of the work, unless it is stored. As [`Claim::step`](crate::Claim::step): the value
    /// is encoded with bincode, also if the bodies of the tube have another codec. For that one, or
    /// any other, call [`step_with`](TypedClaim::step_with). The steps of a
    /// [`Job`](crate::worker::Job) have the codec of the tube.
    ///
    /// # Errors
    /// Those of [`Claim::step`](crate::Claim::step).
    pub fn step<V, E>(&self, name: &str, run: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.claim().step(name, run)
    }

    /// As [`step`](TypedClaim::step), with a codec. As [`Claim::step_with`](crate::Claim::step_with).
    ///
    /// # Errors
    /// Those of [`Claim::step`](crate::Claim::step).
    pub fn step_with<C, V, E>(&self, name: &str, run: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        C: Codec,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.claim().step_with::<C, V, E>(name, run)
    }

    /// As [`step`](TypedClaim::step), with bincode, for a step that is a future. As
    /// [`Claim::step_async`](crate::Claim::step_async).
    ///
    /// # Errors
    /// Those of [`Claim::step`](crate::Claim::step).
    pub fn step_async<V, E, F>(
        &self,
        name: &str,
        run: impl FnOnce() -> F,
    ) -> impl Future<Output = Result<V, E>>
    where
        F: Future<Output = Result<V, E>>,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.claim().step_async(name, run)
    }

    /// As [`step_async`](TypedClaim::step_async), with a codec. As
    /// [`Claim::step_with_async`](crate::Claim::step_with_async).
    ///
    /// # Errors
    /// Those of [`Claim::step`](crate::Claim::step).
    pub fn step_with_async<C, V, E, F>(
        &self,
        name: &str,
        run: impl FnOnce() -> F,
    ) -> impl Future<Output = Result<V, E>>
    where
        C: Codec,
        F: Future<Output = Result<V, E>>,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.claim().step_with_async::<C, V, E, F>(name, run)
    }

    /// Puts a task once, as a step of the work. As [`Claim::spawn`](crate::Claim::spawn).
    ///
    /// # Errors
    /// Those of [`Claim::spawn`](crate::Claim::spawn).
    pub fn spawn(&self, name: &str, tube: &Tube, task: impl Into<Put>) -> Result<u64> {
        self.claim().spawn(name, tube, task)
    }

    /// As [`spawn`](TypedClaim::spawn), as a future. As
    /// [`Claim::spawn_async`](crate::Claim::spawn_async).
    ///
    /// # Errors
    /// Those of [`Claim::spawn`](crate::Claim::spawn).
    pub fn spawn_async(
        &self,
        name: &str,
        tube: &Tube,
        task: impl Into<Put>,
    ) -> impl Future<Output = Result<u64>> {
        self.claim().spawn_async(name, tube, task)
    }

    /// Returns the steps that are stored. As [`Claim::steps`](crate::Claim::steps).
    ///
    /// # Errors
    /// Those of [`Claim::steps`](crate::Claim::steps).
    pub fn steps(&self) -> Result<Vec<Step>> {
        self.claim().steps()
    }
    /// As [`steps`](TypedClaim::steps), as a future. As
    /// [`Claim::steps_async`](crate::Claim::steps_async).
    ///
    /// # Errors
    /// Those of [`Claim::steps`](crate::Claim::steps).
    pub fn steps_async(&self) -> impl Future<Output = Result<Vec<Step>>> {
        self.claim().steps_async()
    }
}
