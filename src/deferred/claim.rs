//! Deferred calls of a claim. A call that is refused gives the claim back.

use std::fmt;
use std::time::Duration;

use tubewell_drivers::Body;

use crate::core::list::{Ack, AckClaims, BuryHeld, Checkpoint, Park, Release, ReleaseIn, Touch};
use crate::core::verb::{Decide, OfClaim};
use crate::micros::micros_ceil;
use crate::{Claim, ClaimToken, Error, Receipt, Result, Ticket, WhenFull};

/// A deferred call of a claim was refused. It holds the claim, which the call would have ended, and
/// the reason.
///
/// The refused call changed nothing, whatever the error. After [`Overloaded`](Error::Overloaded),
/// [`Unavailable`](Error::Unavailable) and [`Unsupported`](Error::Unsupported) the claim still
/// stands: make the call again later, or another one. After [`NotTaken`](Error::NotTaken),
/// [`SessionEnded`](Error::SessionEnded) and [`Closed`](Error::Closed) the claim has ended, and its
/// handle can only be dropped.
///
/// Dropping this drops the claim, which releases the task if the claim still stands. So does `?` in
/// a function that returns [`Error`].
///
/// # Example: ack again when there is space
/// ```
/// use tubewell::{Claim, Error, Result, Store, WhenFull};
///
/// async fn ack(store: &Store, mut claim: Claim) -> Result<()> {
///     loop {
///         match claim.ack_deferred(WhenFull::Refuse) {
///             Ok(ticket) => return ticket.await.map(drop),
///             Err(refused) if *refused.error() == Error::Overloaded => {
///                 claim = refused.into_claim();
///                 store.capacity_async().await?;
///             }
///             Err(refused) => return Err(refused.into()),
///         }
///     }
/// }
/// ```
#[must_use = "dropping this releases the task of the claim"]
pub struct Refused<C = Claim> {
    claim: Box<C>,
    error: Error,
}

impl<C> Refused<C> {
    pub(crate) fn new(claim: C, error: Error) -> Refused<C> {
        Refused { claim: Box::new(claim), error }
    }

    /// Why the call was refused.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The claim.
    #[must_use]
    pub fn claim(&self) -> &C {
        &self.claim
    }

    /// Gives the claim back.
    #[must_use]
    pub fn into_claim(self) -> C {
        *self.claim
    }

    /// Gives the claim back, with the error.
    #[must_use]
    pub fn into_parts(self) -> (C, Error) {
        (*self.claim, self.error)
    }
}

impl<C> fmt::Debug for Refused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<C> fmt::Display for Refused<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<C> std::error::Error for Refused<C> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Drops the claim, which releases its task.
impl<C> From<Refused<C>> for Error {
    fn from(refused: Refused<C>) -> Error {
        refused.error
    }
}

