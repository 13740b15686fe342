//! Calls that return before their flush, so that one thread can have hundreds in flight.

mod attempts;
mod claim;
mod claim_attempts;
mod edits;
mod gates;
mod history;
mod keyed;
mod limits;
mod movement;
mod parents;
mod schedules;
mod ticket;

use std::time::Duration;

use crate::core::PutRequest;
use crate::core::list::{
    Ack, AckMany, Bury, Delete, Kick, KickTask, PutMany, PutTask, Release, ReleaseIn, Revoke,
    SpaceInTube, Touch, Truncate,
};
use crate::core::verb::{Decide, InTube, OfClaim};
use crate::micros::micros_ceil;
use crate::wait::CallFuture;
use crate::{Bytes, Claim, IntoPut, Receipt, Restore, Result, Tube, WhenFull};

pub use claim::Refused;
pub use ticket::Ticket;

impl<T> Tube<T> {
    /// The deferred calls of this tube: each returns before its flush, with a
    /// [`Ticket`](crate::Ticket) for the answer. One thread can have many in flight, and they share
    /// their flushes.
    ///
    /// `when_full` says what a call does while the write buffer is full.
    #[must_use]
    pub fn deferred(&self, when_full: WhenFull) -> Deferred<T> {
        Deferred::new(self.clone(), when_full)
    }
}

/// The deferred calls of a tube; from [`Tube::deferred`].
///
/// Each call is decided before it returns: a refusal is returned immediately, and decided calls
/// take effect in their order. A change survives a crash once its [`Ticket`] is answered, and
/// takers see it from then on. In a written tube takers see it immediately, and it survives a
/// killed process once the ticket is answered, which is after the write. In a relaxed or temporary
/// tube takers see it immediately and the ticket is answered already.
///
/// The write buffer holds the changes that wait to be written, up to
/// [`max_pending`](crate::StoreOptions::max_pending). While it is full, a call that adds rows blocks
/// ([`WhenFull::Block`]) or returns [`Overloaded`](crate::Error::Overloaded)
/// ([`WhenFull::Refuse`]). This is back pressure: an async task uses `Refuse` and awaits
/// [`capacity_async`](Deferred::capacity_async).
///
/// Through a [connection](crate::connect) a call is only sent: it returns before it is decided, its
/// ticket has the refusal, and it never blocks. Without back pressure, the caller must limit its open
/// tickets: the client keeps all calls that are not sent yet. Wait for the oldest ticket, or await
/// [`capacity_async`](Deferred::capacity_async) after every few hundred calls.
#[doc(alias = "pipelining")]
pub struct Deferred<T: 'static = Bytes> {
    tube: Tube<T>,
    when_full: WhenFull,
}

impl<T> std::fmt::Debug for Deferred<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Deferred { tube, when_full } = self;
        f.debug_struct("Deferred").field("tube", tube).field("when_full", when_full).finish()
    }
}

impl<T> Clone for Deferred<T> {
    fn clone(&self) -> Deferred<T> {
        Deferred { tube: self.tube.clone(), when_full: self.when_full }
    }
}

impl<T> Deferred<T> {
    pub(crate) fn new(tube: Tube<T>, when_full: WhenFull) -> Deferred<T> {
        Deferred { tube, when_full }
    }

