//! The items of a subscription.

use std::collections::VecDeque;
use std::fmt;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::connector::Connector;
use crate::limits::WINDOW;
use crate::sync::{Arc, Condvar, Mutex};
use crate::user_code::catch_panic;
use crate::{CallError, clock};

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
    /// Adds an item; the caller wakes whoever waits, once it has released its locks. False: the server has sent
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

    /// Wakes whoever waits for items.
    pub(crate) fn wake(&self) {
        let waker = self.state.lock().waker.take();
        if let Some(waker) = waker {
            // The waker is the application's; its panic must not harm other calls.
            let _ = catch_panic(|| waker.wake());
        }
        self.changed.notify_all();
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

impl State {
    /// Takes the next item. The second value is what to tell the server.
    fn take(&mut self) -> Option<(Vec<u8>, Option<u64>)> {
        let item = self.items.pop_front()?;
        self.taken += 1;
        if self.ended || self.taken - self.told < WINDOW / 2 {
            return Some((item, None));
        }
        self.told = self.taken;
        Some((item, Some(self.taken)))
    }
}

/// The items of a subscription. Dropping it cancels the subscription.
///
/// At most 1024 items wait here to be taken; the server sends no more until some are.
pub struct Items {
    buffer: Arc<Buffer>,
    connector: Arc<Connector>,
    /// `None`: the call was not made.
    number: Option<u64>,
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.buffer.state.lock();
        f.debug_struct("Items")
            .field("waiting", &state.items.len())
            .field("ended", &state.ended)
            .finish_non_exhaustive()
    }
}

impl Items {
    pub(super) fn new(
        buffer: Arc<Buffer>,
        connector: Arc<Connector>,
        number: Option<u64>,
    ) -> Items {
        Items { buffer, connector, number }
    }

    /// Takes the next item. Blocks until there is one; `None` at the end.
    #[must_use]
    pub fn recv(&self) -> Option<Vec<u8>> {
        let mut state = self.buffer.state.lock();
        loop {
            if let Some((item, taken)) = state.take() {
                drop(state);
                self.tell(taken);
                return Some(item);
            }
            if state.ended {
                return None;
            }
            self.buffer.changed.wait(&mut state);
        }
    }

    /// Takes the next item. Blocks at most `timeout`; `None` at the end, and if none came in time.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Vec<u8>> {
        let deadline = clock::in_time(timeout);
        let mut state = self.buffer.state.lock();
        loop {
            if let Some((item, taken)) = state.take() {
                drop(state);
                self.tell(taken);
                return Some(item);
            }
            let left = clock::left(deadline);
            if state.ended || left.is_zero() {
                return None;
            }
            self.buffer.changed.wait_for(&mut state, left);
        }
    }

    /// Takes the next item if there is one. Does not block.
    #[must_use]
    pub fn try_recv(&self) -> Option<Vec<u8>> {
        let (item, taken) = self.buffer.state.lock().take()?;
        self.tell(taken);
        Some(item)
    }

    /// Takes the next item if there is one, `None` at the end; otherwise `waker` is woken when there is. Only
    /// the last waker is kept.
    pub fn poll_next(&self, waker: &Waker) -> Poll<Option<Vec<u8>>> {
        let mut state = self.buffer.state.lock();
        if !state.waker.as_ref().is_some_and(|before| before.will_wake(waker)) {
            // Wakers are the application's: they are neither cloned nor dropped under the lock.
            drop(state);
            let mut new = Some(waker.clone());
            state = self.buffer.state.lock();
            std::mem::swap(&mut state.waker, &mut new);
            drop(state);
            drop(new);
            state = self.buffer.state.lock();
        }
        let taken = state.take();
        let ended = state.ended;
        drop(state);
        match taken {
            Some((item, taken)) => {
                self.tell(taken);
                Poll::Ready(Some(item))
            }
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Whether no more items will arrive. Some may still wait to be taken.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.buffer.state.lock().ended
    }

    /// Why the items have ended, unless the server ended them.
    #[must_use]
    pub fn error(&self) -> Option<CallError> {
        self.buffer.state.lock().error.clone()
    }

    fn tell(&self, taken: Option<u64>) {
        if let (Some(number), Some(taken)) = (self.number, taken) {
            self.connector.taken(number, taken);
        }
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        let ended = self.buffer.state.lock().ended;
        if let Some(number) = self.number
            && !ended
        {
            self.connector.abandon(number);
        }
    }
}
