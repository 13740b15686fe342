//! Waiting for the end of tasks, of one task or of all tasks of a tube; and for a task to take.

use std::time::Duration;

use super::Tube;
use crate::base::micros::{micros_ceil, within};
use crate::connection::Request;
use crate::core::list::{PutAndWait, WaitDone, WaitDrained};
use crate::core::verb::{Begun, TubeName};
use crate::core::{Decided, PutRequest};
use crate::handle::store_handle::StoreHandle;
use crate::handle::{call, take};
use crate::runtime::open_store::LocalHandle;
use crate::{Ending, IntoPut, Mode, Receipt, Result};

impl<T, M: Mode> Tube<T, M> {
    /// Waits for the end of a task, and returns how it ended: acked, buried, deleted, or expired.
    ///
    /// Waits at most for `timeout`: without a limit with `Duration::MAX`, not at all with zero. Returns `None` when
    /// the timeout elapses. The wait ends when the end of the task is visible and, in a written
    /// tube, written. So in a tube with durability flush it ends after the flush: the answer
    /// survives what an ack survives. Nothing polls. Any number of callers may wait for one task.
    ///
    /// Call it before the task ends: then it returns the result also where nothing is kept. A task
    /// that has ended before returns what its tube keeps of it, immediately: [`Ending::Done`] with the
    /// result, [`Ending::Buried`], or [`Ending::Gone`]. An id that was skipped after a crash, or that
    /// is of a task of another tube, returns `Gone`. If the tube is truncated or dropped during the
    /// wait, the task has ended with `Gone`. A task that [advances](crate::Outcome::advance) or is
    /// [moved](crate::Admin::move_to) to another tube has not ended: the wait goes on there.
    /// [`put_and_wait`](Tube::put_and_wait) misses no end.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) if the id was never assigned;
    /// [`SessionEnded`](crate::Error::SessionEnded), [`Closed`](crate::Error::Closed) and
    /// [`Unavailable`](crate::Error::Unavailable) also end a wait. The task is not affected.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Ending, Store};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("thumbnails")?;
    /// let id = tube.put("cat.jpg")?.id;
    /// assert_eq!(tube.wait_done(id, Duration::ZERO)?, None);
    ///
    /// let ended = std::thread::scope(|scope| {
    ///     let waiter = scope.spawn(|| tube.wait_done(id, Duration::MAX));
    ///     tube.take()?.bury(None)?;
    ///     waiter.join().unwrap()
    /// })?;
    /// assert!(matches!(ended, Some(Ending::Buried { .. })));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "await")]
    #[doc(alias = "join")]
    pub fn wait_done(&self, id: u64, timeout: Duration) -> M::Answer<Option<Ending>> {
        let timeout = within(timeout).map(micros_ceil);
        self.make(WaitDone { session: self.session, id, timeout })
    }

