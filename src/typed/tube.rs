//! Tubes whose bodies are values.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::claim::{TypedClaim, TypedTask};
use super::codec::{Codec, encode_all};
use super::deferred::TypedDeferred;
use crate::claim::Collected;
use crate::events::Callback;
use crate::{
    Bincode, CallFuture, Claim, Owner, Put, Receipt, Result, SessionId, Statistics, Tube, WhenFull,
};

/// A [`Tube`] whose bodies are values of one type; from [`Tube::typed`].
///
/// Its methods are those of [`Tube`], for the same session and with the same guarantees and errors.
/// They encode values when they are put, and decode the bodies of taken tasks. A task whose body
/// cannot be decoded is buried, so that it is not returned again and again. Clones are cheap.
///
/// # Example: a queue of structs
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use tubewell::{Store, TubeOptions};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     picture: String,
///     width: u32,
/// }
///
/// # fn main() -> tubewell::Result<()> {
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("resizes", "fifo", TubeOptions::default())?;
/// let resizes = tube.typed::<Resize>();
///
/// resizes.put(&Resize { picture: "cat.jpg".into(), width: 200 })?;
///
/// if let Some(claim) = resizes.take(Duration::ZERO)? {
///     assert_eq!(claim.value().picture, "cat.jpg");
///     claim.ack()?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct TypedTube<T, C = Bincode> {
    tube: Tube,
    /// Values are parameters and results; none is stored here.
    types: PhantomData<fn(T) -> (T, C)>,
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    pub(super) fn new(tube: Tube) -> TypedTube<T, C> {
        TypedTube { tube, types: PhantomData }
    }

    /// The tube with bytes as bodies.
    #[must_use]
    pub fn tube(&self) -> &Tube {
        &self.tube
    }

    /// Its name. As [`Tube::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.tube.name()
    }

    /// The name of its driver. As [`Tube::driver`].
    #[must_use]
    pub fn driver(&self) -> &str {
        self.tube.driver()
    }

    /// The session of this handle. As [`Tube::session`].
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.tube.session()
    }

    /// The counts of tasks and calls of this tube. As [`Tube::statistics`].
    ///
    /// # Errors
    /// Those of [`Tube::statistics`].
    pub fn statistics(&self) -> Result<Statistics> {
        self.tube.statistics()
    }

    /// Sets the function that is called after each change of a task. As [`Tube::on_task_change`].
    ///
    /// # Errors
    /// Those of [`Tube::on_task_change`].
    pub fn on_task_change(&self, callback: Option<Callback>) -> Result<Option<Callback>> {
        self.tube.on_task_change(callback)
    }

    /// Puts a value as a task with the tube's defaults. As [`Tube::put`].
    ///
    /// Once this returns, the task survives a killed process and a power cut. The call blocks for a
    /// flush. Other durabilities are as in [`Tube::put`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of [`Tube::put`].
    /// Nothing was put. After [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the task may be
    /// there.
    pub fn put(&self, value: &T) -> Result<Receipt> {
        self.put_with(value, |put| put)
    }

    /// Puts a value as a task with options: `options` receives the task and returns it changed. As
    /// [`put`](TypedTube::put) otherwise.
    ///
    /// # Errors
    /// Those of [`put`](TypedTube::put), and [`Unsupported`](crate::Error::Unsupported) for an
    /// option that the driver does not have. Nothing was put.
    ///
    /// # Example: an urgent task
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("numbers", "fifottl", TubeOptions::default())?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.put_with(&1, |put| put.pri(9))?;
    /// numbers.put_with(&2, |put| put.pri(0))?;
    ///
    /// let first = numbers.take(Duration::ZERO)?;
    /// assert_eq!(first.as_ref().map(|claim| *claim.value()), Some(2));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_with(&self, value: &T, options: impl FnOnce(Put) -> Put) -> Result<Receipt> {
        self.tube.put(options(self.task(value)?))
    }

    /// Puts many values with one commit, or none of them. As [`Tube::put_many`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if a value cannot be encoded, and those of
    /// [`Tube::put_many`]. Nothing was put.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// numbers.put_many(&[1, 2, 3])?;
    /// let sum: u64 = numbers.take_many(10, None)?.iter().map(|number| number.value()).sum();
    /// assert_eq!(sum, 6);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put_many<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<Vec<Receipt>>
    where
        T: 'a,
    {
        self.tube.put_many(encode_all::<T, C>(values)?)
    }

    /// Puts a value, and waits while the tube is full. As [`Tube::put_wait`].
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Tube::put_wait`]. Nothing was put.
    pub fn put_wait(&self, value: &T, timeout: impl Into<Option<Duration>>) -> Result<Receipt> {
        self.tube.put_wait(self.task(value)?, timeout)
    }

    /// As [`put_wait`](TypedTube::put_wait), as a future that blocks no thread. As
    /// [`Tube::put_wait_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`put_wait`](TypedTube::put_wait).
    pub fn put_wait_async(
        &self,
        value: &T,
        timeout: impl Into<Option<Duration>>,
    ) -> CallFuture<Receipt> {
        match self.task(value) {
            Ok(task) => self.tube.put_wait_async(task, timeout),
            Err(error) => CallFuture::new(async move { Err(error) }),
        }
    }

    /// Encodes a value as a task, for the calls of [`tube`](TypedTube::tube) that have options.
    /// Puts nothing.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded.
    ///
    /// # Example: many tasks with a priority
    /// ```
    /// use tubewell::{FIFOTTL, Put, Result, Store, TubeOptions};
    ///
    /// # fn main() -> Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("numbers", FIFOTTL, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// let tasks: Result<Vec<Put>> = (1..=3).map(|n| Ok(numbers.task(&n)?.pri(5))).collect();
    /// tube.put_many(tasks?)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&self, value: &T) -> Result<Put> {
        Ok(Put::new(C::encode(value)?))
    }

    /// Takes the next ready task, and decodes its body. As [`Tube::take`].
    ///
    /// Waits for a task at most for `timeout`: forever with `None`, not at all with zero. The claim
    /// lives in memory: after a crash the task is ready again.
    ///
    /// # Errors
    /// Those of [`Tube::take`]: no task was taken. [`Codec`](crate::Error::Codec): a task was
    /// taken, but its body cannot be decoded. The task is **buried**, for which the call blocks for
    /// a flush. The message names the task. [`kick`](TypedTube::kick) or
    /// [`delete`](TypedTube::delete) it when the cause is known. Take again for the next task.
    ///
    /// # Example: a body of another type
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Error, State, Store, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let store = Store::in_memory()?;
    /// let tube = store.create_tube("names", "fifo", TubeOptions::default())?;
    /// let no_number = tube.put("no number")?.id;
    ///
    /// let taken = tube.typed::<u64>().take(Duration::ZERO);
    /// assert!(matches!(taken, Err(Error::Codec { .. })));
    /// assert_eq!(tube.peek(no_number)?.info.state, State::Buried);
    /// # Ok(())
    /// # }
    /// ```
    pub fn take(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<TypedClaim<T>>> {
        self.tube.take(timeout)?.map(|claim| self.read(claim)).transpose()
    }

    /// Takes the next ready task if there is one now. As [`take`](TypedTube::take) with a zero
    /// timeout.
    ///
    /// # Errors
    /// Those of [`take`](TypedTube::take).
    pub fn try_take(&self) -> Result<Option<TypedClaim<T>>> {
        self.take(Duration::ZERO)
    }

    /// Takes up to `max` ready tasks, and decodes their bodies. As [`Tube::take_many`].
    ///
    /// # Errors
    /// Those of [`take`](TypedTube::take). If a body cannot be decoded, its task is buried and the
    /// other tasks are released; they use no attempt.
    pub fn take_many(
        &self,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Vec<TypedClaim<T>>> {
        let mut taken = Collected::new(self.tube.take_many(max, timeout)?);
        let mut claims = Collected::new(Vec::new());
        while let Some(claim) = taken.pop() {
            claims.extend([self.read(claim)?]);
        }
        Ok(claims.hand_out())
    }

    /// As [`take`](TypedTube::take), as a future that blocks no thread. As [`Tube::take_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`take`](TypedTube::take).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Result, TypedTube, WhenFull};
    ///
    /// async fn add_up(numbers: TypedTube<u64>) -> Result<u64> {
    ///     let mut sum = 0;
    ///     while let Some(number) = numbers.take_async(None).await? {
    ///         sum += number.value();
    ///         number.ack_deferred(WhenFull::Refuse)?.await?;
    ///     }
    ///     Ok(sum)
    /// }
    /// ```
    pub fn take_async(
        &self,
        timeout: impl Into<Option<Duration>>,
    ) -> CallFuture<Option<TypedClaim<T>>>
    where
        T: 'static,
    {
        let take = self.tube.take_async(timeout);
        CallFuture::new(async move {
            match take.await? {
                Some(claim) => TypedClaim::decode_async::<C>(claim).await.map(Some),
                None => Ok(None),
            }
        })
    }

    /// As [`take_many`](TypedTube::take_many), as a future that blocks no thread. As
    /// [`Tube::take_many_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`take_many`](TypedTube::take_many).
    pub fn take_many_async(
        &self,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> CallFuture<Vec<TypedClaim<T>>>
    where
        T: Send + 'static,
    {
        let take = self.tube.take_many_async(max, timeout);
        CallFuture::new(async move {
            let mut taken = Collected::new(take.await?);
            let mut claims = Collected::new(Vec::new());
            while let Some(claim) = taken.pop() {
                claims.extend([TypedClaim::decode_async::<C>(claim).await?]);
            }
            Ok(claims.hand_out())
        })
    }

    /// Takes this task, wherever it stands in the tube. As [`Tube::claim`].
    ///
    /// # Errors
    /// Those of [`Tube::claim`]; [`Codec`](crate::Error::Codec) if the body cannot be decoded: the
    /// task is **buried**.
    pub fn claim(&self, id: u64) -> Result<TypedClaim<T>> {
        self.read(self.tube.claim(id)?)
    }

    /// As [`claim`](TypedTube::claim), as a future that blocks no thread. As [`Tube::claim_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`claim`](TypedTube::claim).
    pub fn claim_async(&self, id: u64) -> CallFuture<TypedClaim<T>>
    where
        T: 'static,
    {
        let claim = self.tube.claim_async(id);
        CallFuture::new(async move { TypedClaim::decode_async::<C>(claim.await?).await })
    }

    /// Decodes the body of a task that was taken by another call, such as
    /// [`Store::take_any`](crate::Store::take_any). The task stays taken.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the body cannot be decoded: the task is **buried**, as by
    /// [`take`](TypedTube::take).
    ///
    /// # Example: two tubes of two types
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let numbers = store.create_tube("numbers", FIFO, TubeOptions::new())?.typed::<u64>();
    /// let names = store.create_tube("names", FIFO, TubeOptions::new())?.typed::<String>();
    /// names.put(&"ann".to_owned())?;
    ///
    /// let claim = store.take_any(&[numbers.tube(), names.tube()], None)?.unwrap();
    /// if claim.tube() == names.name() {
    ///     assert_eq!(names.read(claim)?.value(), "ann");
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn read(&self, claim: Claim) -> Result<TypedClaim<T>> {
        TypedClaim::decode::<C>(claim)
    }

    /// Finishes a task that this handle's session has taken. As [`Tube::ack`].
    ///
    /// # Errors
    /// Those of [`Tube::ack`].
    pub fn ack(&self, id: u64) -> Result<Receipt> {
        self.tube.ack(id)
    }

    /// Finishes many tasks that this handle's session has taken, with one commit. As
    /// [`Tube::ack_many`].
    ///
    /// # Errors
    /// Those of [`Tube::ack_many`].
    pub fn ack_many(&self, ids: &[u64]) -> Result<Vec<Result<Receipt>>> {
        self.tube.ack_many(ids)
    }

    /// Gives back a task that this handle's session has taken. As [`Tube::release`].
    ///
    /// # Errors
    /// Those of [`Tube::release`].
    pub fn release(&self, id: u64, delay: Duration) -> Result<Receipt> {
        self.tube.release(id, delay)
    }

    /// Extends the claim, the ttr and the ttl of a task that this handle's session has taken. As
    /// [`Tube::touch`].
    ///
    /// # Errors
    /// Those of [`Tube::touch`].
    pub fn touch(&self, id: u64, by: Duration) -> Result<Option<Receipt>> {
        self.tube.touch(id, by)
    }

    /// Sets when the claim on a task that this handle's session has taken expires. As
    /// [`Tube::renew`].
    ///
    /// # Errors
    /// Those of [`Tube::renew`].
    pub fn renew(&self, id: u64, hold: Duration) -> Result<()> {
        self.tube.renew(id, hold)
    }

    /// Makes every taken task of the tube ready. As [`Tube::release_all`].
    ///
    /// # Errors
    /// Those of [`Tube::release_all`].
    pub fn release_all(&self) -> Result<u64> {
        self.tube.release_all()
    }

    /// Buries a task (dead letter). As [`Tube::bury`].
    ///
    /// # Errors
    /// Those of [`Tube::bury`].
    pub fn bury(&self, id: u64) -> Result<Receipt> {
        self.tube.bury(id)
    }

    /// Makes up to `count` buried tasks ready. As [`Tube::kick`].
    ///
    /// # Errors
    /// Those of [`Tube::kick`].
    pub fn kick(&self, count: u64) -> Result<u64> {
        self.tube.kick(count)
    }

    /// As [`kick`](TypedTube::kick), as a future that blocks no thread. As [`Tube::kick_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`Tube::kick`].
    pub fn kick_async(&self, count: u64) -> CallFuture<u64> {
        self.tube.kick_async(count)
    }

    /// Makes one buried task ready. As [`Tube::kick_task`].
    ///
    /// # Errors
    /// Those of [`Tube::kick_task`].
    pub fn kick_task(&self, id: u64) -> Result<Receipt> {
        self.tube.kick_task(id)
    }

    /// Ends the claim on a task, whichever session has it. As [`Tube::revoke`].
    ///
    /// # Errors
    /// Those of [`Tube::revoke`].
    pub fn revoke(&self, id: u64) -> Result<Receipt> {
        self.tube.revoke(id)
    }

    /// The session that has taken a task. As [`Tube::owner_of`].
    ///
    /// # Errors
    /// Those of [`Tube::owner_of`].
    pub fn owner_of(&self, id: u64) -> Result<Option<Owner>> {
        self.tube.owner_of(id)
    }

    /// Deletes a task. As [`Tube::delete`].
    ///
    /// # Errors
    /// Those of [`Tube::delete`].
    pub fn delete(&self, id: u64) -> Result<Receipt> {
        self.tube.delete(id)
    }

    /// Returns a task with its value, and changes nothing. As [`Tube::peek`].
    ///
    /// # Errors
    /// Those of [`Tube::peek`]. [`Codec`](crate::Error::Codec) if the body cannot be decoded: the
    /// task stays as it is.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed::<u64>();
    /// let id = numbers.put(&42)?.id;
    /// assert_eq!(numbers.peek(id)?.value, 42);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn peek(&self, id: u64) -> Result<TypedTask<T>> {
        TypedTask::decode::<C>(self.tube.peek(id)?)
    }

    /// As [`peek`](TypedTube::peek), as a future that blocks no thread. As [`Tube::peek_async`].
    ///
    /// # Errors
    /// The future resolves to those of [`peek`](TypedTube::peek).
    pub fn peek_async(&self, id: u64) -> CallFuture<TypedTask<T>>
    where
        T: 'static,
    {
        let peek = self.tube.peek_async(id);
        CallFuture::new(async move { TypedTask::decode::<C>(peek.await?) })
    }

    /// Removes all tasks, whatever their state. As [`Tube::truncate`].
    ///
    /// # Errors
    /// Those of [`Tube::truncate`].
    pub fn truncate(&self) -> Result<()> {
        self.tube.truncate()
    }

    /// The deferred calls of this tube, for values. As [`Tube::deferred`].
    #[must_use]
    pub fn deferred(&self, when_full: WhenFull) -> TypedDeferred<T, C> {
        TypedDeferred::new(self.tube.deferred(when_full))
    }
}

impl<T, C> Clone for TypedTube<T, C> {
    fn clone(&self) -> TypedTube<T, C> {
        TypedTube { tube: self.tube.clone(), types: PhantomData }
    }
}

impl<T, C> fmt::Debug for TypedTube<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedTube").field("tube", &self.tube.name()).finish_non_exhaustive()
    }
}
