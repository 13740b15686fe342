//! Taking, with or without waiting: on a thread, or as a future.

mod counted;

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tubewell_drivers::{NEVER, Reads, Value, check_body};

use crate::base::micros::micros_ceil;
use crate::connection::{Connection, RemotePromise, Request, answered_already};
use crate::core::verb::TubeName;
use crate::core::{Core, Grant, TakeAttempt, TakeSlot, TubeHead};
use crate::handle::call::{CallFuture, CapacityWait};
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::runtime::StoreInner;
use crate::runtime::open_store::LocalHandle;
use crate::values::body::Coder;
use crate::{Bytes, Claim, ClaimToken, Error, Mode, Result, SessionId};

pub(crate) use counted::{CountedTake, counted};

/// Takes from the first of these tubes that has a task, or waits in all of them.
pub(crate) fn take(
    handle: &StoreHandle,
    tubes: &[TubeHead],
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> Result<Option<Claim>> {
    match handle {
        StoreHandle::Here(store) => take_here(store, tubes, session, guard, timeout),
        StoreHandle::Remote(owner) => {
            let grants = owner.ask_grants(&take_request(tubes, session, timeout, None))?;
            Ok(remote_claims(owner, guard, grants).next())
        }
    }
}

fn take_here(
    handle: &LocalHandle,
    tubes: &[TubeHead],
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> Result<Option<Claim>> {
    let until = deadline(handle, timeout);
    loop {
        let mut found = TakeAttempt::Empty;
        handle.take_blocking(tubes, session, until, &mut found)?;
        let grant = match found {
            TakeAttempt::Task(grant) => Some(grant),
            TakeAttempt::Empty => None,
            TakeAttempt::Waiting(_, slot) => slot.wait()?,
            TakeAttempt::Retry(buffer) => {
                handle.inner()?.wait_for_capacity(buffer)?;
                continue;
            }
        };
        let Some(mut grant) = grant else { return Ok(None) };
        if counted(handle, &mut grant)?
            && let Some(claim) = read_claim(handle, grant, guard.clone())?
        {
            return Ok(Some(claim));
        }
        // The claim has ended meanwhile: take the next task.
    }
}

/// A take, as a request to the owner of the store.
pub(crate) fn take_request(
    tubes: &[TubeHead],
    session: SessionId,
    timeout: Option<Duration>,
    most: Option<usize>,
) -> Request {
    Request::Take {
        tubes: tubes.iter().map(TubeName::from).collect(),
        session,
        timeout: timeout.map(micros_ceil),
        most: most.map(|most| most as u64),
    }
}

/// The claims on tasks that the owner of the store has handed out.
pub(crate) fn remote_claims(
    owner: &Arc<Connection>,
    guard: Option<Arc<SessionGuard>>,
    grants: Vec<Grant>,
) -> impl Iterator<Item = Claim> {
    let handle = StoreHandle::Remote(owner.clone());
    grants.into_iter().map(move |mut grant| {
        let row = grant.row.take().unwrap_or_default();
        Claim::new(handle.clone(), guard.clone(), grant, row)
    })
}

/// The future of a take, for any runtime or none.
///
/// It resolves to a claim, or to `None` when the timeout elapses. With the first poll the timeout
/// begins and the taker joins the waiting takers. The future blocks no thread; a poll may read the
/// body of a task from the file. Dropping the future is safe: the taker no longer waits, and a task
/// already assigned to it is released. One that has resolved returns
/// [`Invalid`](crate::Error::Invalid) if it is polled again.
#[must_use = "a future takes nothing until it is polled"]
pub(crate) struct TakeFuture<T: 'static = Bytes> {
    /// `None` once it has taken a task, or has failed.
    take: Option<TakeFrom<'static>>,
    coder: Coder<T>,
    /// Buries a task whose body cannot be decoded.
    burying: Option<CallFuture<Infallible>>,
}

impl TakeFuture {
    pub(crate) fn new(
        handle: &StoreHandle,
        tubes: Result<Vec<TubeHead>>,
        session: SessionId,
        guard: Option<Arc<SessionGuard>>,
        timeout: Option<Duration>,
    ) -> TakeFuture {
        let take = TakeFrom::new(handle, tubes.map(Cow::Owned), session, guard, timeout);
        TakeFuture { take: Some(take), coder: Coder::BYTES, burying: None }
    }

    pub(crate) fn with_coder<T>(self, coder: Coder<T>) -> TakeFuture<T> {
        TakeFuture { take: self.take, coder, burying: None }
    }
}

impl<T> Future for TakeFuture<T> {
    type Output = Result<Option<Claim<T>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.get_mut();
        if future.burying.is_none() {
            // A take that has ended must not take another task.
            let Some(take) = &mut future.take else { return Poll::Ready(Err(answered_already())) };
            let Poll::Ready(taken) = take.poll_take(context) else { return Poll::Pending };
            future.take = None;
            let Some(claim) = taken? else { return Poll::Ready(Ok(None)) };
            match claim.try_decode(&future.coder) {
                Ok(claim) => return Poll::Ready(Ok(Some(claim))),
                Err(undecodable) => {
                    let bury = CallFuture::new(async move { Err(undecodable.bury().await) });
                    future.burying = Some(bury);
                }
            }
        }
        let Some(burying) = &mut future.burying else {
            return Poll::Ready(Err(answered_already()));
        };
        let buried = Pin::new(burying).poll(context);
        if buried.is_ready() {
            future.burying = None;
        }
        buried.map_ok(|never| match never {})
    }
}

