//! The answer of a deferred call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::core::Decided;
use crate::handle::StoreHandle;
use crate::{Error, Result};

/// The answer to a deferred call. It is there once the flush that holds the call is done, and in a
/// [written](crate::Durability::Write) tube once the write is done.
///
/// [`wait`](Ticket::wait) blocks a thread for it; as a future, the ticket works with any runtime or
/// none. Dropping a ticket discards the answer, not the call: the call takes effect and is flushed.
/// A ticket keeps the store open, as every handle does. [`close`](crate::Store::close) flushes all
/// deferred calls, so a ticket that outlives it has its answer.
///
/// # Example: awaited
/// ```
/// use tubewell::{Result, Tube, WhenFull};
///
/// async fn enqueue(jobs: &Tube, names: &[&str]) -> Result<()> {
///     let deferred = jobs.deferred(WhenFull::Refuse);
///     let mut tickets = Vec::new();
///     for name in names {
///         deferred.capacity_async().await?;
///         tickets.push(deferred.put(*name)?);
///     }
///     for ticket in tickets {
///         ticket.await?; // on the disk
///     }
///     Ok(())
/// }
/// ```
#[must_use = "an answer that is not read may be an error"]
pub struct Ticket<T> {
    /// `None` for an answer that waits for nothing.
    handle: Option<StoreHandle>,
    decided: Option<Decided<T>>,
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<T> Ticket<T> {
    pub(super) fn new(handle: StoreHandle, decided: Decided<T>) -> Ticket<T> {
        Ticket { handle: Some(handle), decided: Some(decided) }
    }

    /// A ticket whose answer is there already.
    pub(super) fn answered(answer: T) -> Ticket<T> {
        Ticket { handle: None, decided: Some(Decided { answer, wait: None }) }
    }

    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U) -> Ticket<U> {
        Ticket { handle: self.handle, decided: self.decided.map(|decided| decided.map(with)) }
    }

    /// Blocks until the answer is there, and returns it.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](Error::OutcomeUnknown): the flush or the write failed. The call is
    /// applied when the storage works again. If the process ends before that, the call is applied
    /// as a whole or not at all. [`Closed`](Error::Closed): the future has returned the answer
    /// already.
    pub fn wait(mut self) -> Result<T> {
        let decided = self.decided.take().ok_or(Error::Closed)?;
        match &self.handle {
            Some(handle) => handle.inner().wait_deferred(decided),
            None => Ok(decided.answer),
        }
    }

    /// Whether the answer is there: [`wait`](Ticket::wait) would not block.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.decided {
            Some(Decided { wait: Some(wait), .. }) => wait.batch().outcome().is_some(),
            _ => true,
        }
    }
}

/// A ticket pins none of its fields.
impl<T> Unpin for Ticket<T> {}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let ticket = self.get_mut();
        let Some(decided) = ticket.decided.take() else {
            return Poll::Ready(Err(Error::Closed));
        };
        if let Some(wait) = &decided.wait {
            match wait.batch().poll(context.waker()) {
                Poll::Ready(outcome) => return Poll::Ready(outcome.map(|()| decided.answer)),
                Poll::Pending => {
                    ticket.decided = Some(decided);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(decided.answer))
    }
}
