//! Deferred calls of a tube whose bodies are values.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::claim::TypedClaim;
use super::codec::{Codec, encode_all};
use crate::{Bincode, CallFuture, Deferred, Put, Receipt, Refused, Result, Ticket, WhenFull};

/// The deferred calls of a [`TypedTube`](crate::TypedTube); from
/// [`TypedTube::deferred`](crate::TypedTube::deferred).
///
/// Its methods are those of [`Deferred`], with the same guarantees and errors, for values instead
/// of bytes.
pub struct TypedDeferred<T, C = Bincode> {
    deferred: Deferred,
    types: PhantomData<fn(T) -> (T, C)>,
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    pub(super) fn new(deferred: Deferred) -> TypedDeferred<T, C> {
        TypedDeferred { deferred, types: PhantomData }
    }

    /// The deferred calls with bytes as bodies.
    #[must_use]
    pub fn untyped(&self) -> &Deferred {
        &self.deferred
    }

    /// What a call does while the write buffer is full. As [`Deferred::when_full`].
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        self.deferred.when_full()
    }

    /// Waits until the write buffer has space. As [`Deferred::capacity_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`Deferred::capacity_async`].
    pub fn capacity_async(&self) -> CallFuture<()> {
        self.deferred.capacity_async()
    }

    /// Puts a value. As [`Deferred::put`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Deferred::put`]. Nothing was put.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions, WhenFull};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>().deferred(WhenFull::Block);
    /// let tickets: Vec<_> = (0..100).map(|n| numbers.put(&n)).collect();
    /// for ticket in tickets {
    ///     ticket?.wait()?;
    /// }
    /// # assert_eq!(tube.statistics()?.tasks.ready, 100);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put(&self, value: &T) -> Result<Ticket<Receipt>> {
        self.put_with(value, |put| put)
    }

    /// Puts a value with options, as [`TypedTube::put_with`](crate::TypedTube::put_with).
    ///
    /// # Errors
    /// Those of [`put`](TypedDeferred::put). Nothing was put.
    pub fn put_with(&self, value: &T, options: impl FnOnce(Put) -> Put) -> Result<Ticket<Receipt>> {
        self.deferred.put(options(Put::new(C::encode(value)?)))
    }

    /// Puts many values with one commit, or none of them. As [`Deferred::put_many`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if a value cannot be encoded, and those of
    /// [`Deferred::put_many`]. Nothing was put.
    pub fn put_many<'a>(
        &self,
        values: impl IntoIterator<Item = &'a T>,
    ) -> Result<Ticket<Vec<Receipt>>>
    where
        T: 'a,
    {
        self.deferred.put_many(encode_all::<T, C>(values)?)
    }

    /// As [`Deferred::ack`].
    ///
    /// # Errors
    /// Those of [`Deferred::ack`].
    pub fn ack(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.deferred.ack(id)
    }

    /// As [`Deferred::ack_many`].
    ///
    /// # Errors
    /// Those of [`Deferred::ack_many`].
    pub fn ack_many(&self, ids: &[u64]) -> Result<Ticket<Vec<Result<Receipt>>>> {
        self.deferred.ack_many(ids)
    }

    /// As [`Deferred::ack_claim`].
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn ack_claim(
        &self,
        claim: TypedClaim<T>,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        claim.ack_deferred(self.when_full())
    }

    /// As [`Deferred::release`].
    ///
    /// # Errors
    /// Those of [`Deferred::release`].
    pub fn release(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        self.deferred.release(id, delay)
    }

    /// As [`Deferred::touch`].
    ///
    /// # Errors
    /// Those of [`Deferred::touch`].
    pub fn touch(&self, id: u64, by: Duration) -> Result<Ticket<Option<Receipt>>> {
        self.deferred.touch(id, by)
    }

    /// As [`Deferred::bury`].
    ///
    /// # Errors
    /// Those of [`Deferred::bury`].
    pub fn bury(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.deferred.bury(id)
    }

    /// As [`Deferred::kick`].
    ///
    /// # Errors
    /// Those of [`Deferred::kick`].
    pub fn kick(&self, count: u64) -> Result<Ticket<u64>> {
        self.deferred.kick(count)
    }

    /// As [`Deferred::kick_task`].
    ///
    /// # Errors
    /// Those of [`Deferred::kick_task`].
    pub fn kick_task(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.deferred.kick_task(id)
    }

    /// As [`Deferred::revoke`].
    ///
    /// # Errors
    /// Those of [`Deferred::revoke`].
    pub fn revoke(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.deferred.revoke(id)
    }

    /// As [`Deferred::delete`].
    ///
    /// # Errors
    /// Those of [`Deferred::delete`].
    pub fn delete(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.deferred.delete(id)
    }

    /// As [`Deferred::truncate`].
    ///
    /// # Errors
    /// Those of [`Deferred::truncate`].
    pub fn truncate(&self) -> Result<Ticket<()>> {
        self.deferred.truncate()
    }
}

impl<T, C> Clone for TypedDeferred<T, C> {
    fn clone(&self) -> TypedDeferred<T, C> {
        TypedDeferred { deferred: self.deferred.clone(), types: PhantomData }
    }
}

impl<T, C> fmt::Debug for TypedDeferred<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedDeferred").field("deferred", &self.deferred).finish()
    }
}
