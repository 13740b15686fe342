//! Taking, with or without waiting: on a thread, or as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tubewell_drivers::{NEVER, Reads, Value, check_body};

use crate::core::{Core, Grant, Holder, TakeAttempt, TakeSlot};
use crate::handle::{SessionGuard, StoreHandle};
use crate::micros::micros_ceil;
use crate::pipeline::StoreInner;
use crate::{Claim, Error, Result, SessionId, WhenFull};

/// A tube, as a take needs to name it.
pub(crate) type Named = (u32, Arc<str>);

/// Takes from the first of these tubes that has a task, or waits in all of them.
pub(crate) fn take<'a>(
    handle: &StoreHandle,
    tubes: impl Iterator<Item = (u32, &'a str)> + Clone,
    session: SessionId,
    keep: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> Result<Option<Claim>> {
    let until = deadline(handle, timeout);
    loop {
        let grant = match begin(handle, tubes.clone(), session, until)? {
            TakeAttempt::Task(grant) => Some(grant),
            TakeAttempt::Empty => None,
            TakeAttempt::Waiting(_, slot) => slot.wait()?,
            TakeAttempt::Retry(buffer) => {
                handle.inner().wait_for_capacity(buffer)?;
                continue;
            }
        };
        let Some(grant) = grant else { return Ok(None) };
        if let Some(claim) = fetch(handle, grant, keep.clone())? {
            return Ok(Some(claim));
        }
        // Somebody deleted it in this moment; try again.
    }
}

/// A take that waits, as a future of no particular runtime.
///
/// Resolves to a claim, or to `None` when its time is over. It stands in line from its first poll
/// on. Dropping it leaves the line; a task that it was given but has not handed out goes back to
/// its tube. Its poll may read the task's body from the file.
#[must_use = "a future takes nothing until it is polled"]
pub struct TakeFuture {
    handle: StoreHandle,
    keep: Option<Arc<SessionGuard>>,
    session: SessionId,
    tubes: Result<Vec<Named>>,
    timeout: Option<Duration>,
    until: Option<Option<u64>>,
    waiting: Option<(u64, Arc<TakeSlot>)>,
}

impl std::fmt::Debug for TakeFuture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakeFuture").field("waits", &self.waiting.is_some()).finish_non_exhaustive()
    }
}

impl TakeFuture {
    pub(crate) fn new(
        handle: &StoreHandle,
        tubes: Result<Vec<Named>>,
        session: SessionId,
        keep: Option<Arc<SessionGuard>>,
        timeout: Option<Duration>,
    ) -> TakeFuture {
        TakeFuture {
            handle: handle.clone(),
            keep,
            session,
            tubes,
            timeout,
            until: None,
            waiting: None,
        }
    }