impl<T> Claim<T> {
    /// As [`ack`](Claim::ack), but returns once the call is decided. The [`Ticket`] has the answer
    /// after the flush.
    ///
    /// The claim has ended once this returns a ticket. The task does not come back after a killed
    /// process or a power cut once the ticket is answered; a crash before that may bring it back.
    /// While the write buffer is full ([`max_pending`](crate::StoreOptions::max_pending)), the call
    /// blocks or is refused, as `when_full` says.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with [`NotTaken`](Error::NotTaken), an error of every
    /// call, or [`Overloaded`](Error::Overloaded) with [`WhenFull::Refuse`]. Nothing changed.
    ///
    /// # Example: work on the next job during the flush
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
    pub fn ack_deferred(self, when_full: WhenFull) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        self.make_end_deferred(when_full, &Ack { result: None })
    }

    /// As [`release`](Claim::release), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush; without a delay it has it immediately.
    ///
    /// The claim has ended once this returns a ticket. The delay survives a killed process and a
    /// power cut once the ticket is answered; a crash before that leaves the task ready. While the
    /// write buffer is full, the call blocks or is refused, as `when_full` says.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with [`NotTaken`](Error::NotTaken),
    /// [`Unsupported`](Error::Unsupported) for a delay where the driver has none, an error of every
    /// call, or [`Overloaded`](Error::Overloaded) with [`WhenFull::Refuse`]. Nothing changed.
    ///
    /// # Example: retry in a minute
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{TaskState, WhenFull};
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// # tube.put("work")?;
    ///
    /// let job = tube.try_take()?.unwrap();
    /// let ticket = job.release_deferred(Duration::from_secs(60), WhenFull::Block)?;
    /// assert_eq!(ticket.wait()?.state, TaskState::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn release_deferred(
        self,
        delay: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        if delay.is_zero() {
            return self.make_end_deferred(when_full, &Release {});
        }
        self.make_end_deferred(when_full, &ReleaseIn { delay: micros_ceil(delay) })
    }

    /// As [`bury`](Claim::bury), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush.
    ///
    /// The claim has ended once this returns a ticket. The task stays buried after a killed process
    /// and a power cut once the ticket is answered; a crash before that leaves the task ready.
    /// While the write buffer is full, a call with a delay blocks or is refused, as `when_full` says.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, as [`ack_deferred`](Claim::ack_deferred) does.
    ///
    /// # Example
    /// ```
    /// use tubewell::{TaskState, WhenFull};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("work")?;
    ///
    /// let job = tube.try_take()?.unwrap();
    /// let ticket = job.bury_deferred(WhenFull::Block)?;
    /// assert_eq!(ticket.wait()?.state, TaskState::Buried);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn bury_deferred(self, when_full: WhenFull) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        self.make_end_deferred(when_full, &BuryHeld { failure: None })
    }

    /// As [`touch`](Claim::touch), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush; for zero it has `None` immediately.
    ///
    /// The claim has its new deadline once this returns. The longer ttl and ttr survive a killed
    /// process and a power cut once the ticket is answered. While the write buffer is full, the
    /// call blocks or is refused, as `when_full` says.
    ///
    /// # Errors
    /// Those of [`touch`](Claim::touch), and [`Overloaded`](Error::Overloaded) with
    /// [`WhenFull::Refuse`]. Nothing changed.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Put, WhenFull};
    /// # use tubewell::{FIFOTTL, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    ///
    /// tube.put(Put::new("work").ttr(Duration::from_secs(60)))?;
    /// let job = tube.try_take()?.unwrap();
    /// job.touch_deferred(Duration::from_secs(30), WhenFull::Block)?.wait()?;
    /// # assert_eq!(tube.peek(job.id())?.info.ttr, Some(Duration::from_secs(90)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn touch_deferred(
        &self,
        by: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<Option<Receipt>>> {
        if by.is_zero() {
            return Ok(Ticket::known(Ok(None)));
        }
        Ok(self.make_deferred(when_full, &Touch { more: micros_ceil(by) })?.map(Some))
    }

    /// As [`park`](Claim::park), without waiting for the flush.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back. Its error is one of those of [`park`](Claim::park), or
    /// [`Overloaded`](Error::Overloaded) with [`WhenFull::Refuse`].
    pub fn park_deferred(
        self,
        hold: Duration,
        when_full: WhenFull,
    ) -> Result<Ticket<ClaimToken>, Refused<Claim<T>>> {
        let (tube, id) = (self.tube().to_owned(), self.id());
        let parked = self.make_end_deferred(when_full, &Park { hold: micros_ceil(hold) })?;
        Ok(parked.map(move |epoch| ClaimToken { tube, id, epoch }))
    }

    /// As [`checkpoint`](Claim::checkpoint), without waiting for the flush. [`body`](Claim::body)
    /// returns the new body immediately.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Claim::checkpoint); [`Overloaded`](Error::Overloaded) with
    /// [`WhenFull::Refuse`]. The task has its old body.
    pub fn checkpoint_deferred(
        &mut self,
        value: impl Into<T>,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>> {
        let value = value.into();
        let checkpoint = Checkpoint { body: Body::new(self.encode(&value)?) };
        let stored = self.make_deferred(when_full, &checkpoint)?;
        self.set_body(value, checkpoint.body);
        Ok(stored)
    }

    /// As [`ack_many`](Claim::ack_many), but returns once the call is decided. The [`Ticket`] has
    /// one result for each claim after the flush.
    ///
    /// All claims have ended once this returns a ticket. While the write buffer is full, the call
    /// blocks or is refused, as `when_full` says.
    ///
    /// # Errors
    /// [`Refused`] gives all claims back, with [`Invalid`](Error::Invalid) for claims of two
    /// stores, an error of every call, or [`Overloaded`](Error::Overloaded) with
    /// [`WhenFull::Refuse`]. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Claim, WhenFull};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b"])?;
    ///
    /// let claims = tube.take_many(10, None)?;
    /// let ticket = Claim::ack_many_deferred(claims, WhenFull::Block)?;
    /// assert!(ticket.wait()?.iter().all(Result::is_ok));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[expect(clippy::type_complexity, reason = "each part is a type of its own")]
    pub fn ack_many_deferred(
        mut claims: Vec<Claim<T>>,
        when_full: WhenFull,
    ) -> Result<Ticket<Vec<Result<Receipt>>>, Refused<Vec<Claim<T>>>> {
        let Some(first) = claims.first() else { return Ok(Ticket::known(Ok(Vec::new()))) };
        let (handle, buffer) = (first.held.handle.clone(), first.held.grant.buffer);
        let keys = Claim::keys(&claims);
        let decided = Claim::check_one_store(&claims)
            .and_then(|()| handle.make_deferred(buffer, when_full, &keys[..], &AckClaims {}));
        match decided {
            Ok(decided) => {
                for claim in &mut claims {
                    claim.held.release_on_drop = false;
                }
                Ok(Ticket::promised(decided))
            }
            Err(error) => Err(Refused::new(claims, error)),
        }
    }

    pub(crate) fn make_end_deferred<V: Decide<On = OfClaim>>(
        mut self,
        when_full: WhenFull,
        verb: &V,
    ) -> Result<Ticket<V::Answer>, Refused<Claim<T>>> {
        match self.make_deferred(when_full, verb) {
            Ok(ticket) => {
                self.held.release_on_drop = false;
                Ok(ticket)
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }

    pub(super) fn make_deferred<V: Decide<On = OfClaim>>(
        &self,
        when_full: WhenFull,
        verb: &V,
    ) -> Result<Ticket<V::Answer>> {
        self.held.make_deferred(when_full, verb).map(Ticket::promised)
    }
}
