//! The verbs of a tube.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::micros_ceil;
use crate::core::{Core, Decided, Holder, KICK_STEP, PutRequest, TubeHead};
use crate::deferred::{Deferred, WhenFull};
use crate::events::Callback;
use crate::pipeline::Shared;
use crate::session::SessionGuard;
use crate::statistics::Statistics;
use crate::store::Handle;
use crate::task::{Page, Place, Task};
use crate::typed::{Codec, TypedTube};
use crate::wait::{TakeFuture, take, take_more};
use crate::{Claim, Error, Put, Receipt, Result, SessionId, State};

/// How many claims are ended under one hold of the lock.
const RELEASE_STEP: usize = 512;

/// A handle of a tube, for one session. Cheap to clone; may be used from many threads. Dropping it
/// changes nothing in the tube.
///
/// # What a verb promises
/// What a verb changed survives a killed process and a power cut once it returns, if the tube is
/// durable by [`Durability::Flush`](crate::Durability::Flush), the default. Such a verb waits for
/// a flush, together with whoever else waits. In a relaxed tube it returns at once, and in a
/// temporary one nothing survives the process.
///
/// # Errors of every verb
/// [`Closed`](Error::Closed); [`TubeDropped`](Error::TubeDropped);
/// [`Unavailable`](Error::Unavailable) after the storage has failed: nothing has changed.
/// [`OutcomeUnknown`](Error::OutcomeUnknown) from verbs that flush: the storage failed in the
/// middle of it. [`Corrupt`](Error::Corrupt): a row could not be read; `verify` names it.
#[derive(Clone)]
pub struct Tube {
    handle: Handle,
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    head: TubeHead,
}

impl std::fmt::Debug for Tube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tube")
            .field("name", &self.head.name)
            .field("driver", &self.head.driver)
            .finish_non_exhaustive()
    }
}

impl Tube {
    pub(crate) fn new(
        handle: Handle,
        session: SessionId,
        guard: Option<Arc<SessionGuard>>,
        head: TubeHead,
    ) -> Tube {
        Tube { handle, session, guard, head }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The name of its driver.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.head.driver
    }

