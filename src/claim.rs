//! The handle of a taken task.

use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{Shelf, Value};

use crate::core::{Grant, Holder};
use crate::handle::{SessionGuard, StoreHandle};
use crate::micros::micros_ceil;
use crate::{Error, Receipt, Result, Task};

/// A task that was taken, and the claim on it.
///
/// Its verbs check the claim: once it has ended (its ttr is over, somebody buried or deleted the
/// task) they answer [`NotTaken`](crate::Error::NotTaken) and change nothing, even if the same
/// session holds the task again; once its session has ended they answer
/// [`SessionEnded`](crate::Error::SessionEnded). A verb that takes the handle and fails in another
/// way releases the task, as dropping the handle does. Dropping the handle releases the task
/// to its old place; [`detach`](Claim::detach) leaves the claim to the session instead.
#[must_use = "a claim that is dropped releases its task"]
pub struct Claim {
    pub(crate) handle: StoreHandle,
    keep: Option<Arc<SessionGuard>>,
    pub(crate) grant: Grant,
    /// The body is at its end.
    row: Value,
    /// The verbs that end the claim have not been called.
    pub(crate) held: bool,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim")
            .field("tube", &self.grant.name)
            .field("id", &self.grant.id)
            .finish_non_exhaustive()
    }
}

impl Claim {
    pub(crate) fn new(
        handle: StoreHandle,
        keep: Option<Arc<SessionGuard>>,
        grant: Grant,
        row: Value,
    ) -> Claim {
        Claim { handle, keep, grant, row, held: true }
    }

