//! Time limits for tests that may deadlock, wakers that call, and an executor for one future.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

#[path = "patience.rs"]
#[allow(clippy::duplicate_mod, reason = "other files of a test target include it, too")]
mod patience;
pub use patience::HANGS_AFTER;

/// Runs a test, which must end in time.
pub fn with_timeout(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel::<()>();
    // The runner has the name of the test.
    let runner = thread::Builder::new().name(thread::current().name().unwrap_or("").to_owned());
    let runner = runner.spawn(move || {
        let _done = done;
        test();
    });
    let runner = runner.unwrap();
    let ended = is_done.recv_timeout(HANGS_AFTER);
    assert!(ended != Err(mpsc::RecvTimeoutError::Timeout), "the test deadlocks");
    if let Err(panic) = runner.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Waits until the condition is true; `with_timeout` limits how long. A condition that is not true soon is
/// looked at less often, so that the threads it waits for have the processors.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let mut looks = 0;
    while !condition() {
        looks += 1;
        if looks < 1000 {
            thread::yield_now();
        } else {
            thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// A thread that is woken, and whether it was. The token of `unpark` alone is not enough: a call
/// inside a future that blocks may park the thread too, and uses up the token.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// A flag that a waker raises. A future that is polled only when its flag is raised fails its test if
/// the wake-up is missing.
pub struct WakeFlag(Mutex<bool>, Condvar);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

impl WakeFlag {
    /// A flag that is raised, for the first poll.
    pub fn raised() -> Arc<WakeFlag> {
        Arc::new(WakeFlag(Mutex::new(true), Condvar::new()))
    }

    /// Lowers the flag. Returns whether it was raised.
    pub fn lower(&self) -> bool {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// Waits until the flag is raised, which must be in time.
    pub fn wait(&self) {
        let raised = self.0.lock().unwrap();
        let (raised, _) =
            self.1.wait_timeout_while(raised, HANGS_AFTER, |raised| !*raised).unwrap();
        assert!(*raised, "the waker was not called");
    }
}

/// Polls a future whenever it calls its waker, until it is ready, which must be in time.
pub fn eventually_ready<F: Future + Unpin>(future: &mut F) -> F::Output {
    let flag = WakeFlag::raised();
    let waker = Waker::from(flag.clone());
    loop {
        flag.wait();
        flag.lower();
        if let Poll::Ready(output) = poll(future, &waker) {
            return output;
        }
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(unpark.clone());
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => {
                while !unpark.1.swap(false, Ordering::SeqCst) {
                    thread::park();
                }
            }
        }
    }
}

pub fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Polls a future, which must be pending.
pub fn poll_pending(future: &mut (impl Future + Unpin), waker: &Waker) {
    assert!(poll(future, waker).is_pending());
}

struct CallOnWake<F>(F);

impl<F: Fn() + Send + Sync> Wake for CallOnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A waker that makes this call when it is woken.
pub fn waker_calling(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Arc::new(CallOnWake(call)).into()
}
