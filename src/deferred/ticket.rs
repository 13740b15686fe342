//! The answer of a deferred call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Result;
use crate::connection::{Promise, answered_already};
use crate::core::Decided;

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
pub struct Ticket<T>(Option<Answer<T>>);

enum Answer<T> {
    /// It waits for nothing.
    Known(T),
    Promised(Promise<T>),
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").finish_non_exhaustive()
    }
}

impl<T> Ticket<T> {
    pub(super) fn new(promise: Promise<T>) -> Ticket<T> {
        Ticket(Some(Answer::Promised(promise)))
    }

    /// A ticket whose answer is there already.
    pub(super) fn answered(answer: T) -> Ticket<T> {
        Ticket(Some(Answer::Known(answer)))
    }

    /// Blocks until the answer is there, and returns it.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush or the write failed. The call is
    /// applied when the storage works again. If the process ends before that, the call is applied
    /// as a whole or not at all. [`Invalid`](crate::Error::Invalid): the future has returned the
    /// answer already.
    pub fn wait(mut self) -> Result<T> {
        match self.0.take().ok_or_else(answered_already)? {
            Answer::Known(answer) => Ok(answer),
            Answer::Promised(Promise::Here(store, decided)) => {
                store.inner()?.wait_deferred(decided)
            }
            Answer::Promised(Promise::Remote(promise)) => promise.wait(),
        }
    }

    /// Whether the answer is there: [`wait`](Ticket::wait) would not block.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Some(Answer::Promised(Promise::Here(_, Decided { wait: Some(wait), .. }))) => {
                wait.batch().outcome().is_some()
            }
            Some(Answer::Promised(Promise::Remote(promise))) => promise.is_done(),
            _ => true,
        }
    }
}

impl<T: 'static> Ticket<T> {
    pub(super) fn map<U>(self, with: impl FnOnce(T) -> U + Send + Sync + 'static) -> Ticket<U> {
        Ticket(self.0.map(|answer| match answer {
            Answer::Known(answer) => Answer::Known(with(answer)),
            Answer::Promised(promise) => Answer::Promised(promise.map(with)),
        }))
    }
}

/// A ticket pins none of its fields.
impl<T> Unpin for Ticket<T> {}

impl<T> Future for Ticket<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let ticket = self.get_mut();
        if let Some(Answer::Promised(Promise::Here(store, _))) = &ticket.0 {
            // In a fork, no thread would lead the commit.
            store.inner()?;
        }
        let outcome = match &mut ticket.0 {
            None => return Poll::Ready(Err(answered_already())),
            Some(Answer::Promised(Promise::Here(_, Decided { wait: Some(wait), .. }))) => {
                wait.batch().poll(context.waker())
            }
            Some(Answer::Promised(Promise::Remote(promise))) => {
                let answer = Pin::new(promise).poll(context);
                if answer.is_ready() {
                    ticket.0 = None;
                }
                return answer;
            }
            Some(_) => Poll::Ready(Ok(())),
        };
        let Poll::Ready(outcome) = outcome else { return Poll::Pending };
        match ticket.0.take() {
            Some(
                Answer::Known(answer) | Answer::Promised(Promise::Here(_, Decided { answer, .. })),
            ) => Poll::Ready(outcome.map(|()| answer)),
            _ => Poll::Ready(Err(answered_already())),
        }
    }
}
