//! Calls whose answer is fetched later, so that one thread keeps hundreds in flight.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::core::{Core, Decided, Holder, PutRequest};
use crate::handle::StoreHandle;
use crate::micros::micros_ceil;
use crate::{Claim, Put, Receipt, Restore, Result, Tube, WhenFull};

impl Tube {
    /// The verbs that answer before their flush, with a [`Ticket`](crate::Ticket) for it; so that one
    /// thread has many under way.
    #[must_use]
    pub fn deferred(&self, when_full: WhenFull) -> Deferred {
        Deferred::new(self.clone(), when_full)
    }
}

impl Claim {
    /// As [`ack`](Claim::ack), without waiting for the flush: that is the ticket's affair.
    ///
    /// The claim has ended once this returns; a crash before the flush may bring the task back.
    /// If too much waits to be written, it waits for room or is refused, as asked.
    ///
    /// # Errors
    /// As [`ack`](Claim::ack), and [`Overloaded`](crate::Error::Overloaded) if it is not to be
    /// held up; the task is released then.
    ///
    /// # Example: the next job while the last is being flushed
    /// ```
    /// use tubewell::WhenFull;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b"])?;
    ///
    /// let mut tickets = Vec::new();
    /// while let Some(job) = tube.try_take()? {
    ///     tickets.push(job.ack_deferred(WhenFull::Block)?);
    /// }
    /// for ticket in tickets {
    ///     ticket.wait()?;
    /// }
    /// # assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack_deferred(mut self, when_full: WhenFull) -> Result<Ticket<Receipt>> {
        let (number, by, id) = self.who();
        let decided = self.handle.inner().defer(self.grant.buffer, when_full, |core| {
            core.check_open().and_then(|()| core.ack(number, by, id))
        })?;
        self.held = false;
        Ok(Ticket::decided(self.handle.clone(), decided))
    }
}

/// A tube's verbs, deferred; see [`Tube::deferred`].
///
/// Each call is decided before it returns: refusals come at once, and what is decided keeps its
/// order. What it changed survives a crash once its [`Ticket`] is answered, and takers see it then;
/// in a relaxed or temporary tube both are as there, and the ticket is answered already. When too
/// much waits to be written, see [`StoreOptions::max_pending`](crate::StoreOptions::max_pending), a
/// call waits for room or is refused, as asked.
#[derive(Clone, Debug)]
pub struct Deferred {
    tube: Tube,
    when_full: WhenFull,
}

impl Deferred {
    pub(crate) fn new(tube: Tube, when_full: WhenFull) -> Deferred {
        Deferred { tube, when_full }
    }

    /// As [`Tube::put`].
    ///
    /// # Errors
    /// As [`Tube::put`]; here only those that are known before the flush.
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
    pub fn put(&self, task: impl Into<Put>) -> Result<Ticket<Receipt>> {
        let request = self.request(task.into())?;
        self.defer(|core, number| core.put(number, &request))
    }

    /// As [`Tube::put_many`].
    ///
    /// # Errors
    /// As [`Tube::put_many`]; here only those that are known before the flush.
    pub fn put_many<T: Into<Put>>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> Result<Ticket<Vec<Receipt>>> {
        let requests = PutRequest::many(tasks, self.tube.max_body())?;
        self.defer(|core, number| core.put_many(number, &requests))
    }

    /// As [`Tube::restore_many`].
    ///
    /// # Errors
    /// As [`Tube::restore_many`]; here only those that are known before the flush.
    pub fn restore_many(
        &self,
        tasks: impl IntoIterator<Item = Restore>,
    ) -> Result<Ticket<Vec<Receipt>>> {
        let requests = PutRequest::restored_many(tasks, self.tube.max_body())?;
        self.defer(|core, number| core.put_many(number, &requests))
    }

    /// As [`Tube::ack`].
    ///
    /// # Errors
    /// As [`Tube::ack`]; here only those that are known before the flush.
    pub fn ack(&self, id: u64) -> Result<Ticket<Receipt>> {
        let by = self.by();
        self.defer(|core, number| core.ack(number, by, id))
    }

