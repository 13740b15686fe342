//! Threads that wait for futures.

use std::future::{Future, poll_fn};
use std::mem::replace;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell_drivers::NEVER;

use crate::base::clock::Clock;
use crate::base::micros::{duration, micros_ceil};
use crate::base::sync::{Condvar, Mutex};

/// Blocks this thread until the future has its value.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let thread = Arc::new(ParkedThread::default());
    let waker = Waker::from(thread.clone());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread.wait(),
        }
    }
}

/// As [`block_on`], for at most `longest` of the running time of the machine. `None` if that has
/// elapsed.
pub(crate) fn block_on_for<T>(future: impl Future<Output = T>, longest: Duration) -> Option<T> {
    let mut future = pin!(future);
    let thread = Arc::new(ParkedThread::default());
    let waker = Waker::from(thread.clone());
    let time = TimeLimit::new(longest);
    loop {
        match (future.as_mut().poll(&mut Context::from_waker(&waker)), time.left()) {
            (Poll::Ready(value), _) => return Some(value),
            (Poll::Pending, None) => thread.wait(),
            (Poll::Pending, Some(Duration::ZERO)) => return None,
            (Poll::Pending, Some(left)) => thread.wait_for(left),
        }
    }
}

/// A limit of time, on the running time of the machine. Manual clocks do not move it: it limits how
/// long a thread is blocked.
pub(crate) struct TimeLimit {
    clock: Clock,
    until: Option<u64>,
}

impl TimeLimit {
    pub(crate) fn new(longest: Duration) -> TimeLimit {
        let (clock, longest) = (Clock::system(), micros_ceil(longest));
        let until = (longest != NEVER).then(|| clock.running().saturating_add(longest));
        TimeLimit { clock, until }
    }

    /// `None` without a limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.until.map(|until| duration(until.saturating_sub(self.clock.running())))
    }
}

/// Awaits one wake-up, so that the other tasks of the executor get their turn.
pub(crate) async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(move |context| {
        if replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[derive(Default)]
struct ParkedThread {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl ParkedThread {
    fn wait(&self) {
        let mut is_woken = self.is_woken.lock();
        while !*is_woken {
            self.woken.wait(&mut is_woken);
        }
        *is_woken = false;
    }

    fn wait_for(&self, longest: Duration) {
        let mut is_woken = self.is_woken.lock();
        if !*is_woken {
            self.woken.wait_for(&mut is_woken, longest);
        }
        *is_woken = false;
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock() = true;
        self.woken.notify_one();
    }
}
