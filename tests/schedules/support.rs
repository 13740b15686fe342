//! Helpers of the scenarios.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use shuttle::thread::{self, JoinHandle};
use tubewell::{
    AsyncClaim, Bytes, Claim, Error, ManualClock, Mode, Result, Store, StoreOptions, Ticket, Tube,
    TubeOptions,
};

pub const NO_TIMEOUT: Duration = Duration::MAX;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A store with a manual clock, and the clock.
pub fn manual_clock_store() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    let store = options().clock(&clock).open_in_memory().unwrap();
    (store, clock)
}

/// A store with a sweeper thread. `tubewell::explored::pass` moves its time.
pub fn sweeper_store() -> Store {
    options().open_in_memory().unwrap()
}

pub fn options() -> StoreOptions {
    Store::options().cache_size(1 << 20)
}

pub fn tube(store: &Store, driver: &str) -> Tube {
    store.create_tube(driver, TubeOptions::new().driver(driver)).unwrap()
}

/// Spawns a thread that runs with its own handle of the tube.
pub fn spawn_with<T: Send + 'static>(
    tube: &Tube,
    run: impl FnOnce(Tube) -> T + Send + 'static,
) -> JoinHandle<T> {
    let tube = tube.clone();
    thread::spawn(move || run(tube))
}

/// Spawns a thread that takes one task, without a timeout.
pub fn taker(tube: &Tube) -> JoinHandle<Claim> {
    spawn_with(tube, |tube| {
        tube.take_timeout(NO_TIMEOUT).unwrap().expect("a take without a timeout returns a task")
    })
}

/// A take that already waits.
pub fn waiting_take(tube: &Tube) -> Pin<Box<Ticket<Option<AsyncClaim>>>> {
    let mut future = Box::pin(tube.to_async().take_timeout(NO_TIMEOUT));
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "the take must wait");
    future
}

/// An atomic flag. The explorer does not switch threads at it.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn lower(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn body<M: Mode>(claim: &Claim<Bytes, M>) -> String {
    String::from_utf8(claim.body().to_vec()).unwrap()
}

/// Asserts that `verify` finds nothing and that no waiter is left, then closes the store.
pub fn verify_and_close(store: &Store) {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    for info in store.tubes().unwrap() {
        assert_eq!((info.waiting, info.waiting_puts), (0, 0), "{} has waiters left", info.name);
    }
    store.close().unwrap();
}

/// Whether the call was refused because the store is closed.
pub fn is_closed<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::Closed))
}
