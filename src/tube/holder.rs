//! Verbs on tasks that this handle's session holds, by their ids; and the end of all holds.

use std::time::Duration;

use super::Tube;
use crate::core::Holder;
use crate::micros::micros_ceil;
use crate::{Error, Receipt, Result};

/// How many claims are ended under one hold of the lock.
const RELEASE_STEP: usize = 512;

impl Tube {
    /// Finishes a task that this handle's session holds: it is gone; as [`Claim::ack`](crate::Claim::ack).
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the session does not hold it;
    /// [`SessionEnded`](crate::Error::SessionEnded). Nothing changed.
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
    pub fn ack(&self, id: u64) -> Result<Receipt> {
        let by = self.by();
        self.call(|core, number| core.ack(number, by, id))
    }

    /// Finishes many tasks that this handle's session holds, with one commit.
    ///
    /// Answers for each, in this order: one that the session does not hold does not bring the others
    /// back. Once this returns, those that were acked are gone for good, power cut or not. It waits
    /// for one flush.
    ///
    /// # Errors
    /// Those of every verb, for all of them. In the answers, those of [`ack`](Tube::ack).
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
    /// let answers: Vec<Result<Receipt>> = tube.ack_many(&[id, 99])?;
    /// assert!(answers[0].is_ok());
    /// assert_eq!(answers[1], Err(Error::NotTaken { id: 99 }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn ack_many(&self, ids: &[u64]) -> Result<Vec<Result<Receipt>>> {
        let (by, number) = (self.by(), self.head.number);
        self.call(|core, _| Ok(core.ack_many(ids.iter().map(|id| (number, by, *id)))))
    }

    /// Gives back a task that this handle's session holds: ready in its old place, or delayed; as
    /// [`Claim::release`](crate::Claim::release).
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`SessionEnded`](crate::Error::SessionEnded);
    /// [`Unsupported`](crate::Error::Unsupported) for a delay where the driver has none. Nothing
    /// changed: the task is taken still.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::State;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().detach();
    /// assert_eq!(tube.release(id, Duration::from_secs(60))?.state, State::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn release(&self, id: u64, delay: Duration) -> Result<Receipt> {
        let by = self.by();
        self.call(|core, number| core.release(number, by, id, micros_ceil(delay)))
    }

    /// Prolongs the hold, ttl and ttr of a task that this handle's session holds; as
    /// [`Claim::touch`](crate::Claim::touch).
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
    pub fn touch(&self, id: u64, by: Duration) -> Result<Option<Receipt>> {
        if by.is_zero() {
            return Ok(None);
        }
        let holder = self.by();
        self.call(|core, number| core.touch(number, holder, id, micros_ceil(by))).map(Some)
    }

    /// Sets the hold of a task that this handle's session holds to end so much from now; as
    /// [`Claim::renew`](crate::Claim::renew).
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
    /// tube.renew(id, Duration::from_secs(60))?; // every half a minute, say
    /// # assert!(tube.peek(id)?.info.due_in <= Some(Duration::from_secs(60)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn renew(&self, id: u64, hold: Duration) -> Result<()> {
        let by = self.by();
        self.inner().run(|core| {
            self.check(core)?;
            core.renew(self.head.number, by, id, micros_ceil(hold))
        })
    }

    /// Makes every taken task ready, whoever holds it; answers how many. Their claims have ended:
    /// what the holders still say is refused.
    ///
    /// Memory alone changes, and nothing is waited for. What is taken while it runs is spared.
    ///
    /// # Errors
    /// Those of every verb; some may have been released.
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
    pub fn release_all(&self) -> Result<u64> {
        let mut left = self.statistics()?.tasks.taken;
        let (mut released, mut outcome) = (0, Ok(()));
        // In steps, so that others get their turn; what is taken meanwhile is not released.
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(RELEASE_STEP).min(RELEASE_STEP);
            let (now, ended) = self.inner().run(|core| {
                self.check(core)?;
                Ok::<_, Error>(core.release_all(self.head.number, step))
            })?;
            outcome = outcome.and(ended);
            if now == 0 {
                break;
            }
            released += now;
            left = left.saturating_sub(now);
        }
        outcome.map(|()| released)
    }

    fn by(&self) -> Holder {
        Holder { session: self.session, epoch: None }
    }
}
