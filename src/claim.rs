//! The handle of a taken task.

mod attempts;
mod collected;
mod history;
mod outcomes;
mod progress;
mod shared;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{Body, Value};

use crate::core::list::{
    Ack, AckClaims, BuryHeld, Checkpoint, Limit, Release, ReleaseIn, Renew, Touch,
};
use crate::core::verb::{Begin, Claimed, OfClaim};
use crate::core::{ClaimKey, Grant};
use crate::handle::{SessionGuard, StoreHandle};
use crate::micros::micros_ceil;
use crate::sync::Mutex;
use crate::{ClaimToken, Error, Owner, Receipt, Result, Task};

pub(crate) use collected::{Collected, GiveBack};

/// A taken task, and the claim (lease) on it.
///
/// A claim belongs to the session of the handle that took it, and lives in memory. It ends when the
/// task is acked, released, buried, deleted or moved, when its ttr or the task's ttl elapses, or when its
/// session ends. If the process dies, the task is ready at the next open: delivery is at least
/// once, so the work must be idempotent.
///
/// Dropping the handle releases the task to its old place. [`detach`](Claim::detach) leaves the
/// claim to the session instead.
///
/// # Errors
/// Each call checks this claim, and not only that the session has the task. After the claim has
/// ended, calls return [`NotTaken`](crate::Error::NotTaken) and change nothing, even if the same
/// session has taken the task again. After its session has ended, they return
/// [`SessionEnded`](crate::Error::SessionEnded).
///
/// [`ack`](Claim::ack), [`release`](Claim::release) and [`bury`](Claim::bury) consume the handle.
/// If they fail while the claim still stands, the handle is dropped and the task is released: it is
/// ready, and its work is done again. The deferred forms return the claim with the error instead;
/// see [`Refused`](crate::Refused).
#[must_use = "a claim that is dropped releases its task"]
#[doc(alias = "lease")]
#[doc(alias = "reservation")]
pub struct Claim {
    pub(crate) handle: StoreHandle,
    guard: Option<Arc<SessionGuard>>,
    pub(crate) grant: Grant,
    /// The body is at its end.
    row: Value,
    /// Whether dropping the handle releases the task.
    pub(crate) release_on_drop: bool,
    /// The names of the steps of this claim, so that none is named twice.
    pub(crate) step_names: Mutex<BTreeSet<Box<str>>>,
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
        guard: Option<Arc<SessionGuard>>,
        grant: Grant,
        row: Value,
    ) -> Claim {
        let step_names = Mutex::new(BTreeSet::new());
        Claim { handle, guard, grant, row, release_on_drop: true, step_names }
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.grant.id
    }

    /// The body of the task.
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

    /// How often the task was taken (attempts), this time included.
    ///
    /// The number is written with a later commit once the claim has ended, and at close. If the
    /// process is killed, the takes since the last commit are not counted, so a task that kills its
    /// worker may show fewer attempts. A [`touch`](Claim::touch) stores the number immediately.
    #[must_use]
    pub fn takes(&self) -> u32 {
        self.grant.header.takes
    }

    /// Its priority. 0 is the most urgent.
    #[must_use]
    pub fn pri(&self) -> u32 {
        self.grant.header.pri
    }

    /// Its sub-queue, if it has one.
    #[must_use]
    pub fn sub_queue(&self) -> Option<&str> {
        Some(&*self.grant.header.sub).filter(|name| !name.is_empty())
    }

    /// Its key, if it was put with one: a name for what the work must do once (idempotency key).
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.grant.header.more.as_ref()?.key.as_deref()
    }

    /// Its tags when it was taken, in the order in which they were added.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.grant.header.tags().iter().map(|tag| &**tag)
    }

    /// The number of this claim. No other take has it, in this run of the store or an earlier one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.grant.epoch
    }

    /// Whether the claim has not ended: the task was not released, buried or removed, neither the
    /// claim nor the task has expired, and the store was not closed. Reads memory and does not block.
    /// Through a connection it waits for the answer of the owner, and up to the timeout while there is
    /// no connection.
    ///
    /// The answer may be out of date when it returns. A call with the claim checks it again.
    ///
    /// # Errors
    /// Those of [`owner`](Claim::owner): whether the claim has ended is not known.
    ///
    /// # Example: stop work whose result nobody would accept
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// jobs.put(Put::new("work").ttr(Duration::from_secs(60)))?;
    /// let claim = jobs.try_take()?.unwrap();
    /// clock.advance(Duration::from_secs(59));
    /// assert!(claim.is_current()?);
    /// assert_eq!(claim.expires_in()?, Some(Duration::from_secs(1)));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(!claim.is_current()?);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn is_current(&self) -> Result<bool> {
        Ok(self.owner()?.is_some())
    }

    /// How long until the claim expires; `None` without a limit, and zero if the claim has ended.
    /// [`renew`](Claim::renew) sets it, [`touch`](Claim::touch) adds to it. Blocks as
    /// [`is_current`](Claim::is_current) does.
    ///
    /// # Errors
    /// Those of [`owner`](Claim::owner).
    pub fn expires_in(&self) -> Result<Option<Duration>> {
        Ok(self.owner()?.map_or(Some(Duration::ZERO), |owner| owner.expires_in))
    }

    /// Its session, and for how long it has held the task; `None` if the claim has ended, also
    /// because the store was closed. Blocks as [`is_current`](Claim::is_current) does.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store
    /// does not answer the connection. The claim may stand.
    pub fn owner(&self) -> Result<Option<Owner>> {
        Claim::ended_if_closed(self.handle.make(self.grant.buffer, (), &self.ask_owner()))
    }

    /// Finishes the task: it is removed.
    ///
    /// In a tube with [`Durability::Flush`](crate::Durability::Flush), the default, the task does
    /// not come back after a killed process or a power cut once this returns. The call blocks for a
    /// flush. In a tube with [`Durability::Write`](crate::Durability::Write) the task does not come
    /// back after a killed process, and the call blocks for a write. In a relaxed or temporary tube
    /// the call does not block; see [what survives a crash](crate::Tube#what-survives-a-crash). An
    /// ack before the claim's deadline is valid, however long the flush takes.
    /// [`ack_deferred`](Claim::ack_deferred) does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended; nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed. The ack is applied when
    /// the storage works again. If the process ends before that, the task is removed or ready at
    /// the next open. After any other error the task is released.
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
    #[doc(alias = "acknowledge")]
    #[doc(alias = "complete")]
    pub fn ack(self) -> Result<Receipt> {
        self.make_end(&Ack { result: None })
    }

    /// Finishes many tasks of any tubes of one store, with one commit.
    ///
    /// Returns one result for each claim, in their order. A claim that has ended does not affect
    /// the others. Once this returns, the acked tasks do not come back after a killed process or a
    /// power cut. The call blocks for one flush. [`ack_many_deferred`](Claim::ack_many_deferred)
    /// does not.
    ///
    /// # Errors
    /// An error of the whole call: all claims are dropped and their tasks released, except after
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown), where all may have been acked; see
    /// [`ack`](Claim::ack). [`Invalid`](crate::Error::Invalid): the claims are of two stores.
    /// The single results have the errors of [`ack`](Claim::ack).
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
    /// for acked in Claim::ack_many(claims)? {
    ///     println!("task {} is done", acked?.id);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn ack_many(mut claims: Vec<Claim>) -> Result<Vec<Result<Receipt>>> {
        let Some(first) = claims.first() else { return Ok(Vec::new()) };
        Claim::check_one_store(&claims)?;
        let (handle, buffer) = (first.handle.clone(), first.grant.buffer);
        let keys: Vec<ClaimKey> = claims.iter().map(Claim::claim_key).collect();
        let answers = handle.make(buffer, &keys[..], &AckClaims {});
        for claim in &mut claims {
            claim.release_on_drop = answers.is_err();
        }
        answers
    }

    /// Gives the task back: ready in its old place, or ready after `delay` (retry with backoff).
    ///
    /// Without a delay only memory changes and the call does not block: after a crash the task is
    /// ready anyway. With a delay the task is delayed and its ttl is extended by `delay`. The call
    /// then blocks for a flush, and the delay survives a killed process and a power cut once this
    /// returns. [`release_deferred`](Claim::release_deferred) does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended; nothing changed.
    /// [`Unsupported`](crate::Error::Unsupported): the driver has no delays; the task is released
    /// without one. [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`ack`](Claim::ack).
    /// After any other error the task is released without a delay.
    ///
    /// # Example: retry in a minute
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
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn release(self, delay: Duration) -> Result<Receipt> {
        if delay.is_zero() {
            return self.make_end(&Release {});
        }
        self.make_end(&ReleaseIn { delay: micros_ceil(delay) })
    }

    /// Buries the task (dead letter): no take returns it until it is [kicked](crate::Tube::kick).
    /// It is removed if it is deleted or its ttl elapses.
    ///
    /// Once this returns, the task is buried after a killed process and a power cut too. The call
    /// blocks for a flush as [`ack`](Claim::ack) does. [`bury_deferred`](Claim::bury_deferred) does
    /// not block.
    ///
    /// # Errors
    /// Those of [`ack`](Claim::ack), with the same state after each.
    ///
    /// # Example: bury a task after three attempts
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
    #[doc(alias = "dead letter")]
    #[doc(alias = "fail")]
    pub fn bury(self) -> Result<Receipt> {
        self.make_end(&BuryHeld { failure: None })
    }

    /// Parks the claim: no session has it, the task stays taken, and this outlives the process.
    /// [`Store::resume_claim`](crate::Store::resume_claim) takes it up again with the token, in this
    /// run of the store or a later one. If nothing has resumed it when `hold` has elapsed, the task
    /// is ready again, in its old place. `Duration::MAX` is no limit.
    ///
    /// For work that goes on without the process that took the task: a child process of hours, a
    /// job in another system, an answer that a person gives tomorrow. A claim that was resumed is
    /// parked again if the process dies before it has ended.
    ///
    /// The token names the claim: a claim that is resumed and parked again has the same token. So a
    /// process that kept the token of an earlier park can resume the claim too. The token is of no use
    /// once the claim has ended.
    ///
    /// Once this returns, the claim survives what a put survives. The call blocks for a flush, and
    /// in a written tube for a write. `hold` is measured on the timeline, which goes on while the
    /// store is closed or the machine sleeps. In a tube with
    /// [`max_runtime`](crate::TubeOptions::max_runtime) the rest of it is the longest `hold`. While
    /// a claim is parked, [`owner_of`](crate::Tube::owner_of) shows the session that had it,
    /// [`revoke`](crate::Tube::revoke) ends it, and the tube cannot be dropped. In a temporary tube
    /// it ends with the process.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken). After every error the claim is dropped: if it had not ended,
    /// the task is ready. After [`OutcomeUnknown`](Error::OutcomeUnknown) it may be parked.
    ///
    /// # Example: a child process that outlives its parent
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("queue");
    /// let store = Store::open(&path)?;
    /// let films = store.create_tube("films", FIFO, TubeOptions::new())?;
    /// films.put("transcode 7")?;
    /// let token = films.try_take()?.unwrap().park(Duration::from_secs(6 * 3600))?;
    /// // ... start the child process, keep token.to_string() beside its output, exit
    /// store.close()?;
    ///
    /// let store = Store::open(&path)?;
    /// assert!(store.tube("films")?.try_take()?.is_none()); // it is still taken
    /// // ... the child process is done
    /// store.resume_claim(&token)?.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "lease")]
    pub fn park(mut self, hold: Duration) -> Result<ClaimToken> {
        let parked = self.park_shared(hold);
        self.release_on_drop = parked.is_err();
        parked
    }

    /// Extends the claim, the ttr and the ttl of the task by `by` each. For zero it returns `None`,
    /// checks nothing and changes nothing.
    ///
    /// The longer ttl and ttr are stored, and so is the number of takes. They survive a killed
    /// process and a power cut once this returns. The call blocks for a flush;
    /// [`touch_deferred`](Claim::touch_deferred) does not. For a heartbeat [`renew`](Claim::renew)
    /// is cheaper.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended.
    /// [`Unsupported`](crate::Error::Unsupported): the driver has no ttr and ttl. Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the claim has the longer
    /// deadline, and the file will have it when the storage works again.
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
    #[doc(alias = "extend")]
    pub fn touch(&self, by: Duration) -> Result<Option<Receipt>> {
        if by.is_zero() {
            return Ok(None);
        }
        self.make(&Touch { more: micros_ceil(by) }).map(Some)
    }

    /// Replaces the body of the task, so that the next take goes on from there: progress, a cursor,
    /// results so far. The claim then lasts at least its ttr from now.
    ///
    /// Once this returns, the new body survives what a put survives, and [`data`](Claim::data)
    /// returns it. The call blocks for a flush, and in a written tube for a write. The task keeps
    /// its place, its options and its count of takes.
    /// [`checkpoint_deferred`](Claim::checkpoint_deferred) does not block.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken); [`Invalid`](Error::Invalid) for a body over its limit;
    /// [`DiskFull`](Error::DiskFull). The task has its old body. After
    /// [`OutcomeUnknown`](Error::OutcomeUnknown) it may have the new one, and [`data`](Claim::data)
    /// returns the old one.
    ///
    /// # Example: a long task that survives a crash
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("copies", FIFO, TubeOptions::new())?;
    /// jobs.put("0 of 3")?;
    /// let mut claim = jobs.try_take()?.unwrap();
    /// for page in 1..=2 {
    ///     // ... copy a page
    ///     claim.checkpoint(format!("{page} of 3"))?;
    /// }
    /// drop(claim); // the worker dies
    /// assert_eq!(jobs.try_take()?.unwrap().data(), b"2 of 3");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "progress")]
    #[doc(alias = "heartbeat")]
    pub fn checkpoint(&mut self, body: impl Into<Vec<u8>>) -> Result<Receipt> {
        let checkpoint = Checkpoint { body: Body::new(body.into()) };
        let receipt = self.make(&checkpoint)?;
        self.set_body(checkpoint.body);
        Ok(receipt)
    }

    /// Sets the claim to expire `hold` from now, earlier or later than before (heartbeat).
    /// `Duration::MAX` means never. The ttl of the task does not change.
    ///
    /// Only memory changes, and nothing of it survives the process, as the claim does not. The call
    /// does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended. Stop the work: another worker may
    /// have the task. [`Unsupported`](crate::Error::Unsupported): claims of this driver do not
    /// expire. Nothing changed.
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
    #[doc(alias = "heartbeat")]
    #[doc(alias = "visibility timeout")]
    pub fn renew(&self, hold: Duration) -> Result<()> {
        self.make(&Renew { hold: micros_ceil(hold) })
    }

    /// The claim lasts at most so long from now on: the `max_runtime` of a worker.
    pub(crate) fn limit(&self, most: Duration) -> Result<()> {
        self.make(&Limit { most: micros_ceil(most) })
    }

    /// Leaves the claim to the session: the task stays taken, and is acked, released or buried by
    /// its id. Does not block.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("work")?;
    /// let task = tube.try_take()?.unwrap().detach();
    /// // ... in another place, with a handle of the same session
    /// tube.ack(task.info.id)?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn detach(mut self) -> Task {
        self.release_on_drop = false;
        let data = self.data().to_vec();
        Task { info: self.handle.describe(&self.grant), data }
    }

    /// What the core needs to find the claim: its tube, its holder and the task's id.
    pub(crate) fn claim_key(&self) -> ClaimKey {
        self.grant.key()
    }

    /// The token of this claim while it is parked.
    pub(crate) fn token(&self, epoch: u64) -> ClaimToken {
        ClaimToken { tube: self.grant.name.to_string(), id: self.grant.id, epoch }
    }

    /// The task has this body from now on.
    pub(crate) fn set_body(&mut self, body: Body) {
        self.grant.header.size = body.len() as u64;
        self.row = match body {
            Body::Inline(bytes) => bytes.into(),
            Body::Separate(row, _) => row,
        };
    }

    /// Refuses claims that one commit cannot hold.
    pub(crate) fn check_one_store(claims: &[Claim]) -> Result<()> {
        match claims.first() {
            Some(first)
                if !claims.iter().all(|claim| claim.handle.is_same_store(&first.handle)) =>
            {
                Err(Error::invalid("the claims of one ack_many belong to one store"))
            }
            _ => Ok(()),
        }
    }

    /// Makes a call that ends the claim. If it fails, dropping the handle releases the task.
    #[inline]
    pub(crate) fn make_end<V: Begin<On = OfClaim>>(mut self, verb: &V) -> Result<V::Answer> {
        let ended = self.make(verb);
        self.release_on_drop = ended.is_err();
        ended
    }

    /// Makes a call of the claim.
    #[inline]
    pub(crate) fn make<V: Begin<On = OfClaim>>(&self, verb: &V) -> Result<V::Answer> {
        self.handle.make(self.grant.buffer, self.claimed(), verb)
    }

    pub(crate) fn claimed(&self) -> Claimed<'static> {
        Claimed { key: self.claim_key(), tube: None }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.release_on_drop {
            self.drop_claim(false);
        }
        // Last: the session may end with this handle, and must not end before the release.
        self.guard = None;
    }
}
