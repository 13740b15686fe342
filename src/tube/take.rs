//! Taking tasks from a tube.

use std::sync::Arc;
use std::time::Duration;

use super::Tube;
use crate::core::{Core, Grant, MAX_EXPIRED_PER_TAKE, TakeStep};
use crate::handle::{SessionGuard, StoreHandle};
use crate::wait::{Named, TakeFuture, fetch, read_together, release_if_current, take};
use crate::{Claim, Error, Result, SessionId};

impl Tube {
    /// Takes the next ready task: it is taken, by this handle's session, until the claim is
    /// finished, dropped or over.
    ///
    /// Waits for a task as long as this or, with `None`, for ever. Those who wait are served in order
    /// of arrival, and nobody overtakes them; [`close`](crate::Store::close) ends every wait. A take
    /// writes nothing and never waits for a flush: the claim lives in memory and ends with the
    /// process, after which the task is ready again. The body is read from the file.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Error::SessionEnded);
    /// [`DriverUnknown`](crate::Error::DriverUnknown): nothing was taken.
    /// [`Corrupt`](crate::Error::Corrupt) if the body of the task is damaged: it has been buried.
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
        let named = std::iter::once((self.head.number, &*self.head.name));
        take(&self.handle, named, self.session, self.guard.clone(), timeout.into())
    }

    /// Takes the next ready task if there is one now; as [`take`](Tube::take) without a wait.
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn try_take(&self) -> Result<Option<Claim>> {
        self.take(Duration::ZERO)
    }

    /// Takes up to `max` ready tasks, in order; waits for the first one only, as
    /// [`take`](Tube::take) does. Empty when the time is over.
    ///
    /// # Errors
    /// As [`take`](Tube::take); what was taken by then is released.
    ///
    /// # Example: ten tasks, one flush
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Claim;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b", "c"])?;
    /// let claims = tube.take_many(10, Duration::from_secs(1))?;
    /// claims.iter().for_each(|claim| println!("{}", claim.id()));
    /// Claim::ack_many(claims)?;
    /// # assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
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
    ///
    /// It stands in line from its first poll on, and its time begins then. Dropping it loses no task:
    /// one that it was handed goes back.
    ///
    /// # Errors
    /// It resolves to those of [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Result, Tube};
    ///
    /// async fn work(jobs: Tube) -> Result<()> {
    ///     while let Some(job) = jobs.take_async(None).await? {
    ///         println!("{} bytes", job.data().len());
    ///         job.ack()?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn take_async(&self, timeout: impl Into<Option<Duration>>) -> TakeFuture {
        let named = Ok(vec![(self.head.number, self.head.name.clone())]);
        TakeFuture::new(&self.handle, named, self.session, self.guard.clone(), timeout.into())
    }
}

/// Takes from the first of these tubes that has a task, or waits in all of them.
pub(crate) fn take_any(
    handle: &StoreHandle,
    tubes: &[&Tube],
    session: SessionId,
    keep: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> Result<Option<Claim>> {
    check_tubes(handle, tubes)?;
    let named = tubes.iter().map(|tube| (tube.head.number, &*tube.head.name));
    take(handle, named, session, keep, timeout)
}

/// As [`take_any`], as a future.
pub(crate) fn take_any_async(
    handle: &StoreHandle,
    tubes: &[&Tube],
    session: SessionId,
    keep: Option<Arc<SessionGuard>>,
    timeout: Option<Duration>,
) -> TakeFuture {
    TakeFuture::new(handle, named(handle, tubes), session, keep, timeout)
}

/// Takes up to `max` tasks without waiting.
pub(crate) fn take_more(tube: &Tube, max: usize, claims: &mut Vec<Claim>) -> Result<()> {
    while claims.len() < max {
        let want = (max - claims.len()).min(256);
        let mut grants = Vec::new();
        let taken = tube.inner().run(|core| take_together(core, tube, want, &mut grants));
        let later = taken.inspect_err(|_| {
            grants.drain(..).for_each(|grant| release_if_current(tube.handle(), &grant));
        })?;
        if grants.is_empty() && later.is_none() {
            return Ok(());
        }
        read_together(tube.inner(), &mut grants);
        let mut grants = grants.into_iter();
        while let Some(grant) = grants.next() {
            match fetch(tube.handle(), grant, tube.guard()) {
                Ok(claim) => claims.extend(claim),
                Err(error) => {
                    grants.for_each(|grant| release_if_current(tube.handle(), &grant));
                    return Err(error);
                }
            }
        }
        if let Some(buffer) = later {
            tube.inner().wait_for_capacity(buffer)?;
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
    let mut budget = MAX_EXPIRED_PER_TAKE;
    while grants.len() < want {
        match core.take_within(tube.number(), tube.session(), &mut budget)? {
            TakeStep::Task(grant) => grants.push(grant),
            TakeStep::Empty => break,
            TakeStep::BudgetSpent => return Ok(Some(core.buffer_of(tube.number()))),
        }
    }
    Ok(None)
}

fn named(handle: &StoreHandle, tubes: &[&Tube]) -> Result<Vec<Named>> {
    check_tubes(handle, tubes)?;
    Ok(tubes.iter().map(|tube| (tube.number(), tube.shared_name())).collect())
}

fn check_tubes(handle: &StoreHandle, tubes: &[&Tube]) -> Result<()> {
    if tubes.is_empty() {
        return Err(Error::invalid("a take needs at least one tube"));
    }
    if tubes.iter().any(|tube| !tube.handle().is_same_store(handle)) {
        return Err(Error::invalid("the tubes of one take belong to one store"));
    }
    Ok(())
}