/// As [`TakeFuture`], of tubes that may be borrowed.
pub(crate) struct TakeFrom<'a> {
    handle: StoreHandle,
    guard: Option<Arc<SessionGuard>>,
    session: SessionId,
    tubes: Result<Cow<'a, [TubeHead]>>,
    timeout: Option<Duration>,
    until: Option<Option<u64>>,
    waiting: Option<(u64, Arc<TakeSlot>)>,
    /// The take, if the store is one of another process.
    asked: Option<RemotePromise<Vec<Grant>>>,
    /// The task that was taken, until its take is counted.
    counting: Option<CountedTake>,
    /// Set while earlier takes have removed more expired tasks than a commit should hold.
    expiry: Option<CapacityWait>,
}

impl<'a> TakeFrom<'a> {
    pub(crate) fn new(
        handle: &StoreHandle,
        tubes: Result<Cow<'a, [TubeHead]>>,
        session: SessionId,
        guard: Option<Arc<SessionGuard>>,
        timeout: Option<Duration>,
    ) -> TakeFrom<'a> {
        TakeFrom {
            handle: handle.clone(),
            guard,
            session,
            tubes,
            timeout,
            until: None,
            waiting: None,
            asked: None,
            counting: None,
            expiry: None,
        }
    }

    pub(crate) fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Claim>>> {
        // In a fork, no thread would end the wait.
        self.handle.check_process()?;
        let tubes = self.tubes.as_deref().map_err(Error::clone)?;
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => {
                let asked = self.asked.get_or_insert_with(|| {
                    let take = take_request(tubes, self.session, self.timeout, None);
                    owner.request_grants(&take)
                });
                let Poll::Ready(grants) = Pin::new(asked).poll(context) else {
                    return Poll::Pending;
                };
                self.asked = None;
                let claim = remote_claims(owner, self.guard.clone(), grants?).next();
                return Poll::Ready(Ok(claim));
            }
        };
        loop {
            if let Some(expiry) = &mut self.expiry {
                let Poll::Ready(freed) = expiry.poll_expiry(context.waker()) else {
                    return Poll::Pending;
                };
                self.expiry = None;
                freed?;
            }
            if let Some(counting) = &mut self.counting {
                let Poll::Ready(counted) = counting.poll(context.waker()) else {
                    return Poll::Pending;
                };
                let counting = self.counting.take();
                counted?;
                let grant = counting.and_then(CountedTake::into_grant);
                if let Some(grant) = grant
                    && let Some(claim) = read_claim(store, grant, self.guard.clone())?
                {
                    return Poll::Ready(Ok(Some(claim)));
                }
            }
            let grant = match &self.waiting {
                Some((_, slot)) => {
                    let Poll::Ready(outcome) = slot.poll(context.waker()) else {
                        return Poll::Pending;
                    };
                    self.waiting = None;
                    outcome?
                }
                None => {
                    let timeout = self.timeout;
                    let until = *self.until.get_or_insert_with(|| deadline(store, timeout));
                    match store.take(tubes, self.session, until)? {
                        TakeAttempt::Task(grant) => Some(grant),
                        TakeAttempt::Empty => None,
                        TakeAttempt::Waiting(arrival, slot) => {
                            self.waiting = Some((arrival, slot));
                            continue;
                        }
                        TakeAttempt::Retry(buffer) => {
                            self.expiry = Some(CapacityWait::new(store, buffer));
                            // Other tasks of this executor get their turn before the next step.
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
            };
            let Some(grant) = grant else { return Poll::Ready(Ok(None)) };
            if grant.counted.is_some() {
                self.counting = Some(CountedTake::new(store, grant));
            } else if let Some(claim) = read_claim(store, grant, self.guard.clone())? {
                return Poll::Ready(Ok(Some(claim)));
            }
        }
    }
}

impl Drop for TakeFrom<'_> {
    fn drop(&mut self) {
        if let (Some((arrival, slot)), StoreHandle::Here(store)) =
            (self.waiting.take(), &self.handle)
        {
            // A task whose record cannot be read stays claimed until its session ends.
            if let Ok(inner) = store.inner() {
                let _ = inner.run(|core| core.cancel_wait(arrival, &slot));
            }
        }
    }
}

