//! Where the outcome of one call arrives.

use std::task::{Poll, Waker};

use crate::error::CallError;
use crate::sync::{Condvar, Mutex};
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

/// What a caller leaves when it goes.
pub(crate) enum Left {
    /// An answer that it did not take.
    Answer(Vec<u8>),
    /// A call without an answer.
    Call,
    Nothing,
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

    /// Blocks until the outcome is there, and takes it.
    pub(crate) fn wait(&self) -> Outcome {
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

    /// Takes the outcome if it is there; otherwise `waker` is woken when it is.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
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

    /// Whether the outcome is there, or was taken.
    pub(crate) fn is_done(&self) -> bool {
        matches!(*self.state.lock(), State::Done(_) | State::Gone)
    }

    /// The caller goes.
    pub(crate) fn leave(&self) -> Left {
        let before = std::mem::replace(&mut *self.state.lock(), State::Gone);
        match before {
            State::Done(Ok(body)) => Left::Answer(body),
            State::Done(Err(_)) | State::Gone => Left::Nothing,
            State::Empty | State::Polled(_) => Left::Call,
        }
    }
}
