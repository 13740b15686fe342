//! Changes and deletes of chosen tasks of typed tubes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{CallFuture, Codec, Filter, Receipt, Result, State, Ticket, TypedTube, Update};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Gives a task another priority. As [`Tube::set_priority`](crate::Tube::set_priority).
    ///
    /// # Errors
    /// Those of [`Tube::set_priority`](crate::Tube::set_priority).
    pub fn set_priority(&self, id: u64, priority: u32) -> Result<Receipt> {
        self.tube().set_priority(id, priority)
    }

    /// Changes a task that waits. As [`Tube::update`](crate::Tube::update): a body of the update is
    /// bytes. [`update_with`](TypedTube::update_with) encodes a value.
    ///
    /// # Errors
    /// Those of [`Tube::update`](crate::Tube::update).
    pub fn update(&self, id: u64, update: Update) -> Result<Receipt> {
        self.tube().update(id, update)
    }

    /// Gives a task that waits another value: `options` receives the update and returns it changed.
    /// As [`Tube::update`](crate::Tube::update) otherwise.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Tube::update`](crate::Tube::update). Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFOTTL, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("numbers", FIFOTTL, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// let id = numbers.put(&1)?.id;
    /// numbers.update_with(id, &2, |update| update.priority(3))?;
    /// assert_eq!(*numbers.try_take()?.unwrap().value(), 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn update_with(
        &self,
        id: u64,
        value: &T,
        options: impl FnOnce(Update) -> Update,
    ) -> Result<Receipt> {
        self.tube().update(id, options(Update::new().body(C::encode(value)?)))
    }

    /// Deletes a task that has not begun. As [`Tube::cancel`](crate::Tube::cancel).
    ///
    /// # Errors
    /// Those of [`Tube::cancel`](crate::Tube::cancel).
    pub fn cancel(&self, id: u64) -> Result<Receipt> {
        self.tube().cancel(id)
    }

    /// Deletes a task if it is in one of these states. As
    /// [`Tube::delete_if`](crate::Tube::delete_if).
    ///
    /// # Errors
    /// Those of [`Tube::delete_if`](crate::Tube::delete_if).
    pub fn delete_if(&self, id: u64, states: &[State]) -> Result<Receipt> {
        self.tube().delete_if(id, states)
    }

    /// Deletes these tasks with one commit. As [`Tube::delete_many`](crate::Tube::delete_many).
    ///
    /// # Errors
    /// Those of [`Tube::delete_many`](crate::Tube::delete_many).
    pub fn delete_many(&self, ids: &[u64]) -> Result<u64> {
        self.tube().delete_many(ids)
    }

    /// Deletes the selected tasks. As [`Tube::delete_where`](crate::Tube::delete_where).
    ///
    /// # Errors
    /// Those of [`Tube::delete_where`](crate::Tube::delete_where).
    pub fn delete_where(&self, filter: impl Into<Filter>) -> Result<u64> {
        self.tube().delete_where(filter)
    }

    /// As [`delete_where`](TypedTube::delete_where), as a future that blocks no thread. As
    /// [`Tube::delete_where_async`](crate::Tube::delete_where_async).
    ///
    /// # Errors
    /// The future resolves to those of [`delete_where`](TypedTube::delete_where).
    pub fn delete_where_async(&self, filter: impl Into<Filter>) -> CallFuture<u64> {
        self.tube().delete_where_async(filter)
    }

    /// Kicks the selected buried tasks. As [`Tube::kick_where`](crate::Tube::kick_where).
    ///
    /// # Errors
    /// Those of [`Tube::kick_where`](crate::Tube::kick_where).
    pub fn kick_where(&self, filter: impl Into<Filter>) -> Result<u64> {
        self.tube().kick_where(filter)
    }

    /// As [`kick_where`](TypedTube::kick_where), as a future that blocks no thread. As
    /// [`Tube::kick_where_async`](crate::Tube::kick_where_async).
    ///
    /// # Errors
    /// The future resolves to those of [`kick_where`](TypedTube::kick_where).
    pub fn kick_where_async(&self, filter: impl Into<Filter>) -> CallFuture<u64> {
        self.tube().kick_where_async(filter)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::set_priority`](crate::Deferred::set_priority).
    ///
    /// # Errors
    /// Those of [`Deferred::set_priority`](crate::Deferred::set_priority).
    pub fn set_priority(&self, id: u64, priority: u32) -> Result<Ticket<Receipt>> {
        self.untyped().set_priority(id, priority)
    }

    /// As [`Deferred::update`](crate::Deferred::update): a body of the update is bytes.
    ///
    /// # Errors
    /// Those of [`Deferred::update`](crate::Deferred::update).
    pub fn update(&self, id: u64, update: Update) -> Result<Ticket<Receipt>> {
        self.untyped().update(id, update)
    }

    /// As [`TypedTube::update_with`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Deferred::update`](crate::Deferred::update). Nothing changed.
    pub fn update_with(
        &self,
        id: u64,
        value: &T,
        options: impl FnOnce(Update) -> Update,
    ) -> Result<Ticket<Receipt>> {
        self.untyped().update(id, options(Update::new().body(C::encode(value)?)))
    }

    /// As [`Deferred::cancel`](crate::Deferred::cancel).
    ///
    /// # Errors
    /// Those of [`Deferred::cancel`](crate::Deferred::cancel).
    pub fn cancel(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.untyped().cancel(id)
    }

    /// As [`Deferred::delete_if`](crate::Deferred::delete_if).
    ///
    /// # Errors
    /// Those of [`Deferred::delete_if`](crate::Deferred::delete_if).
    pub fn delete_if(&self, id: u64, states: &[State]) -> Result<Ticket<Receipt>> {
        self.untyped().delete_if(id, states)
    }

    /// As [`Deferred::delete_many`](crate::Deferred::delete_many).
    ///
    /// # Errors
    /// Those of [`Deferred::delete_many`](crate::Deferred::delete_many).
    pub fn delete_many(&self, ids: &[u64]) -> Result<Ticket<u64>> {
        self.untyped().delete_many(ids)
    }
}
