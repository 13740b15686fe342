//! Calls on the tasks that a session has taken, by their ids; and the end of all claims of a tube.

use std::time::Duration;

use super::Tube;
use crate::core::Holder;
use crate::core::list::{Ack, AckMany, Release, ReleaseAll, ReleaseIn, Renew, Touch};
use crate::micros::micros_ceil;
use crate::{Mode, Receipt, Result};

impl<T, M: Mode> Tube<T, M> {
    /// Finishes a task that this handle's session has taken: it is removed. As
    /// [`Claim::ack`](crate::Claim::ack), by id.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the session has no claim on it.
    /// [`SessionEnded`](crate::Error::SessionEnded). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`Claim::ack`](crate::Claim::ack).
    ///
    /// # Example: a claim that was left to the session
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put("work")?;
    /// let task = tube.try_take()?.unwrap().detach();
    /// tube.ack(task.info.id)?;
    /// # assert_eq!(tube.statistics()?.tasks.done, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "acknowledge")]
    #[doc(alias = "complete")]
    pub fn ack(&self, id: u64) -> M::Answer<Receipt> {
        self.make_held(id, Ack { result: None })
    }

    /// Finishes many tasks that this handle's session has taken, with one commit.
    ///
    /// Returns one result for each id, in their order. A task that the session has not taken does
    /// not affect the others. Once this returns, the acked tasks do not come back after a killed
    /// process or a power cut. The call blocks for one flush.
    ///
    /// # Errors
    /// Those of every call, for all tasks. The single results have the errors of
    /// [`ack`](Tube::ack).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Receipt, Result};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().detach();
    /// let acked: Vec<Result<Receipt>> = tube.ack_many(&[id, 99])?;
    /// assert!(acked[0].is_ok());
    /// assert_eq!(acked[1], Err(Error::NotTaken { id: 99 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ack_many(&self, ids: &[u64]) -> M::Answer<Vec<Result<Receipt>>> {
        self.make(AckMany { by: self.holder(), ids: ids.to_vec() })
    }

    /// Gives back a task that this handle's session has taken: ready in its old place, or ready
    /// after `delay`. As [`Claim::release`](crate::Claim::release), by id.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`SessionEnded`](crate::Error::SessionEnded);
    /// [`Unsupported`](crate::Error::Unsupported): the driver has no delays. Nothing changed: the
    /// task is still taken.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::TaskState;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().detach();
    /// assert_eq!(tube.release(id, Duration::from_secs(60))?.state, TaskState::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn release(&self, id: u64, delay: Duration) -> M::Answer<Receipt> {
        if delay.is_zero() {
            return self.make_held(id, Release {});
        }
        self.make_held(id, ReleaseIn { delay: micros_ceil(delay) })
    }

    /// Extends the claim, the ttr and the ttl of a task that this handle's session has taken, by
    /// `by` each. As [`Claim::touch`](crate::Claim::touch), by id.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`SessionEnded`](crate::Error::SessionEnded),
    /// [`Unsupported`](crate::Error::Unsupported). Nothing changed.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Put;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// let id = tube.put(Put::new("work").ttr(Duration::from_secs(60)))?.id;
    /// tube.try_take()?.unwrap().detach();
    /// tube.touch(id, Duration::from_secs(30))?;
    /// assert_eq!(tube.peek(id)?.info.ttr, Some(Duration::from_secs(90)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn touch(&self, id: u64, by: Duration) -> M::Answer<Option<Receipt>> {
        if by.is_zero() {
            return M::answer(Ok(None));
        }
        M::map(self.make_held(id, Touch { more: micros_ceil(by) }), Some)
    }

    /// Sets the claim on a task that this handle's session has taken to expire `hold` from now
    /// (heartbeat). As [`Claim::renew`](crate::Claim::renew), by id. Does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`SessionEnded`](crate::Error::SessionEnded),
    /// [`Unsupported`](crate::Error::Unsupported). Nothing changed.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().detach();
    /// tube.renew(id, Duration::from_secs(60))?; // every 30 seconds, for example
    /// # assert!(tube.peek(id)?.info.due_in <= Some(Duration::from_secs(60)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "heartbeat")]
    #[doc(alias = "visibility timeout")]
    pub fn renew(&self, id: u64, hold: Duration) -> M::Answer<()> {
        self.make_held(id, Renew { hold: micros_ceil(hold) })
    }

    /// Makes every taken task of the tube ready, whichever session has taken it, and returns how
    /// many. Their claims have ended: later calls of the holders return
    /// [`NotTaken`](crate::Error::NotTaken). The attempts count, as after
    /// [`release`](Tube::release).
    ///
    /// The call does not block. Most claims are in memory only, and end with the process anyway. The
    /// end of a claim that was [parked](crate::Claim::park), and the burial of a task whose last
    /// [attempt](crate::TubeOptions::max_attempts) this was, are flushed within 50 ms, in a written or
    /// relaxed tube within its delay. After a crash before that, the claim is parked again, and the
    /// attempt is lost. [`revoke`](Tube::revoke) blocks until the end of a parked claim is stored.
    ///
    /// The call releases up to 512 tasks under one hold of the lock. Tasks that are taken meanwhile
    /// stay taken.
    ///
    /// # Errors
    /// Those of every call; some tasks may have been released.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// let hung = tube.try_take()?.unwrap();
    /// assert_eq!(tube.release_all()?, 1);
    /// assert_eq!(hung.ack(), Err(Error::NotTaken { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release_all(&self) -> M::Answer<u64> {
        self.end_all(false)
    }

    /// As [`release_all`](Tube::release_all), and forgives the attempts: for claims that must end
    /// through no fault of the tasks, such as those of workers that are replaced. See
    /// [`revoke`](Tube::revoke).
    ///
    /// # Errors
    /// Those of every call; some claims may have ended.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new().max_attempts(1))?;
    /// jobs.put("work")?;
    /// let worker = jobs.try_take()?;
    /// assert_eq!(jobs.revoke_all()?, 1);
    /// assert!(jobs.try_take()?.is_some()); // its only attempt is still there
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn revoke_all(&self) -> M::Answer<u64> {
        self.end_all(true)
    }

    fn end_all(&self, forgive: bool) -> M::Answer<u64> {
        let tube = self.to_bytes().to_async();
        M::run(async move {
            let mut left = tube.statistics().await?.tasks.taken;
            let (mut ended, mut outcome) = (0, Ok(()));
            // In steps, so that other calls get the lock in between.
            while left > 0 {
                let limit = usize::try_from(left).unwrap_or(usize::MAX);
                let (now, step) = tube.make(ReleaseAll { limit, forgive }).await?;
                outcome = outcome.and(step);
                if now == 0 {
                    break;
                }
                ended += now;
                left = left.saturating_sub(now);
            }
            outcome.map(|()| ended)
        })
    }

    pub(crate) fn holder(&self) -> Holder {
        Holder { session: self.session, epoch: None }
    }
}
