//! Taking, with or without waiting: on a thread, or as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tubewell_drivers::{NEVER, Reads, Value, check_body};

use crate::clock::micros_ceil;
use crate::core::{Core, Grant, Holder, Next, TAKE_EXPIRES, TakeNow, TakeSlot};
use crate::pipeline::{Patience, Shared};
use crate::session::SessionGuard;
use crate::store::Handle;
use crate::{Claim, Error, Result, SessionId, Tube};

/// A tube, as a take needs to name it.
type Named = (u32, Arc<str>);

/// Takes from the first of these tubes that has a task, or waits in all of them.
pub(crate) fn take(
    handle: &Handle,
    tubes: &[&Tube],
    session: SessionId,
    keep: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> Result<Option<Claim>> {
    check_tubes(handle, tubes)?;
    let until = deadline(handle, timeout);
    let named = tubes.iter().map(|tube| (tube.number(), tube.name()));
    loop {
        let grant = match begin(handle, named.clone(), session, until)? {
            TakeNow::Task(grant) => Some(grant),
            TakeNow::Nothing => None,
            TakeNow::Waiting(_, slot) => slot.wait()?,
            TakeNow::Later(lane) => {
                handle.shared().make_room(lane)?;
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

/// Takes up to `max` tasks without waiting.
pub(crate) fn take_more(tube: &Tube, max: usize, claims: &mut Vec<Claim>) -> Result<()> {
    while claims.len() < max {
        let want = (max - claims.len()).min(256);
        let mut grants = Vec::new();
        let taken = tube.shared().run(|core| take_together(core, tube, want, &mut grants));
        let later = taken.inspect_err(|_| {
            grants.drain(..).for_each(|grant| let_go(tube.handle(), &grant));
        })?;
        if grants.is_empty() && later.is_none() {
            return Ok(());
        }
        read_together(tube.shared(), &mut grants);
        let mut grants = grants.into_iter();
        while let Some(grant) = grants.next() {
            match fetch(tube.handle(), grant, tube.guard()) {
                Ok(claim) => claims.extend(claim),
                Err(error) => {
                    grants.for_each(|grant| let_go(tube.handle(), &grant));
                    return Err(error);
                }
            }
        }
        if let Some(lane) = later {
            tube.shared().make_room(lane)?;
        }
    }
    Ok(())
}

/// Takes up to `want` tasks under one hold of the lock; if there may be more, the lane in which room is
/// to be made first.
fn take_together(
    core: &mut Core,
    tube: &Tube,
    want: usize,
    grants: &mut Vec<Grant>,
) -> Result<Option<usize>> {
    tube.check(core)?;
    core.check_session(tube.session())?;
    let mut budget = TAKE_EXPIRES;
    while grants.len() < want {
        match core.take_within(tube.number(), tube.session(), &mut budget)? {
            Next::Task(grant) => grants.push(grant),
            Next::Nothing => break,
            Next::Later => return Ok(Some(core.lane_of(tube.number()))),
        }
    }
    Ok(None)
}

/// A take that waits, as a future of no particular runtime.
///
/// Resolves to a claim, or to `None` when its time is over. It stands in line from its first poll
/// on. Dropping it leaves the line; a task that it was given but has not handed out goes back to
/// its tube. Its poll may read the task's body from the file.
#[must_use = "a future takes nothing until it is polled"]
pub struct TakeFuture {
    handle: Handle,
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
        handle: &Handle,
        tubes: &[&Tube],
        session: SessionId,
        keep: Option<Arc<SessionGuard>>,
        timeout: Option<Duration>,
    ) -> TakeFuture {
        TakeFuture {
            handle: handle.clone(),
            keep,
            session,
            tubes: named(handle, tubes),
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
                        TakeNow::Task(grant) => Some(grant),
                        TakeNow::Nothing => None,
                        TakeNow::Waiting(arrival, slot) => {
                            self.waiting = Some((arrival, slot));
                            continue;
                        }
                        TakeNow::Later(lane) => {
                            // Others of the same thread are to go on, too.
                            self.handle.shared().make_room(lane)?;
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
            let _ = self.handle.shared().run(|core| core.give_up(arrival, &slot));
        }
    }
}

fn named(handle: &Handle, tubes: &[&Tube]) -> Result<Vec<Named>> {
    check_tubes(handle, tubes)?;
    Ok(tubes.iter().map(|tube| (tube.number(), tube.shared_name())).collect())
}

fn check_tubes(handle: &Handle, tubes: &[&Tube]) -> Result<()> {
    if tubes.is_empty() {
        return Err(Error::invalid("a take needs at least one tube"));
    }
    if tubes.iter().any(|tube| !tube.handle().is(handle)) {
        return Err(Error::invalid("the tubes of one take belong to one store"));
    }
    Ok(())
}

/// The moment at which a wait is over, on running time; `None` for never.
fn deadline(handle: &Handle, timeout: Option<Duration>) -> Option<u64> {
    match timeout.map(micros_ceil)? {
        0 => Some(0),
        NEVER => None,
        timeout => Some(handle.shared().clock().running().saturating_add(timeout)),
    }
}

fn begin<'a>(
    handle: &Handle,
    tubes: impl Iterator<Item = (u32, &'a str)> + Clone,
    session: SessionId,
    until: Option<u64>,
) -> Result<TakeNow> {
    handle.shared().run(|core| {
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
fn read_together(shared: &Shared, grants: &mut [Grant]) {
    let mut unread = grants.iter_mut().filter(|grant| grant.row.is_none()).peekable();
    let Some(lane) = unread.peek().map(|grant| grant.lane) else { return };
    let _ = shared.with_engine(lane, |engine| {
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
fn fetch(
    handle: &Handle,
    mut grant: Grant,
    keep: Option<Arc<SessionGuard>>,
) -> Result<Option<Claim>> {
    // What memory has was checked when it was read, or comes from this life's put.
    if let Some(row) = grant.row.take() {
        return Ok(Some(Claim::new(handle.clone(), keep, grant, row)));
    }
    let shared = handle.shared();
    let row = match read(shared, &grant) {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(None),
        Err(error) => {
            let_go(handle, &grant);
            return Err(error);
        }
    };
    match check(&grant, row) {
        Ok(row) => Ok(Some(Claim::new(handle.clone(), keep, grant, row))),
        Err(error) => {
            // Nobody can work on it: set it aside rather than hand it out again and again.
            let by = Holder { session: grant.session, epoch: Some(grant.epoch) };
            let _ = shared.defer(grant.lane, Patience::Block, |core| {
                core.set_aside(grant.tube, by, grant.id)
            });
            Err(error)
        }
    }
}

/// The row that holds the body; `None` if the claim has ended.
fn read(shared: &Shared, grant: &Grant) -> Result<Option<Value>> {
    match shared.read(grant.lane, grant.table, &grant.key)? {
        Some(row) => Ok(Some(row)),
        None => shared.run(|core| reread(core, grant)),
    }
}

/// Gives back a task that was taken but cannot be handed out.
fn let_go(handle: &Handle, grant: &Grant) {
    // A record that cannot be read stays claimed until its session ends.
    let _ = handle.shared().run(|core| core.let_go(grant.id, grant.epoch));
}

/// The row was moved between the claim and the read, or is gone with the claim.
fn reread(core: &mut Core, grant: &Grant) -> Result<Option<Value>> {
    if !core.claim_stands(grant.id, grant.epoch) {
        return Ok(None);
    }
    match core.lanes[grant.lane].get(grant.table, &grant.key)? {
        Some(row) => Ok(Some(row)),
        None => Err(Error::corrupt(format!("task {}: its body is missing", grant.id))),
    }
}

/// The bytes at whose end the body is, if they are what was written.
fn check(grant: &Grant, row: Value) -> Result<Value> {
    if grant.header.apart.is_some() {
        check_body(grant.id, &grant.header, &row)?;
        return Ok(row);
    }
    let (_, row) = tubewell_drivers::Record::decode(grant.id, row)?.into_parts();
    Ok(row)
}
