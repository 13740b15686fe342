//! Takes that are counted before the task is handed out.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::Result;
use crate::core::{Decided, Grant, Wait};
use crate::runtime::open_store::LocalHandle;

/// Blocks until the take of a task is counted. Returns whether the task is handed out: not if its
/// claim has ended meanwhile. If the take cannot be counted, the task is not handed out either, and
/// the attempt is forgiven.
#[inline]
pub(crate) fn counted(handle: &LocalHandle, grant: &mut Grant) -> Result<bool> {
    match grant.counted.take() {
        None => Ok(true),
        Some(wait) => wait_until_counted(handle, grant, *wait),
    }
}

#[cold]
fn wait_until_counted(handle: &LocalHandle, grant: &Grant, wait: Wait) -> Result<bool> {
    let counted = Decided { answer: (), wait: Some(wait) };
    let counted = handle.inner().and_then(|inner| inner.wait_deferred(counted));
    if counted.is_err() {
        handle.drop_claim(grant.key(), true);
    }
    counted.map(|()| is_current(handle, grant))
}

/// Whether the claim has not ended while its take was being counted.
fn is_current(handle: &LocalHandle, grant: &Grant) -> bool {
    handle.inner().is_ok_and(|inner| inner.run(|core| core.is_current(grant.key())))
}

/// A task that a future hands out once its take is counted. Dropping it forgives the attempt.
pub(crate) struct CountedTake {
    handle: LocalHandle,
    grant: Option<Grant>,
    wait: Option<Box<Wait>>,
}

impl CountedTake {
    pub(crate) fn new(handle: &LocalHandle, mut grant: Grant) -> CountedTake {
        let wait = grant.counted.take();
        if let Some(wait) = wait.as_ref().filter(|wait| wait.batch().outcome().is_none())
            && let Ok(inner) = handle.inner()
        {
            inner.run(|core| core.ask_writer(wait));
        }
        CountedTake { handle: handle.clone(), grant: Some(grant), wait }
    }

    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Result<()>> {
        self.wait.as_ref().map_or(Poll::Ready(Ok(())), |wait| wait.batch().poll(waker))
    }

    /// Waits until the take is counted.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        poll_fn(|context| self.poll(context.waker())).await
    }

    /// The task, whose take the caller has waited for. `None` if the claim has ended meanwhile.
    pub(crate) fn into_grant(mut self) -> Option<Grant> {
        let grant = self.grant.take()?;
        (self.wait.is_none() || is_current(&self.handle, &grant)).then_some(grant)
    }

    /// The task, once its take is counted.
    pub(crate) async fn counted(mut self) -> Result<Option<Grant>> {
        self.wait().await?;
        Ok(self.into_grant())
    }
}

impl Drop for CountedTake {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.handle.drop_claim(grant.key(), true);
        }
    }
}