    /// What a call does while the write buffer is full.
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        self.when_full
    }

    /// Waits until the write buffer has space: a call with [`WhenFull::Refuse`] is accepted then.
    /// The future blocks no thread. Through a [connection](crate::connect) it also waits until the
    /// owner has received all calls that were made before it.
    ///
    /// Waiting futures are served in order of arrival, no more at a time than there are free rows.
    /// The space is not reserved: if a call of another thread or task fills it first, the next call
    /// returns [`Overloaded`](crate::Error::Overloaded) again, and nothing has changed.
    ///
    /// # Errors
    /// Those of every call: the store is closed or its storage has failed, or the tube was dropped.
    ///
    /// # Example: back pressure in an async task
    /// ```
    /// use tubewell::{Result, Tube, WhenFull};
    ///
    /// async fn copy(lines: Vec<String>, jobs: &Tube) -> Result<()> {
    ///     let deferred = jobs.deferred(WhenFull::Refuse);
    ///     let mut last = None;
    ///     for line in lines {
    ///         deferred.capacity_async().await?;
    ///         last = Some(deferred.put(line)?);
    ///     }
    ///     match last {
    ///         Some(ticket) => ticket.await.map(drop), // all are flushed in order
    ///         None => Ok(()),
    ///     }
    /// }
    /// ```
    pub fn capacity_async(&self) -> CallFuture<()> {
        self.tube.make_async(SpaceInTube {})
    }

    /// As [`Tube::put`].
    ///
    /// # Errors
    /// Those of [`Tube::put`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing was put.
    /// [`KeyInUse`](crate::Error::KeyInUse): if the task that has the key is still to be flushed, a
    /// crash may take it back.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions, WhenFull};
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let deferred = tube.deferred(WhenFull::Block);
    /// let tickets: Vec<_> = (0..100).map(|n| deferred.put(format!("job {n}"))).collect();
    /// for ticket in tickets {
    ///     ticket?.wait()?;
    /// }
    /// assert_eq!(tube.statistics()?.tasks.ready, 100);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put(&self, task: impl IntoPut<T>) -> Result<Ticket<Receipt>> {
        self.make(&PutTask { request: PutRequest::of(self.tube.encode(task)?) })
    }

    /// As [`Tube::put_many`].
    ///
    /// # Errors
    /// Those of [`Tube::put_many`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing was put.
    pub fn put_many(
        &self,
        tasks: impl IntoIterator<Item: IntoPut<T>>,
    ) -> Result<Ticket<Vec<Receipt>>> {
        let tasks = tasks.into_iter().map(|task| self.tube.encode(task));
        self.make(&PutMany { requests: PutRequest::many(tasks)? })
    }

    /// As [`Tube::restore_many`].
    ///
    /// # Errors
    /// As [`Tube::restore_many`]; here only those that are known before the flush.
    pub fn restore_many(
        &self,
        tasks: impl IntoIterator<Item = Restore>,
    ) -> Result<Ticket<Vec<Receipt>>> {
        self.make(&PutMany { requests: PutRequest::restored_many(tasks)? })
    }

    /// As [`Tube::ack`].
    ///
    /// # Errors
    /// Those of [`Tube::ack`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn ack(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make_held(id, &Ack { result: None })
    }

    /// As [`Tube::ack_many`]. The ticket has one result for each id.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn ack_many(&self, ids: &[u64]) -> Result<Ticket<Vec<Result<Receipt>>>> {
        self.make(&AckMany { by: self.tube.holder(), ids: ids.to_vec() })
    }

    /// As [`Claim::ack_deferred`](crate::Claim::ack_deferred), with this handle's `when_full`.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::WhenFull;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b"])?;
    ///
    /// let deferred = tube.deferred(WhenFull::Block);
    /// let acks: Vec<_> =
    ///     tube.take_many(10, None)?.into_iter().map(|job| deferred.ack_claim(job)).collect();
    /// for ack in acks {
    ///     ack?.wait()?;
    /// }
    /// # assert_eq!(tube.statistics()?.tasks.done, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack_claim(&self, claim: Claim<T>) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        claim.ack_deferred(self.when_full)
    }

    /// As [`Tube::release`].
    ///
    /// # Errors
    /// Those of [`Tube::release`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn release(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        if delay.is_zero() {
            return self.make_held(id, &Release {});
        }
        self.make_held(id, &ReleaseIn { delay: micros_ceil(delay) })
    }

    /// As [`Tube::touch`].
    ///
    /// # Errors
    /// Those of [`Tube::touch`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn touch(&self, id: u64, by: Duration) -> Result<Ticket<Option<Receipt>>> {
        if by.is_zero() {
            return Ok(Ticket::answered(None));
        }
        Ok(self.make_held(id, &Touch { more: micros_ceil(by) })?.map(Some))
    }

    /// As [`Tube::bury`], except that a missing task is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::bury`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound): the task is not there; if its ack or delete is still
    /// to be flushed, a crash may bring it back.
    pub fn bury(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&Bury { id })
    }

    /// As [`Tube::kick_task`].
    ///
    /// # Errors
    /// As [`Tube::kick_task`]; here only those that are known before the flush.
    pub fn kick_task(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&KickTask { id })
    }

    /// As [`Tube::kick`], with one commit: kicks at most 512 tasks in one call. The ticket has the
    /// number of kicked tasks.
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::WhenFull;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # let id = tube.put("to: nobody")?.id;
    /// # tube.bury(id)?;
    /// assert_eq!(tube.deferred(WhenFull::Block).kick(10)?.wait()?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn kick(&self, count: u64) -> Result<Ticket<u64>> {
        self.make(&Kick { count })
    }

    /// As [`Tube::revoke`], without waiting for the flush.
    ///
    /// # Errors
    /// Those of [`Tube::revoke`]; [`Overloaded`](crate::Error::Overloaded).
    pub fn revoke(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&Revoke { id })
    }

    /// As [`Tube::delete`], except that a missing task is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::delete`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn delete(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&Delete { id })
    }

    /// As [`Tube::truncate`].
    ///
    /// # Errors
    /// Those of every call, and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn truncate(&self) -> Result<Ticket<()>> {
        self.make(&Truncate {})
    }

    pub(super) fn make<V: Decide<On = InTube>>(&self, verb: &V) -> Result<Ticket<V::Answer>> {
        let Deferred { tube, when_full } = self;
        tube.handle()
            .make_deferred(tube.buffer(), *when_full, tube.as_target(), verb)
            .map(Ticket::new)
    }

    pub(super) fn make_held<V: Decide<On = OfClaim>>(
        &self,
        id: u64,
        verb: &V,
    ) -> Result<Ticket<V::Answer>> {
        let Deferred { tube, when_full } = self;
        let on = tube.claimed(id);
        tube.handle().make_deferred(tube.buffer(), *when_full, on, verb).map(Ticket::new)
    }
}
