//! A call whose answer is pending.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::connector::Connector;
use super::slot::{Left, Slot};
use crate::error::CallError;
use crate::sync::Arc;

/// A call in flight. It is a future of its answer.
///
/// Dropping it cancels the call if [`CallKind::cancel`](crate::CallKind::cancel) is set. An answer that arrives
/// nevertheless, or has arrived and was not taken, goes to [`Handler::orphan`](crate::Handler::orphan).
#[must_use = "dropping it may cancel the call"]
pub struct Pending {
    slot: Arc<Slot>,
    connector: Arc<Connector>,
    /// `None`: the call was not made.
    number: Option<u64>,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

impl Pending {
    pub(super) fn new(slot: Arc<Slot>, connector: Arc<Connector>, number: Option<u64>) -> Pending {
        Pending { slot, connector, number }
    }

    /// Waits for the answer. Blocks until there is one or the call has failed; while there is no connection,
    /// at most [`ClientOptions::connect_timeout`](crate::ClientOptions::connect_timeout).
    ///
    /// # Errors
    ///
    /// See [`CallError`]: it says in each case whether the call may have had its effect.
    pub fn wait(self) -> Result<Vec<u8>, CallError> {
        self.connector.check_process()?;
        self.write_before(self.slot.is_done());
        self.slot.wait()
    }

    /// Whether the answer, or the error, is there: [`wait`](Pending::wait) does not block.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.connector.check_process().is_err() || self.slot.is_done()
    }

    /// Takes the answer if it is there; otherwise `waker` is woken when it is. After `Ready`, further polls
    /// return [`CallError::Closed`].
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<Vec<u8>, CallError>> {
        self.connector.check_process()?;
        let answer = self.slot.poll(waker);
        self.write_before(answer.is_ready());
        answer
    }

    /// A call that somebody waits for is written at once.
    fn write_before(&self, is_done: bool) {
        if !is_done && self.number.is_some() {
            self.connector.write_left();
        }
    }
}

impl Future for Pending {
    type Output = Result<Vec<u8>, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pending::poll(&mut self, context.waker())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.connector.check_process().is_err() {
            return;
        }
        match self.slot.leave() {
            Left::Nothing => {}
            Left::Answer(body) => self.connector.orphan(&body),
            Left::Call => {
                if let Some(number) = self.number {
                    self.connector.abandon(number);
                }
            }
        }
    }
}