    /// The session that the verbs of this handle act for.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Puts a task: it is ready, or delayed if it was given a delay.
    ///
    /// It can be taken as soon as it is in the file. A tube that is full, or where others wait for
    /// room, refuses at once; see [`put_wait`](Tube::put_wait).
    ///
    /// # Errors
    /// [`Full`](Error::Full); [`Unsupported`](Error::Unsupported) for an option that the driver
    /// does not have; [`Invalid`](Error::Invalid) for a body or a name over its limit;
    /// [`DriverUnknown`](Error::DriverUnknown). Nothing was put.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFOTTL, Put, State, Store, TubeOptions};
    ///
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("mail", FIFOTTL, TubeOptions::new())?;
    /// let later = tube.put(Put::new("reminder").delay(Duration::from_secs(3600)).pri(5))?;
    /// assert_eq!(later.state, State::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn put(&self, task: impl Into<Put>) -> Result<Receipt> {
        let request = PutRequest::new(task.into(), self.max_body())?;
        self.call(|core, number| core.put(number, &request))
    }

    /// As [`put`](Tube::put), but waits for room in a full tube, in order of arrival, as long as
    /// this or, with `None`, for ever. Does not poll.
    ///
    /// # Errors
    /// As [`put`](Tube::put); [`Full`](Error::Full) when the time is over,
    /// [`SessionEnded`](Error::SessionEnded). Nothing was put.
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
                waiting = Some(core.wait_for_room(number, self.session, request.clone(), timeout));
                Err(full)
            }
            other => other,
        });
        match waiting {
            None => put,
            Some(slot) => self.shared().wait(slot.wait()?),
        }
    }

    /// Puts all of these tasks with one commit, or none of them: up to 100,000 tasks and 256 MiB.
    ///
    /// # Errors
    /// As [`put`](Tube::put), for any of them; [`Invalid`](Error::Invalid) for too many. Nothing
    /// was put.
    pub fn put_many<T: Into<Put>>(
        &self,
        tasks: impl IntoIterator<Item = T>,
    ) -> Result<Vec<Receipt>> {
        let max = self.max_body();
        let requests = tasks
            .into_iter()
            .map(|task| PutRequest::new(task.into(), max))
            .collect::<Result<Vec<_>>>()?;
        self.call(|core, number| core.put_many(number, &requests))
    }

    /// Takes the next ready task, waiting for one as long as this or, with `None`, for ever.
    ///
    /// Those who wait are served in order of arrival, and nobody overtakes them. A take writes
    /// nothing and never waits for a flush: the claim lives in memory and ends with the process,
    /// after which the task is ready again. The body is read from the file.
    ///
    /// # Errors
    /// [`SessionEnded`](Error::SessionEnded); [`DriverUnknown`](Error::DriverUnknown);
    /// [`Corrupt`](Error::Corrupt) if the body of the task is damaged: it has been buried.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("one")?;
    /// while let Some(claim) = tube.take(Duration::from_millis(10))? {
    ///     println!("{}", String::from_utf8_lossy(claim.data()));
    ///     claim.ack()?;
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<Claim>> {
        take(&self.handle, &[self], self.session, self.guard.clone(), timeout.into())
    }

    /// Takes the next ready task if there is one now.
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn try_take(&self) -> Result<Option<Claim>> {
        self.take(Duration::ZERO)
    }

    /// Takes up to `max` tasks; waits for the first one only.
    ///
    /// # Errors
    /// As [`take`](Tube::take); what was taken by then is released.
    pub fn take_many(
        &self,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        if max > 0 {
            claims.extend(self.take(timeout)?);
        }
        if !claims.is_empty() {
            take_more(self, max, &mut claims)?;
        }
        Ok(claims)
    }

    /// As [`take`](Tube::take), as a future of no particular runtime.
    pub fn take_async(&self, timeout: impl Into<Option<Duration>>) -> TakeFuture {
        TakeFuture::new(&self.handle, &[self], self.session, self.guard.clone(), timeout.into())
    }

    /// Finishes a task that this handle's session holds; as [`Claim::ack`].
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the session does not hold it. Nothing changed.
    pub fn ack(&self, id: u64) -> Result<Receipt> {
        let by = self.by();
        self.call(|core, number| core.ack(number, by, id))
    }

    /// Finishes many tasks with one commit. Answers for each: one that the session does not hold
    /// does not bring the others back.
    ///
    /// # Errors
    /// The commit failed, for all of them.
    pub fn ack_many(&self, ids: &[u64]) -> Result<Vec<Result<Receipt>>> {
        let (by, number) = (self.by(), self.head.number);
        self.call(|core, _| Ok(core.ack_many(ids.iter().map(|id| (number, by, *id)))))
    }

    /// Gives back a task that this handle's session holds; as [`Claim::release`].
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken); [`Unsupported`](Error::Unsupported) for a delay where the
    /// driver has none. Nothing changed.
    pub fn release(&self, id: u64, delay: Duration) -> Result<Receipt> {
        let by = self.by();
        self.call(|core, number| core.release(number, by, id, micros_ceil(delay)))
    }

    /// Prolongs the hold, ttl and ttr of a task that this handle's session holds; as
    /// [`Claim::touch`].
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken), [`Unsupported`](Error::Unsupported). Nothing changed.
    pub fn touch(&self, id: u64, by: Duration) -> Result<Option<Receipt>> {
        if by.is_zero() {
            return Ok(None);
        }
        let holder = self.by();
        self.call(|core, number| core.touch(number, holder, id, micros_ceil(by))).map(Some)
    }

    /// Sets the hold of a task that this handle's session holds to end so much from now; as
    /// [`Claim::renew`].
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken), [`Unsupported`](Error::Unsupported). Nothing changed.
    pub fn renew(&self, id: u64, hold: Duration) -> Result<()> {
        let by = self.by();
        self.shared().run(|core| {
            self.check(core)?;
            core.renew(self.head.number, by, id, micros_ceil(hold))
        })
    }

    /// Sets a task aside, whatever its state and whoever holds it, until it is kicked. A task that
    /// is buried already stays so.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound).
    pub fn bury(&self, id: u64) -> Result<Receipt> {
        self.settle_missing(id, |core, number| core.bury(number, id))
    }

    /// Makes up to `count` buried tasks ready, the most urgent and oldest first; answers how many
    /// there were. More than 512 are kicked in several commits.
    ///
    /// # Errors
    /// Those of every verb.
    pub fn kick(&self, count: u64) -> Result<u64> {
        let mut kicked = 0;
        while kicked < count {
            let step = (count - kicked).min(KICK_STEP);
            let now = self.call(|core, number| core.kick(number, step))?;
            kicked += now;
            if now < step {
                break;
            }
        }
        Ok(kicked)
    }

    /// Deletes a task, whatever its state and whoever holds it.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound).
    pub fn delete(&self, id: u64) -> Result<Receipt> {
        self.settle_missing(id, |core, number| core.delete(number, id))
    }

    /// Looks at a task, body included, and changes nothing. If the task is just being changed,
    /// waits for the flush, so as not to tell what a crash could take back.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound).
    pub fn peek(&self, id: u64) -> Result<Task> {
        self.settle_missing(id, |core, number| core.peek(number, id))?
    }

    /// Makes every taken task ready, whoever holds it; answers how many. Memory alone changes.
    ///
    /// # Errors
    /// Those of every verb.
    pub fn release_all(&self) -> Result<u64> {
        let mut left = self.statistics()?.tasks.taken;
        let mut released = 0;
        // In steps, so that others get their turn; what is taken meanwhile is not released.
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(RELEASE_STEP).min(RELEASE_STEP);
            let now = self.shared().run(|core| {
                self.check(core)?;
                core.release_all(self.head.number, step)
            })?;
            if now == 0 {
                break;
            }
            released += now;
            left = left.saturating_sub(now);
        }
        Ok(released)
    }

    /// Removes all tasks, whatever their state. Claims on them have ended; those who wait go on
    /// waiting; numbers of calls stay, and no events are told.
    ///
    /// Once this returns they are gone for good; it waits for a flush, however many there were.
    /// Their rows are removed later, little by little.
    ///
    /// # Errors
    /// Those of every verb.
    pub fn truncate(&self) -> Result<()> {
        self.call(super::core::Core::truncate)
    }

    /// Looks at the tasks in one state, in order, a page at a time: up to `limit` of them, and no
    /// more than 10,000, behind the place where the last page ended.
    ///
    /// The order is that of takes; for ready tasks of a sub-queued tube, sub-queue by sub-queue.
    /// Tasks that change between two pages may be seen in none or in both.
    ///
    /// # Errors
    /// Those of every verb.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, State, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put_many(["a", "b", "c"])?;
    /// let mut place = None;
    /// loop {
    ///     let page = tube.list(State::Ready, place, 2)?;
    ///     page.tasks.iter().for_each(|task| println!("{} {}", task.id, task.size));
    ///     match page.next {
    ///         Some(next) => place = Some(next),
    ///         None => break,
    ///     }
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn list(&self, state: State, after: Option<Place>, limit: usize) -> Result<Page> {
        self.shared().run(|core| {
            self.check(core)?;
            core.list(self.head.number, state, after.as_ref(), limit)
        })
    }

    /// The tube's numbers. Costs the same however many tasks there are.
    ///
    /// # Errors
    /// Those of every verb.
    pub fn statistics(&self) -> Result<Statistics> {
        self.shared().run(|core| self.check(core).map(|tube| tube.visible))
    }

    /// Has `callback` called after each change of a task of this tube from now on, or nobody;
    /// returns the one before.
    ///
    /// It is called on a thread of its own, after the change is in the file, in order. A callback
    /// that is slow delays nobody: beyond 65,536 waiting events further ones are dropped. One that
    /// panics is called again for the next event. One that holds a handle of the store keeps the
    /// store open.
    ///
    /// # Errors
    /// Those of every verb.
    pub fn on_task_change(&self, callback: Option<Callback>) -> Result<Option<Callback>> {
        self.shared().run(|core| {
            self.check(core)?;
            let tube = core.tubes.get_mut(&self.head.number);
            Ok(tube.and_then(|tube| std::mem::replace(&mut tube.callback, callback)))
        })
    }

    /// The verbs that answer before their flush, with a ticket for it.
    #[must_use]
    pub fn deferred(&self, when_full: WhenFull) -> Deferred {
        Deferred::new(self.clone(), when_full)
    }

    /// This tube with bodies of a type, encoded with bincode.
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> TypedTube<T> {
        TypedTube::new(self.clone())
    }

    /// This tube with bodies of a type, and a codec of the caller's choice.
    #[must_use]
    pub fn typed_with<T: Serialize + DeserializeOwned, C: Codec>(&self) -> TypedTube<T, C> {
        TypedTube::new(self.clone())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn guard(&self) -> Option<Arc<SessionGuard>> {
        self.guard.clone()
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    pub(crate) fn number(&self) -> u32 {
        self.head.number
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.head.name.clone()
    }

    pub(crate) fn lane(&self) -> usize {
        self.head.lane
    }

    pub(crate) fn max_body(&self) -> usize {
        self.handle.max_body()
    }

    /// The tube, if it is there and the store is open.
    pub(crate) fn check<'a>(&self, core: &'a Core) -> Result<&'a crate::core::TubeState> {
        core.tube(self.head.number, &self.head.name)
    }

    fn by(&self) -> Holder {
        Holder { session: self.session, epoch: None }
    }

    fn call<T>(&self, decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>) -> Result<T> {
        self.shared().call(self.head.lane, |core| {
            self.check(core)?;
            decide(core, self.head.number)
        })
    }

    /// As `call`; that a task is not there is told only once a crash cannot bring it back.
    fn settle_missing<T>(
        &self,
        id: u64,
        decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>,
    ) -> Result<T> {
        let answer = self.call(|core, number| match decide(core, number) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(missing @ Error::NotFound { .. }) => {
                Ok(core.once_settled(number, id, Err(missing)))
            }
            Err(error) => Err(error),
        });
        answer?
    }
}
