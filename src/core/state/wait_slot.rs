//! A one-shot channel: one waiter, a thread or a future, receives one value.

use std::task::{Poll, Waker};

use crate::base::sync::{Condvar, Mutex};
use crate::base::user_code;

/// Filled at most once, emptied at most once.
#[derive(Debug)]
pub(crate) struct WaitSlot<T> {
    state: Mutex<(Option<T>, Option<Waker>)>,
    filled: Condvar,
}

impl<T> WaitSlot<T> {
    pub(crate) fn new() -> WaitSlot<T> {
        WaitSlot { state: Mutex::new((None, None)), filled: Condvar::new() }
    }

    /// Stores the value. The caller wakes the waiter later, with [`wake`](WaitSlot::wake).
    pub(crate) fn fill(&self, value: T) {
        self.state.lock().0 = Some(value);
    }

    /// Wakes the waiter.
    pub(crate) fn wake(&self) {
        let waker = self.state.lock().1.take();
        self.filled.notify_one();
        if let Some(waker) = waker {
            user_code::wake(waker);
        }
    }

    /// Blocks until there is a value.
    pub(crate) fn wait(&self) -> T {
        let mut state = self.state.lock();
        loop {
            if let Some(value) = state.0.take() {
                return value;
            }
            self.filled.wait(&mut state);
        }
    }

    /// Returns the value, or registers `waker` for it.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        // Cloning and dropping a waker runs user code, which may call the store. It must not run
        // under this lock, which `fill` takes while it holds the store's lock.
        let mut waker = Some(waker.clone());
        let mut state = self.state.lock();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                std::mem::swap(&mut state.1, &mut waker);
                Poll::Pending
            }
        }
    }

    /// Whether there is a value, and this holds for it.
    pub(crate) fn is_filled_with(&self, holds: impl FnOnce(&T) -> bool) -> bool {
        self.state.lock().0.as_ref().is_some_and(holds)
    }

    /// Takes the value, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        self.state.lock().0.take()
    }
}
