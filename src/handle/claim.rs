//! The handle of a taken task.

mod collected;
mod held;
mod history;
mod progress;
mod read;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{Body, Value};

use crate::base::micros::micros_ceil;
use crate::core::list::{Checkpoint, Park, Renew, Touch};
use crate::core::{ClaimKey, Grant};
use crate::handle::job_notes::JobNotes;
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::values::body::{Coder, Decoded};
use crate::{Async, Blocking, Bytes, ClaimToken, Error, Mode, Owner, Receipt, Result, Task};

pub(crate) use collected::Collected;
pub(crate) use held::Held;
pub(crate) use read::{UNDECODABLE, Undecodable};

/// A taken task, with its body as a value of `T`, and the claim (lease) on it.
///
/// `Claim` alone is one with a body of [`Bytes`]. A body that cannot be decoded does not come that
/// far: the take buries its task and fails, see [`Tube::read`](crate::Tube::read).
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
/// [`end`](Claim::end) and its short forms, such as [`ack`](Claim::ack), consume the handle.
/// If such a call is refused while the claim still stands, the handle is dropped and the task is released:
/// the task is ready, and its work is done again. The claim that
/// [`Tube::claimed`](crate::Tube::claimed) returns is different: after a refused call the session still
/// has the task.
///
/// # Without blocking
/// A take of an [`AsyncTube`](crate::AsyncTube) returns an [`AsyncClaim`]. Its calls return a
/// [`Ticket`](crate::Ticket) and block no thread. A change was made when its method returns, or it stands in
/// line while the write buffer is full. A call that ends the claim consumes the handle, so the caller learns
/// from the ticket alone whether the end was accepted. A refusal releases the task then, too; through a
/// [connection](crate::connect) that broke, a caller that has dropped the ticket leaves the task to its session.
/// [`into_async`](Claim::into_async) and [`into_blocking`](Claim::into_blocking) turn one kind into the other.
/// [`detach`](Claim::detach) of a claim of a connection blocks in both.
#[must_use = "a claim that is dropped releases its task"]
#[doc(alias = "lease")]
#[doc(alias = "reservation")]
pub struct Claim<T: 'static = Bytes, M: Mode = Blocking> {
    pub(crate) held: Held,
    value: T,
    /// The body, unless the value has it.
    body: Option<Bytes>,
    coder: Coder<T>,
    mode: PhantomData<fn() -> M>,
}

/// A claim whose calls return a [`Ticket`](crate::Ticket): of a tube from
/// [`to_async`](crate::Tube::to_async).
pub type AsyncClaim<T = Bytes> = Claim<T, Async>;

impl<T, M: Mode> std::fmt::Debug for Claim<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim")
            .field("tube", &self.held.grant.name)
            .field("id", &self.held.grant.id)
            .finish_non_exhaustive()
    }
}

impl Claim {
    /// A claim on a task whose row ends with its body.
    pub(crate) fn new(
        handle: StoreHandle,
        guard: Option<Arc<SessionGuard>>,
        grant: Grant,
        row: Value,
    ) -> Claim {
        let value = Bytes::tail(row, grant.header.size);
        let held = Held::new(handle, guard, grant);
        Claim { held, value, body: None, coder: Coder::BYTES, mode: PhantomData }
    }

    /// The claim that a session has on a task.
    pub(crate) fn found(
        handle: StoreHandle,
        guard: Option<Arc<SessionGuard>>,
        mut grant: Grant,
    ) -> Claim {
        let value = Bytes::tail(grant.row.take().unwrap_or_default(), grant.header.size);
        let held = Held::found(handle, guard, grant);
        Claim { held, value, body: None, coder: Coder::BYTES, mode: PhantomData }
    }

    /// The same claim, as a job shows it to its handler.
    pub(crate) fn shown<T, M: Mode>(
        &self,
        (value, body): Decoded<T>,
        coder: Coder<T>,
        notes: Arc<JobNotes>,
    ) -> Claim<T, M> {
        Claim { held: self.held.shown(notes), value, body, coder, mode: PhantomData }
    }

    /// The task, for a holder in another process. Its row has the body.
    pub(crate) fn into_grant(self) -> Grant {
        let Claim { mut held, value, .. } = self;
        held.release_on_drop = false;
        held.grant.key = Vec::new();
        let mut grant = held.grant.clone();
        grant.row = Some(value.into_row());
        grant
    }
}