    /// As [`Claim::ack`].
    ///
    /// # Errors
    /// As [`Claim::ack`]; here only those that are known before the flush. After
    /// [`Overloaded`](crate::Error::Overloaded) the claim is dropped, and its task ready.
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
    pub fn ack_claim(&self, claim: Claim) -> Result<Ticket<Receipt>> {
        claim.ack_deferred(self.when_full)
    }

    /// As [`Tube::release`].
    ///
    /// # Errors
    /// As [`Tube::release`]; here only those that are known before the flush.
    pub fn release(&self, id: u64, delay: Duration) -> Result<Ticket<Receipt>> {
        let by = self.by();
        self.defer(|core, number| core.release(number, by, id, micros_ceil(delay)))
    }

    /// As [`Tube::bury`].
    ///
    /// # Errors
    /// As [`Tube::bury`]; here only those that are known before the flush.
    pub fn bury(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.defer(|core, number| core.bury(number, id))
    }

    /// As [`Tube::kick_task`].
    ///
    /// # Errors
    /// As [`Tube::kick_task`]; here only those that are known before the flush.
    pub fn kick_task(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.defer(|core, number| core.kick_task(number, id))
    }

    /// As [`Tube::delete`].
    ///
    /// # Errors
    /// As [`Tube::delete`]; here only those that are known before the flush.
    pub fn delete(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.defer(|core, number| core.delete(number, id))
    }

    fn by(&self) -> Holder {
        Holder { session: self.tube.session(), epoch: None }
    }

    fn request(&self, put: Put) -> Result<PutRequest> {
        PutRequest::new(put, self.tube.max_body())
    }

    fn defer<T>(
        &self,
        decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>,
    ) -> Result<Ticket<T>> {
        let tube = &self.tube;
        let decided = tube.inner().defer(tube.buffer(), self.when_full, |core| {
            tube.check(core)?;
            decide(core, tube.number())
        })?;
        Ok(Ticket::decided(tube.handle().clone(), decided))
    }
}

/// The answer to a deferred call, once the flush that holds it is done. Wait for it on a thread,
/// or await it.
///
/// Dropping a ticket forgets the answer, not the call: it is carried out all the same, and flushed.
/// A ticket keeps the store open, as every handle does; one that outlives a
/// [`close`](crate::Store::close) has its answer.
///
/// # Example: awaited
/// ```
/// use tubewell::{Result, Tube, WhenFull};
///
/// async fn enqueue(jobs: &Tube, names: &[&str]) -> Result<()> {
///     let deferred = jobs.deferred(WhenFull::Refuse);
///     let mut tickets = Vec::new();
///     for name in names {
///         tickets.push(deferred.put(*name)?);
///     }
///     for ticket in tickets {
///         ticket.await?; // on the disk
///     }
///     Ok(())
/// }
/// ```
#[must_use = "an answer that nobody fetches may be an error"]
pub struct Ticket<T> {
    handle: StoreHandle,
    decided: Option<Decided<T>>,
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<T> Ticket<T> {
    pub(crate) fn decided(handle: StoreHandle, decided: Decided<T>) -> Ticket<T> {
        Ticket { handle, decided: Some(decided) }
    }

    /// Waits for the flush that holds the call.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the call is applied once the
    /// storage works again, or, if the process ends before that, wholly or not at all.
    /// [`Closed`](crate::Error::Closed): the answer has been fetched already.
    pub fn wait(mut self) -> Result<T> {
        match self.decided.take() {
            Some(decided) => self.handle.inner().wait_deferred(decided),
            None => Err(crate::Error::Closed),
        }
    }

    /// Whether the answer is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.decided {
            Some(Decided { wait: Some((_, batch)), .. }) => batch.outcome().is_some(),
            _ => true,
        }
    }
}

/// Nothing in a ticket is pinned.
impl<T> Unpin for Ticket<T> {}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let ticket = self.get_mut();
        let Some(decided) = ticket.decided.take() else {
            return Poll::Ready(Err(crate::Error::Closed));
        };
        if let Some((_, batch)) = &decided.wait {
            match batch.poll(context.waker()) {
                Poll::Ready(outcome) => return Poll::Ready(outcome.map(|()| decided.answer)),
                Poll::Pending => {
                    ticket.decided = Some(decided);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(decided.answer))
    }
}
