//! Putting tasks into a tube.

use std::time::Duration;

use super::Tube;
use crate::core::PutRequest;
use crate::micros::micros_ceil;
use crate::{Error, Put, Receipt, Restore, Result};

impl Tube {
    /// Puts a task: it is ready, or delayed if it was given a delay.
    ///
    /// Once this returns, the task survives a killed process and a power cut. It waits for a flush,
    /// and takers see the task after it; in a relaxed or temporary tube it waits for nobody. A tube
    /// that is full, or where others wait for room, refuses at once; see
    /// [`put_wait`](Tube::put_wait).
    ///
    /// # Errors
    /// [`Full`](Error::Full); [`Unsupported`](Error::Unsupported) for an option that the driver
    /// does not have; [`Invalid`](Error::Invalid) for a body or a name over its limit;
    /// [`DriverUnknown`](Error::DriverUnknown); [`DiskFull`](Error::DiskFull). Nothing was put.
    ///
    /// # Example: an urgent task, later
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFOTTL, Put, State, Store, TubeOptions};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("mail", FIFOTTL, TubeOptions::new())?;
    /// let later = tube.put(Put::new("reminder").delay(Duration::from_secs(3600)).pri(0))?;
    /// assert_eq!(later.state, State::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put(&self, task: impl Into<Put>) -> Result<Receipt> {
        let request = PutRequest::new(task.into(), self.max_body())?;
        self.call(|core, number| core.put(number, &request))
    }

    /// Puts a task as soon as there is room for it in a full tube: as [`put`](Tube::put) then, its
    /// delay and its life beginning in that moment.
    ///
    /// Waits for room as long as this or, with `None`, for ever; with zero not at all. Puts that
    /// wait are let in one by one, in order of arrival, each when a task has left the tube; nothing
    /// polls. Then it waits for its flush, and survives what a put survives; one that waits for room
    /// ends with the process.
    ///
    /// # Errors
    /// As [`put`](Tube::put); [`Full`](Error::Full) when the time is over,
    /// [`SessionEnded`](Error::SessionEnded), [`Closed`](Error::Closed). Nothing was put.
    ///
    /// # Example: a producer that is held up
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Error, LIMFIFOTTL, Store, TubeOptions};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("uploads", LIMFIFOTTL, TubeOptions::new().capacity(1))?;
    /// tube.put("a.jpg")?;
    /// let late = tube.put_wait("b.jpg", Duration::from_millis(5));
    /// assert!(matches!(late, Err(Error::Full { .. })));
    ///
    /// std::thread::scope(|scope| {
    ///     let producer = scope.spawn(|| tube.put_wait("b.jpg", None));
    ///     tube.take(None)?.unwrap().ack()?; // makes room
    ///     producer.join().unwrap()
    /// })?;
    /// assert_eq!(tube.take(None)?.unwrap().data(), b"b.jpg");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn put_wait(
        &self,
        task: impl Into<Put>,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Receipt> {
        let request = PutRequest::new(task.into(), self.max_body())?;
        let timeout = timeout.into().map(micros_ceil);
        let mut waiting = None;
        let put = self.call(|core, number| match core.put(number, &request) {
            Err(full @ Error::Full { .. }) if timeout != Some(0) => {
                core.check_session(self.session)?;
                waiting = Some(core.enqueue_put(number, self.session, request.clone(), timeout));
                Err(full)
            }
            other => other,
        });
        match waiting {
            None => put,
            Some(slot) => self.inner().wait_deferred(slot.wait()?),
        }
    }

    /// Puts all of these tasks with one commit, or none of them: up to 100,000 tasks and 256 MiB.
    ///
    /// Takers see them all together, and their ids are in this order. Once this returns, all of them
    /// survive a killed process and a power cut; after a crash before that, all are there or none. It
    /// waits for one flush, and not for room in a full tube.
    ///
    /// # Errors
    /// As [`put`](Tube::put), for any of them; [`Invalid`](Error::Invalid) for too many;
    /// [`Full`](Error::Full) if there is not room for all. Nothing was put.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let receipts = tube.put_many((0..1000).map(|n| format!("job {n}")))?;
    /// assert!(receipts.iter().all(|receipt| receipt.commit == receipts[0].commit));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put_many<T: Into<Put>>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Receipt>> {
        let requests = PutRequest::many(tasks, self.max_body())?;
        self.call(|core, number| core.put_many(number, &requests))
    }

    /// Puts back tasks of another store with one commit, or none of them: with their ids, their
    /// counts of takes, and buried if they were. Up to 100,000 tasks and 256 MiB.
    ///
    /// It is [`put_many`](Tube::put_many) otherwise: what is seen, what survives, what it waits for,
    /// what is counted. [`salvage`](crate::StoreOptions::salvage) reads such tasks.
    ///
    /// An id is unique in the store and is never used again. So an id can be restored if no task was
    /// restored with it, and no task was given it or a higher one by a put, or by a restore without
    /// an id. All ids can be restored into a new store, in any order and into several tubes, until the
    /// first put or the next open. After that only ids from [`Store::next_id`](crate::Store::next_id)
    /// on can be. Puts that follow get ids above all that were restored. Each restored id takes up
    /// some 16 bytes of memory until the first put or the close.
    ///
    /// # Errors
    /// As [`put_many`](Tube::put_many); [`IdUsed`](Error::IdUsed);
    /// [`Invalid`](Error::Invalid) for a buried task with a delay or an id above 2⁶⁰. Nothing was put.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Put, Restore, State};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// tube.restore_many([Restore::new("b").id(17).takes(2), Restore::new("a").id(4).buried(true)])?;
    /// assert_eq!(tube.peek(4)?.info.state, State::Buried);
    /// assert_eq!(tube.peek(17)?.info.takes, 2);
    /// assert_eq!(tube.put("c")?.id, 18);
    ///
    /// let late = tube.restore_many([Restore::new("d").id(5)]);
    /// assert_eq!(late, Err(Error::IdUsed { id: 5 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn restore_many(&self, tasks: impl IntoIterator<Item = Restore>) -> Result<Vec<Receipt>> {
        let requests = PutRequest::restored_many(tasks, self.max_body())?;
        self.call(|core, number| core.put_many(number, &requests))
    }
}