    /// The task.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.grant.id
    }

    /// Its body.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        let size = usize::try_from(self.grant.header.size).unwrap_or(usize::MAX);
        self.row.get(self.row.len().saturating_sub(size)..).unwrap_or_default()
    }

    /// The name of its tube.
    #[must_use]
    pub fn tube(&self) -> &str {
        &self.grant.name
    }

    /// How often it was taken, this time included. A take is written along with a later commit
    /// once the claim has ended, and at close; a process that is killed forgets the takes since,
    /// so a task that kills its worker may look less tried than it is. A
    /// [`touch`](Claim::touch) counts it at once.
    #[must_use]
    pub fn takes(&self) -> u32 {
        self.grant.header.takes
    }

    /// Its priority.
    #[must_use]
    pub fn pri(&self) -> u32 {
        self.grant.header.pri
    }

    /// Its sub-queue, if it was given one.
    #[must_use]
    pub fn sub_queue(&self) -> Option<&str> {
        Some(&*self.grant.header.sub).filter(|name| !name.is_empty())
    }

    /// The number of this claim: no other take has had it, in this or an earlier life.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.grant.epoch
    }

    /// Finishes the task: it is gone.
    ///
    /// With [`Durability::Flush`](crate::Durability::Flush) this waits for a flush, and the task
    /// does not come back once it returns, power cut or not. An ack that was accepted before the
    /// claim's deadline holds, however long the flush takes. In a relaxed or temporary tube it waits
    /// for nobody.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended, nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the task is gone once the
    /// storage works again, or, if the process ends before that, gone or back at the next open.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put("work")?;
    /// if let Some(claim) = tube.try_take()? {
    ///     claim.ack()?;
    /// }
    /// assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack(mut self) -> Result<Receipt> {
        let (number, by, id) = self.who();
        let acked = self.handle.inner().call(self.grant.buffer, |core| {
            core.check_open().and_then(|()| core.ack(number, by, id))
        });
        self.held = acked.is_err();
        acked
    }

    /// Finishes many tasks with one commit, of any tubes of one store.
    ///
    /// Answers for each, in this order: one stale claim does not bring the others back. Once this
    /// returns, those that were acked are gone for good, power cut or not. It waits for one flush.
    ///
    /// # Errors
    /// Those of every verb, for all: the claims are dropped and their tasks ready, but after
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown), see [`ack`](Claim::ack).
    /// [`Invalid`](crate::Error::Invalid) for claims of two stores. In the answers, those of
    /// [`ack`](Claim::ack).
    ///
    /// # Example
    /// ```
    /// use tubewell::Claim;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b"])?;
    ///
    /// let claims = tube.take_many(10, None)?;
    /// for answer in Claim::ack_many(claims)? {
    ///     println!("task {} is done", answer?.id);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack_many(mut claims: Vec<Claim>) -> Result<Vec<Result<Receipt>>> {
        let Some(first) = claims.first() else { return Ok(Vec::new()) };
        let (handle, buffer) = (first.handle.clone(), first.grant.buffer);
        if claims.iter().any(|claim| !claim.handle.is_same_store(&handle)) {
            return Err(Error::invalid("the claims of one ack_many belong to one store"));
        }
        let answers = handle.inner().call(buffer, |core| {
            core.check_open()?;
            Ok(core.ack_many(claims.iter().map(Claim::who)))
        });
        for claim in &mut claims {
            claim.held = answers.is_err();
        }
        answers
    }

    /// Gives the task back: ready in its old place, or delayed.
    ///
    /// Without a delay memory alone changes and no flush is waited for; after a crash the task is
    /// ready anyway. With one, the task sleeps, its life is prolonged by as much, and the call waits
    /// for the flush that holds it; the delay goes on after a killed process or a power cut.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): nothing changed;
    /// [`Unsupported`](crate::Error::Unsupported) for a delay where the driver has none: the claim is
    /// dropped, so the task is ready.
    ///
    /// # Example: again in a minute
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::State;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// # tube.put("work")?;
    ///
    /// let job = tube.try_take()?.unwrap();
    /// assert_eq!(job.release(Duration::from_secs(60))?.state, State::Delayed);
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn release(mut self, delay: Duration) -> Result<Receipt> {
        let (number, by, id) = self.who();
        let released = self.handle.inner().call(self.grant.buffer, |core| {
            core.check_open().and_then(|()| core.release(number, by, id, micros_ceil(delay)))
        });
        self.held = released.is_err();
        released
    }

    /// Sets the task aside: buried, until it is [kicked](crate::Tube::kick) or deleted, or its ttl is
    /// over.
    ///
    /// Waits for a flush as [`ack`](Claim::ack); once this returns, it is buried after a killed
    /// process and a power cut too.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended, nothing changed.
    ///
    /// # Example: three times is enough
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("work")?;
    /// let job = tube.try_take()?.unwrap();
    /// // ... it failed
    /// if job.takes() < 3 {
    ///     job.release(Duration::ZERO)?;
    /// } else {
    ///     job.bury()?;
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn bury(mut self) -> Result<Receipt> {
        let (number, by, id) = self.who();
        let buried = self.handle.inner().call(self.grant.buffer, |core| {
            core.check_open().and_then(|()| core.bury_claimed(number, by, id))
        });
        self.held = buried.is_err();
        buried
    }

    /// Prolongs the task's hold, its ttl and its ttr, all by as much. `None` for zero: nothing is
    /// checked or changed.
    ///
    /// The longer ttl and ttr are stored, and so is that the task was taken; it waits for a flush,
    /// and they survive a killed process and a power cut once it returns. For a heartbeat
    /// [`renew`](Claim::renew) is cheaper.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`Unsupported`](crate::Error::Unsupported) where the
    /// driver has no times. Nothing changed.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Put;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// tube.put(Put::new("work").ttr(Duration::from_secs(60)))?;
    /// let job = tube.try_take()?.unwrap();
    /// job.touch(Duration::from_secs(30))?; // 90 seconds from the take, and at every later take
    /// # assert_eq!(tube.peek(job.id())?.info.ttr, Some(Duration::from_secs(90)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn touch(&self, by: Duration) -> Result<Option<Receipt>> {
        if by.is_zero() {
            return Ok(None);
        }
        let (number, holder, id) = self.who();
        let touched = self.handle.inner().call(self.grant.buffer, |core| {
            core.check_open().and_then(|()| core.touch(number, holder, id, micros_ceil(by)))
        });
        touched.map(Some)
    }

    /// Sets the hold to end so much from now, earlier or later than before: a heartbeat.
    /// `Duration::MAX` is for ever. The task's life still ends at its time.
    ///
    /// Memory alone changes, nothing is waited for, and nothing of it survives the process: nor does
    /// the claim.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): stop working on it, somebody else may have it.
    /// [`Unsupported`](crate::Error::Unsupported): holds of this driver have no end.
    ///
    /// # Example: long work in short steps
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Put;
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// tube.put(Put::new("a film").ttr(Duration::from_secs(60)))?;
    /// let film = tube.try_take()?.unwrap();
    /// for part in 0..100 {
    ///     // ... a few seconds of work
    ///     film.renew(Duration::from_secs(60))?;
    /// }
    /// film.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn renew(&self, hold: Duration) -> Result<()> {
        let (number, by, id) = self.who();
        self.handle.inner().run(|core| {
            core.check_open()?;
            core.renew(number, by, id, micros_ceil(hold))
        })
    }

    /// Leaves the claim to the session: the task stays taken, and is finished by its id. Nothing is
    /// waited for.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("work")?;
    /// let task = tube.try_take()?.unwrap().detach();
    /// // ... somewhere else, with a handle of the same session
    /// tube.ack(task.info.id)?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn detach(mut self) -> Task {
        self.held = false;
        let data = self.data().to_vec();
        let info = self
            .handle
            .inner()
            .run(|core| core.describe(self.grant.id, Shelf::Ready, &self.grant.header));
        Task { info, data }
    }

    pub(crate) fn who(&self) -> (u32, Holder, u64) {
        let by = Holder { session: self.grant.session, epoch: Some(self.grant.epoch) };
        (self.grant.tube, by, self.grant.id)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.held {
            // A record that cannot be read stays claimed until its session ends.
            let _ = self
                .handle
                .inner()
                .run(|core| core.release_if_current(self.grant.id, self.grant.epoch));
        }
        // The session may end with this handle; it must not end before the task is released.
        self.keep = None;
    }
}
