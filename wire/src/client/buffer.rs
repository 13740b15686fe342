//! Where the items of one call arrive.

use std::collections::VecDeque;
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::clock;
use crate::error::CallError;
use crate::limits::WINDOW;
use crate::sync::{Condvar, Mutex};
use crate::user_code::catch_panic;

/// Items that have arrived.
#[derive(Default)]
pub(crate) struct Buffer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Vec<u8>>,
    /// How many items the application has taken, and how many the server knows of.
    taken: u64,
    told: u64,
    /// No more items arrive.
    ended: bool,
    /// Why, unless the server ended them.
    error: Option<CallError>,
    waker: Option<Waker>,
}

impl Buffer {
    /// Adds an item; the caller wakes the receiver, once it has released its locks. False: the server has sent
    /// more than it may.
    #[must_use]
    pub(crate) fn push(&self, item: Vec<u8>) -> bool {
        let mut state = self.state.lock();
        if state.items.len() as u64 >= WINDOW {
            return false;
        }
        state.items.push_back(item);
        true
    }

    /// Wakes the receiver.
    pub(crate) fn wake(&self) {
        let waker = self.state.lock().waker.take();
        if let Some(waker) = waker {
            // The waker is the application's; its panic must not harm other calls.
            let _ = catch_panic(|| waker.wake());
        }
        self.changed.notify_all();
    }

    /// Takes the next item if there is one.
    pub(crate) fn try_take(&self) -> Option<Taken> {
        self.state.lock().take()
    }

    /// Takes the next item. Blocks until there is one, or until `deadline`; `None` at the end.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Option<Taken> {
        let mut state = self.state.lock();
        loop {
            if let Some(taken) = state.take() {
                return Some(taken);
            }
            let left = deadline.map(clock::left);
            if state.ended || left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            match left {
                Some(left) => {
                    self.changed.wait_for(&mut state, left);
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Takes the next item, `None` at the end; otherwise `waker` is woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Option<Taken>> {
        let mut state = self.state.lock();
        if !state.waker.as_ref().is_some_and(|before| before.will_wake(waker)) {
            // Wakers are the application's: they are neither cloned nor dropped under the lock.
            drop(state);
            let mut new = Some(waker.clone());
            state = self.state.lock();
            std::mem::swap(&mut state.waker, &mut new);
            drop(state);
            drop(new);
            state = self.state.lock();
        }
        match state.take() {
            Some(taken) => Poll::Ready(Some(taken)),
            None if state.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// How many items wait to be taken.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().items.len()
    }

    /// Whether no more items arrive.
    pub(crate) fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Why the items have ended, unless the server ended them.
    pub(crate) fn error(&self) -> Option<CallError> {
        self.state.lock().error.clone()
    }

    /// Ends the items.
    pub(crate) fn end(&self, error: Option<CallError>) {
        let mut state = self.state.lock();
        state.ended = true;
        state.error = error;
        drop(state);
        self.wake();
    }
}

/// An item, and what to tell the server: how many were taken.
pub(crate) type Taken = (Vec<u8>, Option<u64>);

impl State {
    fn take(&mut self) -> Option<Taken> {
        let item = self.items.pop_front()?;
        self.taken += 1;
        if self.ended || self.taken - self.told < WINDOW / 2 {
            return Some((item, None));
        }
        self.told = self.taken;
        Some((item, Some(self.taken)))
    }
}