/// When a timeout elapses, on running time; `None` for never.
pub(crate) fn deadline(handle: &LocalHandle, timeout: Option<Duration>) -> Option<u64> {
    match timeout.map(micros_ceil)? {
        0 => Some(0),
        NEVER => None,
        timeout => Some(handle.open_store().inner.clock().running().saturating_add(timeout)),
    }
}

/// Waits for a time on the clock of the store, as a future that blocks no thread: a take of no tube.
pub(crate) async fn elapse(handle: &StoreHandle, time: Duration) -> Result<()> {
    let session = handle.own_session();
    let mut take = TakeFrom::new(handle, Ok(Cow::Borrowed(&[])), session, None, Some(time));
    poll_fn(|context| take.poll_take(context)).await.map(drop)
}

/// Gives a parked claim to a session.
pub(crate) fn resume_claim<M: Mode>(
    handle: &StoreHandle,
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    token: &ClaimToken,
) -> M::Answer<Claim<Bytes, M>> {
    match handle {
        StoreHandle::Here(store) => {
            M::answer(resume_claim_here(store, session, guard, token).map(Claim::with_mode))
        }
        StoreHandle::Remote(owner) => {
            let grants = owner.request_grants(&Request::ResumeClaim(session, token.clone()));
            let (owner, id) = (owner.clone(), token.id);
            M::begin(async move {
                let claim = remote_claims(&owner, guard, grants.await?).next();
                claim.map(Claim::with_mode).ok_or(Error::NotTaken { id })
            })
        }
    }
}

/// As [`resume_claim`], in this process.
pub(crate) fn resume_claim_here(
    store: &LocalHandle,
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    token: &ClaimToken,
) -> Result<Claim> {
    let grant = store.run(|core| core.resume_claim(session, token))?;
    // The claim may have ended while the body was read.
    read_claim(store, grant, guard)?.ok_or(Error::NotTaken { id: token.id })
}

/// Reads the bodies of tasks that were taken together through one snapshot. A body that cannot be
/// read is left to [`read_claim`], which returns the error.
pub(crate) fn read_bodies(inner: &StoreInner, grants: &mut [Grant]) {
    let mut unread = grants.iter_mut().filter(|grant| grant.row.is_none()).peekable();
    let Some(buffer) = unread.peek().map(|grant| grant.buffer) else { return };
    let _ = inner.with_engine(buffer, |engine| {
        let mut snapshot = engine.snapshot()?;
        for grant in unread {
            if let Some(row) = snapshot.get(grant.table, &grant.key)? {
                grant.row = check_row(grant, row).ok();
            }
        }
        Ok(())
    });
}

/// Reads the body of a task that was taken. Returns `None` if the claim has ended meanwhile.
pub(crate) fn read_claim(
    handle: &LocalHandle,
    mut grant: Grant,
    guard: Option<Arc<SessionGuard>>,
) -> Result<Option<Claim>> {
    // A row in memory was checked when it was read, or was put in this run.
    if let Some(row) = grant.row.take() {
        return Ok(Some(Claim::new(StoreHandle::Here(handle.clone()), guard, grant, row)));
    }
    let inner = handle.inner()?;
    let row = match read_row(inner, &grant) {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(None),
        Err(error) => {
            handle.drop_claim(grant.key(), true);
            return Err(error);
        }
    };
    match check_row(&grant, row) {
        Ok(row) => Ok(Some(Claim::new(StoreHandle::Here(handle.clone()), guard, grant, row))),
        // The row is that of a body that the task has got since the claim has ended.
        Err(_) if !inner.run(|core| core.is_current(grant.key())) => Ok(None),
        Err(error) => {
            // Buried, because every later take would fail on it too.
            handle.bury_unreadable(&grant);
            Err(error)
        }
    }
}

/// The row that holds the body; `None` if the claim has ended.
fn read_row(inner: &StoreInner, grant: &Grant) -> Result<Option<Value>> {
    match inner.read(grant.buffer, grant.table, &grant.key)? {
        Some(row) => Ok(Some(row)),
        None => inner.run(|core| read_row_locked(core, grant)),
    }
}

/// Reads the row under the lock. It was moved between the take and the first read, into the database
/// or with another priority, or was removed when the claim ended.
fn read_row_locked(core: &mut Core, grant: &Grant) -> Result<Option<Value>> {
    if !core.is_current(grant.key()) {
        return Ok(None);
    }
    match core.taken_row(grant)? {
        Some(row) => Ok(Some(row)),
        None => Err(Error::corrupt(format!("task {}: its body is missing", grant.id))),
    }
}

/// Returns the row, at whose end the body is, if it is as it was written.
fn check_row(grant: &Grant, row: Value) -> Result<Value> {
    if grant.header.body_checksum.is_some() {
        check_body(grant.id, &grant.header, &row)?;
        return Ok(row);
    }
    let (_, row) = tubewell_drivers::Record::decode(grant.id, row)?.into_parts();
    Ok(row)
}
