//! A call whose answer is pending.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::connector::Connector;
use crate::CallError;
use crate::sync::{Arc, Condvar, Mutex};
use crate::user_code::catch_panic;

/// What a call returns.
pub(crate) type Outcome = Result<Vec<u8>, CallError>;

/// Where the outcome of one call arrives.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    /// A task waits.
    Polled(Waker),
    Done(Outcome),
    /// The outcome was taken, or the caller has gone.
    Gone,
}

impl Slot {
    /// Gives the outcome to the caller. If the caller has gone, it is returned.
    pub(crate) fn complete(&self, outcome: Outcome) -> Option<Outcome> {
        let mut state = self.state.lock();
        if let State::Gone | State::Done(_) = *state {
            return Some(outcome);
        }
        let before = std::mem::replace(&mut *state, State::Done(outcome));
        drop(state);
        match before {
            // The waker is the application's; its panic must not harm other calls.
            State::Polled(waker) => drop(catch_panic(|| waker.wake())),
            _ => {
                self.done.notify_one();
            }
        }
        None
    }

    fn wait(&self) -> Outcome {
        // A waker of earlier polls, dropped once the lock is released.
        let mut _waker = State::Empty;
        let mut state = self.state.lock();
        loop {
            match std::mem::replace(&mut *state, State::Gone) {
                State::Done(outcome) => return outcome,
                State::Gone => return Err(CallError::Closed),
                State::Empty => {}
                polled @ State::Polled(_) => _waker = polled,
            }
            *state = State::Empty;
            self.done.wait(&mut state);
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = self.state.lock();
        if matches!(&*state, State::Polled(before) if before.will_wake(waker)) {
            return Poll::Pending;
        }
        if let State::Empty | State::Polled(_) = *state {
            // Wakers are the application's: they are neither cloned nor dropped under the lock.
            drop(state);
            let new = State::Polled(waker.clone());
            state = self.state.lock();
            if let State::Empty | State::Polled(_) = *state {
                let before = std::mem::replace(&mut *state, new);
                drop(state);
                drop(before);
                return Poll::Pending;
            }
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Done(outcome) => Poll::Ready(outcome),
            _ => Poll::Ready(Err(CallError::Closed)),
        }
    }
}

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
        self.slot.wait()
    }

    /// Whether the answer, or the error, is there: [`wait`](Pending::wait) does not block.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(*self.slot.state.lock(), State::Done(_) | State::Gone)
    }

    /// Takes the answer if it is there; otherwise `waker` is woken when it is. After `Ready`, further polls
    /// return [`CallError::Closed`].
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<Vec<u8>, CallError>> {
        self.slot.poll(waker)
    }
}

impl Future for Pending {
    type Output = Result<Vec<u8>, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(context.waker())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.slot.state.lock(), State::Gone);
        match before {
            State::Gone | State::Done(Err(_)) => {}
            State::Done(Ok(body)) => self.connector.orphan(&body),
            State::Empty | State::Polled(_) => {
                if let Some(number) = self.number {
                    self.connector.abandon(number);
                }
            }
        }
    }
}