    /// Puts a task as [`put`](Tube::put) does, and waits for its end as
    /// [`wait_done`](Tube::wait_done) does. Returns the receipt of the put, and how the task ended:
    /// `None` when the timeout elapses.
    ///
    /// The wait begins with the put, so that no end is missed, however fast a worker is. The timeout begins
    /// then too, but the call always waits for the flush of the put. After a timeout the task is still in the
    /// tube. A put with an [`idempotency_key`](crate::Put::idempotency_key) that was seen waits for the end
    /// of the first task: [`Gone`](crate::Ending::Gone) if that has left the tube.
    ///
    /// # Errors
    /// Those of [`put`](Tube::put): nothing was put, unless the error is
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown).
    /// [`SessionEnded`](crate::Error::SessionEnded), [`Closed`](crate::Error::Closed) and
    /// [`Unavailable`](crate::Error::Unavailable) may also end the wait: the task was put then. A
    /// caller that needs the id in every case uses [`put`](Tube::put) and
    /// [`wait_done`](Tube::wait_done).
    ///
    /// # Example: a request and its answer
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Ending, Store};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("thumbnails")?;
    /// let (receipt, ending) = std::thread::scope(|scope| {
    ///     scope.spawn(|| tube.take()?.ack());
    ///     tube.put_and_wait("cat.jpg", Duration::from_secs(60))
    /// })?;
    /// assert_eq!((receipt.id, ending), (0, Some(Ending::Done { result: None })));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "rpc")]
    pub fn put_and_wait(
        &self,
        task: impl IntoPut<T>,
        timeout: Duration,
    ) -> M::Answer<(Receipt, Option<Ending>)> {
        let (session, timeout) = (self.session, within(timeout).map(micros_ceil));
        let request = self.encode(task).map(PutRequest::of);
        self.make_checked(request.map(|request| PutAndWait { session, request, timeout }))
    }

    /// Waits until no task of the tube is ready, taken or delayed. Buried tasks do not count.
    ///
    /// Waits at most for `timeout`: without a limit with `Duration::MAX`, not at all with zero. Returns whether the
    /// tube was drained: false when the timeout elapses. The call sees what
    /// [`statistics`](Tube::statistics) show, so it may return while a put is being flushed. After
    /// it has returned, other callers may have put tasks again. A tube that is truncated or dropped
    /// is drained. Nothing polls.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Error::SessionEnded), [`Closed`](crate::Error::Closed) and
    /// [`Unavailable`](crate::Error::Unavailable) also end a wait.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Store;
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("thumbnails")?;
    /// tube.put("cat.jpg")?;
    /// assert!(!tube.wait_drained(Duration::ZERO)?);
    ///
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| tube.take()?.ack());
    ///     tube.wait_drained(Duration::MAX)
    /// })?;
    /// assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn wait_drained(&self, timeout: Duration) -> M::Answer<bool> {
        let timeout = within(timeout).map(micros_ceil);
        let drained = self.make(WaitDrained { session: self.session, timeout });
        M::map(drained, |drained| drained.is_some())
    }

    /// Waits until the tube has a task that can be taken: until a [`try_take`](Tube::try_take)
    /// would return one. Takes nothing.
    ///
    /// Waits at most for `timeout`: without a limit with `Duration::MAX`, not at all with zero. Returns whether
    /// there was a task: false when the timeout elapses. A task that is taken, delayed, blocked or
    /// buried does not end the wait, nor does one behind a shut gate: a pause, a limit, a rate or a
    /// cooldown.
    /// Takes that wait come first: they get the tasks, and the wait ends when one is left. All
    /// callers that wait here return together. When this returns, another caller may have taken the
    /// task. Nothing polls.
    ///
    /// For a program that starts its workers when there is work, and not before.
    ///
    /// # Errors
    /// [`DriverUnknown`](crate::Error::DriverUnknown): register the driver first.
    /// [`TubeDropped`](crate::Error::TubeDropped), [`SessionEnded`](crate::Error::SessionEnded),
    /// [`Closed`](crate::Error::Closed) and [`Unavailable`](crate::Error::Unavailable) also end a
    /// wait.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Store;
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("films")?;
    /// assert!(!tube.wait_ready(Duration::ZERO)?);
    ///
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| tube.put("a film"));
    ///     tube.wait_ready(Duration::MAX)
    /// })?;
    /// let film = tube.try_take()?.unwrap(); // nothing was taken before
    /// # drop(film);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "poll")]
    pub fn wait_ready(&self, timeout: Duration) -> M::Answer<bool> {
        M::either(
            within(timeout),
            |timeout| self.to_blocking().block_until_ready(timeout),
            |timeout| self.to_bytes().await_ready(timeout),
        )
    }

    fn block_until_ready(&self, timeout: Option<Duration>) -> Result<bool> {
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => return owner.ask(&self.ready_request(timeout)),
        };
        let until = take::deadline(store, timeout);
        loop {
            match self.look_for_ready(store, until)? {
                Some(begun) => return Ok(store.inner()?.finish(begun)?.is_some()),
                // Expired tasks were removed. Their edits must not pile up.
                None => store.inner()?.wait_for_capacity(self.buffer())?,
            }
        }
    }

    async fn await_ready(self, timeout: Option<Duration>) -> Result<bool> {
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => return owner.request(&self.ready_request(timeout)).await,
        };
        let until = take::deadline(store, timeout);
        loop {
            match self.look_for_ready(store, until)? {
                Some(begun) => {
                    return Ok(call::answer(store, Decided::now(Ok(begun))).await?.is_some());
                }
                None => call::expiry(store, self.buffer()).await?,
            }
        }
    }

    fn ready_request(&self, timeout: Option<Duration>) -> Request {
        let (tube, timeout) = (TubeName::from(&self.head), timeout.map(micros_ceil));
        Request::WaitReady { tube, session: self.session, timeout }
    }

    /// Begins a wait for a task until this moment of running time. `None`: look again.
    fn look_for_ready(
        &self,
        store: &LocalHandle,
        until: Option<u64>,
    ) -> Result<Option<Begun<Option<Ending>>>> {
        store.wait_ready(self.as_target(), self.session, until)
    }
}
