//! Takes that are counted before the task is handed out.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::Result;
use crate::core::{Decided, Grant, Wait};
use crate::handle::StoreHandle;

/// Blocks until the take of a task is counted. If it cannot be counted, the task is not handed out,
/// and the attempt is forgiven. `None` if the claim has ended meanwhile.
#[inline]
pub(crate) fn counted(handle: &StoreHandle, mut grant: Grant) -> Result<Option<Grant>> {
    match grant.counted.take() {
        None => Ok(Some(grant)),
        Some(wait) => wait_until_counted(handle, grant, *wait),
    }
}

#[cold]
fn wait_until_counted(handle: &StoreHandle, grant: Grant, wait: Wait) -> Result<Option<Grant>> {
    match handle.inner().wait_deferred(Decided { answer: (), wait: Some(wait) }) {
        Ok(()) => Ok(if_current(handle, grant)),
        Err(error) => {
            handle.drop_claim(&grant, true);
            Err(error)
        }
    }
}

/// The task, unless its claim has ended while its take was being counted.
fn if_current(handle: &StoreHandle, grant: Grant) -> Option<Grant> {
    let is_current = handle.inner().run(|core| core.is_current(grant.id, grant.epoch));
    is_current.then_some(grant)
}

/// A task that a future hands out once its take is counted. Dropping it forgives the attempt.
pub(crate) struct CountedTake {
    handle: StoreHandle,
    grant: Option<Grant>,
    wait: Option<Box<Wait>>,
}

impl CountedTake {
    pub(crate) fn new(handle: &StoreHandle, mut grant: Grant) -> CountedTake {
        let wait = grant.counted.take();
        if let Some(wait) = wait.as_ref().filter(|wait| wait.batch().outcome().is_none()) {
            handle.inner().run(|core| core.ask_writer(wait));
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
        if self.wait.is_some() { if_current(&self.handle, grant) } else { Some(grant) }
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
            self.handle.drop_claim(&grant, true);
        }
    }
}
