//! A place where one sleeper, thread or future, finds what it waits for.

use std::task::{Poll, Waker};

use crate::sync::{Condvar, Mutex};
use crate::user_code;

/// Filled once, emptied once.
#[derive(Debug)]
pub(crate) struct WaitSlot<T> {
    state: Mutex<(Option<T>, Option<Waker>)>,
    filled: Condvar,
}

impl<T> WaitSlot<T> {
    pub(crate) fn new() -> WaitSlot<T> {
        WaitSlot { state: Mutex::new((None, None)), filled: Condvar::new() }
    }

    /// Puts the value there. The caller wakes the sleeper later, with [`wake`](WaitSlot::wake).
    pub(crate) fn fill(&self, value: T) {
        self.state.lock().0 = Some(value);
    }

    /// Wakes the sleeper.
    pub(crate) fn wake(&self) {
        let waker = self.state.lock().1.take();
        self.filled.notify_one();
        if let Some(waker) = waker {
            user_code::wake(waker);
        }
    }

    /// Sleeps until there is a value.
    pub(crate) fn wait(&self) -> T {
        let mut state = self.state.lock();
        loop {
            if let Some(value) = state.0.take() {
                return value;
            }
            self.filled.wait(&mut state);
        }
    }

    /// The value, or a wake-up when it is there.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        // To clone a waker and to drop one is others' code, which may call the store: not under
        // the lock, which whoever hands out a task takes under that of the store.
        let mut other = Some(waker.clone());
        let mut state = self.state.lock();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                std::mem::swap(&mut state.1, &mut other);
                Poll::Pending
            }
        }
    }

    /// The value, if it is there.
    pub(crate) fn take(&self) -> Option<T> {
        self.state.lock().0.take()
    }
}