impl<T, M: Mode> Claim<T, M> {
    /// The body of the task, decoded.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.held.grant.id
    }

    /// The body of the task, as its bytes.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.bytes().map_or(&[], |body| body)
    }

    /// The name of its tube.
    #[must_use]
    pub fn tube(&self) -> &str {
        &self.held.grant.name
    }

    /// Where the task belongs in a trace, if it was put with a [`traceparent`](crate::Put::traceparent). Makes no call.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        self.held.grant.header.traceparent().map(|it| it.to_string())
    }

    /// How often the task was taken (attempts), this time included.
    ///
    /// The number is written with a later commit once the claim has ended, and at close. If the
    /// process is killed, the takes since the last commit are not counted, so a task that kills its
    /// worker may show fewer attempts. A [`touch`](Claim::touch) stores the number immediately.
    #[must_use]
    pub fn takes(&self) -> u32 {
        self.held.grant.header.takes
    }

    /// Which attempt this is; the first one is 1. Takes that were forgiven do not count: after
    /// a [snooze](crate::Outcome::snooze), [`Admin::revoke`](crate::Admin::revoke) and
    /// [`Tube::kick`](crate::Tube::kick). A revoke and a kick forgive takes where attempts matter: if the tube has
    /// `max_attempts`, a backoff or metrics, or the task has more than a body, a priority and times.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.held.grant.header.attempts()
    }

    /// How many attempts are left after this one; `None` without a limit. See
    /// [`TubeOptions::max_attempts`](crate::TubeOptions::max_attempts).
    #[must_use]
    pub fn attempts_left(&self) -> Option<u32> {
        self.held.grant.attempts_left
    }

    /// Its priority. 0 is the most urgent.
    #[must_use]
    pub fn priority(&self) -> u32 {
        self.held.grant.header.priority
    }

    /// Its sub-queue, if it has one.
    #[must_use]
    pub fn sub_queue(&self) -> Option<&str> {
        Some(&*self.held.grant.header.sub).filter(|name| !name.is_empty())
    }

    /// Its [key](crate::Put::key), if it was put with one: a name that no other task of the store has.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.held.grant.header.more.as_ref()?.key.as_deref()
    }

    /// Its tags when it was taken, in the order in which they were added.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.held.grant.header.tags().iter().map(|tag| &**tag)
    }

    /// The number of this claim. No other take has it, in this run of the store or an earlier one.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.held.grant.epoch
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
    /// use tubewell::{ManualClock, Put, Store};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put(Put::new("work").ttr(Duration::from_secs(60)))?;
    /// let claim = jobs.try_take()?.unwrap();
    /// clock.advance(Duration::from_secs(59));
    /// assert!(claim.is_current()?);
    /// assert_eq!(claim.expires_in()?, Some(Duration::from_secs(1)));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(!claim.is_current()?);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn is_current(&self) -> M::Answer<bool> {
        M::map(self.owner(), |owner| owner.is_some())
    }

    /// How long until the claim expires; `None` without a limit, and zero if the claim has ended.
    /// [`renew`](Claim::renew) sets it, [`touch`](Claim::touch) adds to it. Blocks as
    /// [`is_current`](Claim::is_current) does.
    ///
    /// # Errors
    /// Those of [`owner`](Claim::owner).
    pub fn expires_in(&self) -> M::Answer<Option<Duration>> {
        let ended = Some(Duration::ZERO);
        M::map(self.owner(), move |owner| owner.map_or(ended, |owner| owner.expires_in))
    }

    /// Its session, and for how long it has held the task; `None` if the claim has ended, also
    /// because the store was closed. Blocks as [`is_current`](Claim::is_current) does.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store
    /// does not answer the connection. The claim may stand.
    pub fn owner(&self) -> M::Answer<Option<Owner>> {
        M::either((), |()| self.held.owner(), |()| self.held.await_owner())
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
    /// a claim is parked, [`owner`](crate::Query::owner) shows the session that had it,
    /// [`revoke`](crate::Admin::revoke) ends it, and the tube cannot be dropped. In a temporary tube
    /// it ends with the process.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken). After every error the claim is dropped: if it had not ended,
    /// the task is ready. After [`OutcomeUnknown`](Error::OutcomeUnknown) it may be parked.
    ///
    /// # Example: a child process that outlives its parent
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("queue");
    /// let store = Store::open(&path)?;
    /// let films = store.tube("films")?;
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
    pub fn park(self, hold: Duration) -> M::Answer<ClaimToken> {
        let (tube, id) = (self.tube().to_owned(), self.id());
        let parked = self.held.end::<M, _>(Park { hold: micros_ceil(hold) });
        M::map(parked, move |epoch| ClaimToken { tube, id, epoch })
    }

    /// Extends the claim, the ttr and the ttl of the task by `by` each. For zero it returns `None`,
    /// checks nothing and changes nothing.
    ///
    /// The longer ttl and ttr are stored, with the number of takes. They survive a killed
    /// process and a power cut once this returns. The call blocks for a flush. For a heartbeat
    /// [`renew`](Claim::renew) is cheaper.
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
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// tube.put(Put::new("work").ttr(Duration::from_secs(60)))?;
    /// let job = tube.try_take()?.unwrap();
    /// job.touch(Duration::from_secs(30))?; // 90 seconds from the take, and at every later take
    /// # assert_eq!(tube.query().task(job.id())?.info.ttr, Some(Duration::from_secs(90)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "extend")]
    pub fn touch(&self, by: Duration) -> M::Answer<Option<Receipt>> {
        if by.is_zero() {
            return M::answer(Ok(None));
        }
        M::map(self.held.change::<M, _>(Ok(Touch { more: micros_ceil(by) })), Some)
    }

    /// Replaces the body of the task, so that the next take goes on from there: progress, a cursor,
    /// results so far. The claim then lasts at least its ttr from now.
    ///
    /// Once this returns, the new body survives what a put survives, and [`body`](Claim::body)
    /// returns it. The call blocks for a flush, and in a written tube for a write. The task keeps
    /// its place, its options and its count of takes. The handle of an [`AsyncClaim`] has the new body as
    /// soon as the method returns, also if the ticket is refused.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken); [`Invalid`](Error::Invalid) for a body over its limit;
    /// [`Codec`](Error::Codec) for a value that cannot be encoded; [`DiskFull`](Error::DiskFull). The task
    /// has its old body. After
    /// [`OutcomeUnknown`](Error::OutcomeUnknown) it may have the new one, and [`body`](Claim::body)
    /// returns the old one.
    ///
    /// # Example: a long task that survives a crash
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("copies")?;
    /// jobs.put("0 of 3")?;
    /// let mut claim = jobs.try_take()?.unwrap();
    /// for page in 1..=2 {
    ///     // ... copy a page
    ///     claim.checkpoint(format!("{page} of 3"))?;
    /// }
    /// drop(claim); // the worker dies
    /// assert_eq!(jobs.try_take()?.unwrap().body(), b"2 of 3");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "progress")]
    #[doc(alias = "heartbeat")]
    pub fn checkpoint(&mut self, value: impl Into<T>) -> M::Answer<Receipt> {
        let value = value.into();
        let body = match self.encode(&value) {
            Ok(body) => body,
            Err(error) => return M::answer(Err(error)),
        };
        let stored = self.held.change::<M, _>(Ok(Checkpoint { body: body.clone() }));
        if !M::is_refused(&stored) {
            self.set_body(value, body);
        }
        stored
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
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
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
    pub fn renew(&self, hold: Duration) -> M::Answer<()> {
        self.held.change::<M, _>(Ok(Renew { hold: micros_ceil(hold) }))
    }

    /// Leaves the claim to the session: the task stays taken, and is ended by the claim that
    /// [`Tube::claimed`](crate::Tube::claimed) returns. Does not block in
    /// the process that owns the store; through a connection, the call waits for the description of the task.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put("work")?;
    /// let task = tube.try_take()?.unwrap().detach();
    /// // ... in another place, with a handle of the same session
    /// tube.claimed(task.info.id)?.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn detach(mut self) -> Task<T> {
        self.held.release_on_drop = false;
        let info = self.held.handle.describe(&self.held.grant);
        let body = self.bytes().cloned().unwrap_or_default();
        Task::new(info, body, self.coder)
    }

    /// The value, and the claim of the bytes.
    #[must_use = "a claim that is dropped releases its task"]
    pub fn into_parts(self) -> (T, Claim<Bytes, M>) {
        let value = self.bytes().cloned().unwrap_or_default();
        let Claim { held, value: of_type, mode, .. } = self;
        (of_type, Claim { held, value, body: None, coder: Coder::BYTES, mode })
    }

    /// The same claim, whose calls return a [`Ticket`](crate::Ticket) and block no thread.
    #[must_use = "a claim that is dropped releases its task"]
    pub fn into_async(self) -> Claim<T, Async> {
        self.with_mode()
    }

    /// The same claim, whose calls block.
    #[must_use = "a claim that is dropped releases its task"]
    pub fn into_blocking(self) -> Claim<T, Blocking> {
        self.with_mode()
    }

    #[inline]
    pub(crate) fn with_mode<N: Mode>(self) -> Claim<T, N> {
        let Claim { held, value, body, coder, .. } = self;
        Claim { held, value, body, coder, mode: PhantomData }
    }

    /// Encodes a value as a body.
    pub(crate) fn encode(&self, value: &T) -> Result<Body> {
        self.coder.encode(value).map(Body::new)
    }

    /// The body: the value, or beside it.
    fn bytes(&self) -> Option<&Bytes> {
        self.body.as_ref().or_else(|| self.coder.bytes(&self.value))
    }

    /// The task has this body from now on.
    pub(crate) fn set_body(&mut self, value: T, body: Body) {
        let size = body.len() as u64;
        self.held.grant.header.size = size;
        if self.coder.bytes(&value).is_none() {
            let row = match body {
                Body::Inline(bytes) => bytes.into(),
                Body::Separate(row, _) => row,
            };
            self.body = Some(Bytes::tail(row, size));
        }
        self.value = value;
    }

    pub(crate) fn keys(claims: &[Claim<T, M>]) -> Vec<ClaimKey> {
        claims.iter().map(|claim| claim.held.key()).collect()
    }

    /// Refuses claims that one commit cannot hold.
    pub(crate) fn check_one_store(claims: &[Claim<T, M>]) -> Result<()> {
        let Some(first) = claims.first() else { return Ok(()) };
        let handle = &first.held.handle;
        if claims.iter().all(|claim| claim.held.handle.is_same_store(handle)) {
            return Ok(());
        }
        Err(Error::invalid("the claims of one `end_many` belong to one store"))
    }

    /// Releases a task that no code has begun to work on. The attempt is forgiven.
    pub(crate) fn give_back(self) {
        let mut held = self.held;
        held.release_on_drop = false;
        held.drop_claim(true);
    }
}