    fn step(&mut self, context: &Context<'_>) -> Poll<Result<Option<Claim>>> {
        let tubes = self.tubes.clone()?;
        loop {
            let grant = match &self.waiting {
                Some((_, slot)) => {
                    let Poll::Ready(outcome) = slot.poll(context.waker()) else {
                        return Poll::Pending;
                    };
                    self.waiting = None;
                    outcome?
                }
                None => {
                    let (handle, timeout) = (&self.handle, self.timeout);
                    let until = *self.until.get_or_insert_with(|| deadline(handle, timeout));
                    let named = tubes.iter().map(|(number, name)| (*number, &**name));
                    match begin(&self.handle, named, self.session, until)? {
                        TakeAttempt::Task(grant) => Some(grant),
                        TakeAttempt::Empty => None,
                        TakeAttempt::Waiting(arrival, slot) => {
                            self.waiting = Some((arrival, slot));
                            continue;
                        }
                        TakeAttempt::Retry(buffer) => {
                            // Others of the same thread are to go on, too.
                            self.handle.inner().wait_for_capacity(buffer)?;
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                }
            };
            let Some(grant) = grant else { return Poll::Ready(Ok(None)) };
            if let Some(claim) = fetch(&self.handle, grant, self.keep.clone())? {
                return Poll::Ready(Ok(Some(claim)));
            }
        }
    }
}

impl Future for TakeFuture {
    type Output = Result<Option<Claim>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().step(context)
    }
}

impl Drop for TakeFuture {
    fn drop(&mut self) {
        if let Some((arrival, slot)) = self.waiting.take() {
            // A task whose record cannot be read stays claimed until its session ends.
            let _ = self.handle.inner().run(|core| core.cancel_wait(arrival, &slot));
        }
    }
}

/// The moment at which a wait is over, on running time; `None` for never.
fn deadline(handle: &StoreHandle, timeout: Option<Duration>) -> Option<u64> {
    match timeout.map(micros_ceil)? {
        0 => Some(0),
        NEVER => None,
        timeout => Some(handle.inner().clock().running().saturating_add(timeout)),
    }
}

fn begin<'a>(
    handle: &StoreHandle,
    tubes: impl Iterator<Item = (u32, &'a str)> + Clone,
    session: SessionId,
    until: Option<u64>,
) -> Result<TakeAttempt> {
    handle.inner().run(|core| {
        for (number, name) in tubes.clone() {
            let tube = core.tube(number, name)?;
            tube.driver(|| core.known_drivers())?;
        }
        core.check_session(session)?;
        let timeout = until.map(|until| until.saturating_sub(core.now.running));
        core.take_or_wait(tubes.map(|(number, _)| number), session, timeout)
    })
}

/// Reads the bodies of tasks that were taken together through one snapshot. What cannot be read is
/// left to `fetch`, which says why.
pub(crate) fn read_together(inner: &StoreInner, grants: &mut [Grant]) {
    let mut unread = grants.iter_mut().filter(|grant| grant.row.is_none()).peekable();
    let Some(buffer) = unread.peek().map(|grant| grant.buffer) else { return };
    let _ = inner.with_engine(buffer, |engine| {
        let mut snapshot = engine.snapshot()?;
        for grant in unread {
            if let Some(row) = snapshot.get(grant.table, &grant.key)? {
                grant.row = check(grant, row).ok();
            }
        }
        Ok(())
    });
}

/// Reads the body of a task that was taken. `None` if the claim has ended meanwhile.
pub(crate) fn fetch(
    handle: &StoreHandle,
    mut grant: Grant,
    keep: Option<Arc<SessionGuard>>,
) -> Result<Option<Claim>> {
    // What memory has was checked when it was read, or comes from this life's put.
    if let Some(row) = grant.row.take() {
        return Ok(Some(Claim::new(handle.clone(), keep, grant, row)));
    }
    let inner = handle.inner();
    let row = match read(inner, &grant) {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(None),
        Err(error) => {
            release_if_current(handle, &grant);
            return Err(error);
        }
    };
    match check(&grant, row) {
        Ok(row) => Ok(Some(Claim::new(handle.clone(), keep, grant, row))),
        Err(error) => {
            // Nobody can work on it: set it aside rather than hand it out again and again.
            let by = Holder { session: grant.session, epoch: Some(grant.epoch) };
            let _ = inner.defer(grant.buffer, WhenFull::Block, |core| {
                core.bury_claimed(grant.tube, by, grant.id)
            });
            Err(error)
        }
    }
}

/// The row that holds the body; `None` if the claim has ended.
fn read(inner: &StoreInner, grant: &Grant) -> Result<Option<Value>> {
    match inner.read(grant.buffer, grant.table, &grant.key)? {
        Some(row) => Ok(Some(row)),
        None => inner.run(|core| reread(core, grant)),
    }
}

/// Gives back a task that was taken but cannot be handed out.
pub(crate) fn release_if_current(handle: &StoreHandle, grant: &Grant) {
    // A record that cannot be read stays claimed until its session ends.
    let _ = handle.inner().run(|core| core.release_if_current(grant.id, grant.epoch));
}

/// The row was moved between the claim and the read, or is gone with the claim.
fn reread(core: &mut Core, grant: &Grant) -> Result<Option<Value>> {
    if !core.is_current(grant.id, grant.epoch) {
        return Ok(None);
    }
    match core.buffers[grant.buffer].get(grant.table, &grant.key)? {
        Some(row) => Ok(Some(row)),
        None => Err(Error::corrupt(format!("task {}: its body is missing", grant.id))),
    }
}

/// The bytes at whose end the body is, if they are what was written.
fn check(grant: &Grant, row: Value) -> Result<Value> {
    if grant.header.body_checksum.is_some() {
        check_body(grant.id, &grant.header, &row)?;
        return Ok(row);
    }
    let (_, row) = tubewell_drivers::Record::decode(grant.id, row)?.into_parts();
    Ok(row)
}
