//! Signals: flags that are raised once, and wake the threads and futures that wait for them.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use crate::base::sync::Mutex;
use crate::base::user_code;

/// A flag that is raised once.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_raised: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Signal {
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::SeqCst)
    }

    /// Raises the flag, and wakes its waiters. It runs user code, so no lock may be held.
    pub(crate) fn raise(&self) {
        self.is_raised.store(true, Ordering::SeqCst);
        let wakers = take(&mut self.waiting.lock().wakers);
        wakers.into_values().for_each(user_code::wake);
    }
}

/// A waiter of a signal. Dropping it ends its wait.
#[derive(Debug)]
pub(crate) struct SignalWait {
    signal: Arc<Signal>,
    key: Option<u64>,
}

impl SignalWait {
    pub(crate) fn new(signal: &Arc<Signal>) -> SignalWait {
        SignalWait { signal: signal.clone(), key: None }
    }

    /// Whether the signal is raised; otherwise registers `waker` for it.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        if self.signal.is_raised() {
            return Poll::Ready(());
        }
        // Cloning and dropping a waker runs user code, so both happen without the lock.
        let waker = waker.clone();
        let mut waiting = self.signal.waiting.lock();
        if self.signal.is_raised() {
            drop(waiting);
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        let replaced = waiting.wakers.insert(key, waker);
        drop(waiting);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for SignalWait {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.signal.waiting.lock().wakers.remove(&key);
            user_code::catch_panic(|| drop(waker));
        }
    }
}

/// Waits until the signal is raised.
pub(crate) async fn raised(signal: &Arc<Signal>) {
    let mut wait = SignalWait::new(signal);
    poll_fn(|context| wait.poll(context.waker())).await;
}

/// Awaits a future until the signal is raised.
pub(crate) async fn unless_raised<T>(
    signal: &Arc<Signal>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut future, mut raised) = (pin!(future), SignalWait::new(signal));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Pending => raised.poll(context.waker()).map(|()| None),
        Poll::Ready(output) => Poll::Ready(Some(output)),
    })
    .await
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn raised_signal_wakes_its_waiters_once_and_forgets_them() {
        let signal = Arc::new(Signal::default());
        let mut waits = [SignalWait::new(&signal), SignalWait::new(&signal)];
        assert!(waits.iter_mut().all(|wait| wait.poll(Waker::noop()).is_pending()));
        assert!(waits[0].poll(Waker::noop()).is_pending());
        assert_eq!(signal.waiting.lock().wakers.len(), 2);
        signal.raise();
        assert!(signal.waiting.lock().wakers.is_empty());
        assert!(waits.iter_mut().all(|wait| wait.poll(Waker::noop()).is_ready()));
    }

    #[test]
    fn dropped_waiter_is_forgotten() {
        let signal = Arc::new(Signal::default());
        let mut wait = SignalWait::new(&signal);
        assert!(wait.poll(Waker::noop()).is_pending());
        drop(wait);
        assert!(signal.waiting.lock().wakers.is_empty());
    }
}
