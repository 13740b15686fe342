//! Putting tasks into a tube.

use std::time::Duration;

use super::{Admin, Tube};
use crate::base::micros::{micros_ceil, within};
use crate::core::list::{PutMany, PutOrWait, PutTask};
use crate::core::{PutInto, PutRequest};
use crate::handle::store_handle::StoreHandle;
use crate::values::put::Encoded;
use crate::values::restore::Restore;
use crate::{IntoPut, Mode, Receipt, Result};

impl<T, M: Mode> Tube<T, M> {
    /// Puts a task: it is ready, or delayed if it has a delay.
    ///
    /// Once this returns, the task survives a killed process and a power cut. The call blocks for a
    /// flush, and takers see the task after it. In a written tube the task survives a killed
    /// process, the call blocks for a write, and takers may see the task before it returns. In a
    /// relaxed or temporary tube the call does not block. A put into a full tube, or into one where
    /// other puts wait for space, fails immediately; [`put_timeout`](Tube::put_timeout) waits.
    ///
    /// # Errors
    /// [`Full`](crate::Error::Full); [`Unsupported`](crate::Error::Unsupported) for an option that the driver
    /// does not have; [`Invalid`](crate::Error::Invalid) for a body or a name over its limit;
    /// [`Codec`](crate::Error::Codec) for a value that cannot be encoded;
    /// [`DriverUnknown`](crate::Error::DriverUnknown); [`DiskFull`](crate::Error::DiskFull);
    /// [`KeyInUse`](crate::Error::KeyInUse): no crash makes it untrue if the task that has the key is
    /// in a tube with durability flush, and no killed process if it is in a written one. Nothing was
    /// put. After [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the task may be there; a put with an
    /// [`idempotency_key`](crate::Put::idempotency_key) can be made again.
    ///
    /// # Example: an urgent task, in an hour
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("mail")?;
    /// let later = tube.put(Put::new("reminder").delay(Duration::from_secs(3600)).priority(0))?;
    /// assert_eq!(later.state, TaskState::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "enqueue")]
    #[doc(alias = "push")]
    #[doc(alias = "send")]
    pub fn put(&self, task: impl IntoPut<T>) -> M::Answer<Receipt> {
        let put = self.encode(task);
        self.make_checked(put.map(|put| PutTask { request: PutRequest::of(put) }))
    }

