//! Movement of typed tasks, and what follows from their end.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    CallFuture, Codec, Finish, Receipt, Refused, Result, Ticket, TypedClaim, TypedDeferred,
    TypedTube, WhenFull,
};

impl<T> TypedClaim<T> {
    /// Passes the task on to another tube, with a new value, which may have another type. As
    /// [`Claim::advance`](crate::Claim::advance). With options, the value is
    /// [a task](TypedTube::task) of a [`Finish`].
    ///
    /// # Errors
    /// Those of [`Claim::advance`](crate::Claim::advance); [`Codec`](crate::Error::Codec) if the
    /// value cannot be encoded: the task is released.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let texts = store.create_tube("texts", FIFO, TubeOptions::new())?.typed::<String>();
    /// let lengths = store.create_tube("lengths", FIFO, TubeOptions::new())?.typed::<usize>();
    /// texts.put(&"well".to_owned())?;
    /// let text = texts.try_take()?.unwrap();
    /// let length = text.value().len();
    /// text.advance(&lengths, &length)?;
    /// assert_eq!(*lengths.try_take()?.unwrap().value(), 4);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn advance<U, C>(self, to: &TypedTube<U, C>, value: &U) -> Result<Receipt>
    where
        U: Serialize + DeserializeOwned,
        C: Codec,
    {
        let task = to.task(value)?;
        self.into_parts().1.advance(to.tube(), task)
    }

    /// As [`advance`](TypedClaim::advance), but returns before the flush. As
    /// [`Claim::advance_deferred`](crate::Claim::advance_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn advance_deferred<U, C>(
        self,
        to: &TypedTube<U, C>,
        value: &U,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>>
    where
        U: Serialize + DeserializeOwned,
        C: Codec,
    {
        match to.task(value) {
            Ok(task) => self.deferred(|claim| claim.advance_deferred(to.tube(), task, when_full)),
            Err(error) => Err(Refused::new(self, error)),
        }
    }

    /// Finishes the task and puts further tasks, with one commit. As
    /// [`Claim::finish`](crate::Claim::finish). Values are [tasks](TypedTube::task) of a
    /// [tube](TypedTube::tube).
    ///
    /// # Errors
    /// Those of [`Claim::finish`](crate::Claim::finish).
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Finish, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let numbers = store.create_tube("numbers", FIFO, TubeOptions::new())?.typed::<u64>();
    /// numbers.put(&12)?;
    /// let twelve = numbers.try_take()?.unwrap();
    /// let halves = Finish::new()
    ///     .put(numbers.tube(), numbers.task(&5)?)
    ///     .put(numbers.tube(), numbers.task(&7)?);
    /// twelve.finish(halves)?;
    /// assert_eq!(numbers.statistics()?.tasks.ready, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn finish(self, finish: Finish) -> Result<Receipt> {
        self.into_parts().1.finish(finish)
    }

    /// As [`finish`](TypedClaim::finish), but returns before the flush. As
    /// [`Claim::finish_deferred`](crate::Claim::finish_deferred).
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with its value.
    pub fn finish_deferred(
        self,
        finish: Finish,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<TypedClaim<T>>> {
        self.deferred(|claim| claim.finish_deferred(finish, when_full))
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Moves a task to another tube of the same values. As [`Tube::move_to`](crate::Tube::move_to).
    ///
    /// # Errors
    /// Those of [`Tube::move_to`](crate::Tube::move_to).
    pub fn move_to(&self, id: u64, to: &TypedTube<T, C>) -> Result<Receipt> {
        self.tube().move_to(id, to.tube())
    }

    /// Moves all tasks to another tube of the same values. As
    /// [`Tube::move_all`](crate::Tube::move_all).
    ///
    /// # Errors
    /// Those of [`Tube::move_all`](crate::Tube::move_all).
    pub fn move_all(&self, to: &TypedTube<T, C>) -> Result<u64> {
        self.tube().move_all(to.tube())
    }

    /// As [`move_all`](TypedTube::move_all), as a future that blocks no thread. As
    /// [`Tube::move_all_async`](crate::Tube::move_all_async).
    ///
    /// # Errors
    /// The future resolves to those of [`move_all`](TypedTube::move_all).
    pub fn move_all_async(&self, to: &TypedTube<T, C>) -> CallFuture<u64> {
        self.tube().move_all_async(to.tube())
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::move_to`](crate::Deferred::move_to).
    ///
    /// # Errors
    /// Those of [`Deferred::move_to`](crate::Deferred::move_to).
    pub fn move_to(&self, id: u64, to: &TypedTube<T, C>) -> Result<Ticket<Receipt>> {
        self.untyped().move_to(id, to.tube())
    }
}