    /// Puts a task as [`put`](Tube::put) does, and waits while the tube is full. The delay and the
    /// ttl of the task begin when it is put.
    ///
    /// Waits for space at most for `timeout`: without a limit with `Duration::MAX`, not at all with zero. The
    /// timeout begins when the put begins to wait. Waiting puts are served first come, first
    /// served, each when a task has left the tube; nothing polls. The call then blocks for a flush,
    /// and the task survives what a put survives. A put that still waits for space ends with the
    /// process.
    ///
    /// # Errors
    /// Those of [`put`](Tube::put); [`Full`](crate::Error::Full) when the timeout elapses;
    /// [`SessionEnded`](crate::Error::SessionEnded), [`Closed`](crate::Error::Closed). Nothing was put.
    ///
    /// # Example: back pressure
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Error, LIMFIFOTTL, Store, TubeOptions};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.open_tube("uploads", TubeOptions::new().capacity(1).driver(LIMFIFOTTL))?;
    /// tube.put("a.jpg")?;
    /// let late = tube.put_timeout("b.jpg", Duration::from_millis(5));
    /// assert!(matches!(late, Err(Error::Full { .. })));
    ///
    /// std::thread::scope(|scope| {
    ///     let producer = scope.spawn(|| tube.put_timeout("b.jpg", Duration::MAX));
    ///     tube.take()?.ack()?; // frees space
    ///     producer.join().unwrap()
    /// })?;
    /// assert_eq!(tube.take()?.body(), b"b.jpg");
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "back pressure")]
    pub fn put_timeout(&self, task: impl IntoPut<T>, timeout: Duration) -> M::Answer<Receipt> {
        let put = self.encode(task);
        self.make_checked(put.map(|put| self.put_or_wait(put, within(timeout))))
    }

    fn put_or_wait(&self, put: Encoded, timeout: Option<Duration>) -> PutOrWait {
        let timeout = timeout.map(micros_ceil);
        PutOrWait { request: PutRequest::of(put), session: self.session, timeout }
    }

    /// Puts up to 100,000 tasks and 256 MiB with one commit, or none of them.
    ///
    /// Takers see all of them at the same time, and their ids are in the given order. A
    /// [key](crate::Put::key) or an [idempotency key](crate::Put::idempotency_key) of one of them is seen by
    /// those behind it. Once this returns, they survive a killed process and a power cut. After a crash
    /// before that, all are there or none. The call blocks for one flush, and does not wait for space in a
    /// full tube.
    ///
    /// # Errors
    /// Those of [`put`](Tube::put) for any of the tasks; [`Invalid`](crate::Error::Invalid) for too many;
    /// [`Full`](crate::Error::Full) if there is no space for all. Nothing was put. After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) all may be there.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("jobs")?;
    /// let receipts = tube.put_many((0..1000).map(|n| format!("job {n}")))?;
    /// assert!(receipts.iter().all(|receipt| receipt.commit == receipts[0].commit));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put_many(&self, tasks: impl IntoIterator<Item: IntoPut<T>>) -> M::Answer<Vec<Receipt>> {
        let tasks = tasks.into_iter().map(|task| self.encode(task));
        self.make_checked(PutRequest::many(tasks).map(|requests| PutMany { requests }))
    }

    /// A put that is part of another call on this store.
    pub(crate) fn put_into(&self, handle: &StoreHandle, put: Result<Encoded>) -> Result<PutInto> {
        self.check_store(handle)?;
        let request = PutRequest::new(put?, handle.max_body())?;
        Ok(PutInto { tube: self.number(), name: self.shared_name(), request })
    }
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Puts back tasks of another store with one commit, or none of them: with their ids, their
    /// counts of takes, and buried or done if they were. Up to 100,000 tasks and 256 MiB.
    ///
    /// It is [`put_many`](Tube::put_many) otherwise: what is seen, what survives, what it waits for,
    /// what is counted. [`salvage`](crate::StoreOptions::salvage) reads such tasks.
    ///
    /// An id is unique in the store and is never used again. So an id can be restored if no task was
    /// restored with it, and no task was given it or a higher one by a put, or by a restore without
    /// an id. All ids can be restored into a new store, in any order and into several tubes, until the
    /// first put or the next open. After that only ids from [`StoreAdmin::next_id`](crate::expert::StoreAdmin::next_id)
    /// on can be. Puts that follow get ids above all that were restored. Each restored id takes up
    /// some 16 bytes of memory until the first put or the close.
    ///
    /// # Errors
    /// As [`put_many`](Tube::put_many); [`IdUsed`](crate::Error::IdUsed);
    /// [`NotFound`](crate::Error::NotFound) for a parent that is not restored yet;
    /// [`Invalid`](crate::Error::Invalid) for a buried task with a delay, an id above 2⁶⁰, or a done
    /// task in a tube that does not [keep](crate::TubeOptions::keep_done) what is done. Nothing was
    /// put.
    ///
    /// # Example
    /// ```
    /// use tubewell::expert::Restore;
    /// use tubewell::{Error, TaskState};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// tube.admin().restore_many([Restore::new("b").id(17).takes(2), Restore::new("a").id(4).buried(true)])?;
    /// assert_eq!(tube.query().task(4)?.info.state, TaskState::Buried);
    /// assert_eq!(tube.query().task(17)?.info.takes, 2);
    /// assert_eq!(tube.put("c")?.id, 18);
    ///
    /// let late = tube.admin().restore_many([Restore::new("d").id(5)]);
    /// assert_eq!(late, Err(Error::IdUsed { id: 5 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn restore_many(
        &self,
        tasks: impl IntoIterator<Item = Restore>,
    ) -> M::Answer<Vec<Receipt>> {
        let requests = PutRequest::restored_many(tasks);
        self.tube.make_checked(requests.map(|requests| PutMany { requests }))
    }
}
