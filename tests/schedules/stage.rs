//! What the stories have in common.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use shuttle::thread::{self, JoinHandle};
use tubewell::{
    Claim, Error, ManualClock, Result, Store, StoreOptions, TakeFuture, Tube, TubeOptions,
};

pub const FOR_EVER: Option<Duration> = None;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A store whose time stands still, and its clock.
pub fn still() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    let store = options().clock(&clock).open_in_memory().unwrap();
    (store, clock)
}

/// A store with a thread that sweeps; `tubewell::explored::pass` lets time pass.
pub fn swept() -> Store {
    options().open_in_memory().unwrap()
}

pub fn options() -> StoreOptions {
    Store::options().cache_size(1 << 20)
}

pub fn tube(store: &Store, driver: &str) -> Tube {
    store.create_tube(driver, driver, TubeOptions::new()).unwrap()
}

/// A thread with a tube of its own handle.
pub fn with<T: Send + 'static>(
    tube: &Tube,
    run: impl FnOnce(Tube) -> T + Send + 'static,
) -> JoinHandle<T> {
    let tube = tube.clone();
    thread::spawn(move || run(tube))
}

/// A thread that waits for one task.
pub fn taker(tube: &Tube) -> JoinHandle<Claim> {
    with(tube, |tube| tube.take(FOR_EVER).unwrap().expect("waits for ever"))
}

/// A take that stands in line already.
pub fn in_line(tube: &Tube) -> Pin<Box<TakeFuture>> {
    let mut future = Box::pin(tube.take_async(FOR_EVER));
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "there was something to take");
    future
}

/// Something has happened. Looking at it is no point to switch threads at.
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

pub fn body(claim: &Claim) -> String {
    String::from_utf8(claim.data().to_vec()).unwrap()
}

/// Nobody waits, everything agrees, and the threads end.
pub fn end(store: &Store) {
    assert_eq!(store.verify().unwrap(), [""; 0]);
    for info in store.tubes() {
        assert_eq!((info.waiting, info.waiting_puts), (0, 0), "{} has waiters left", info.name);
    }
    store.close().unwrap();
}

/// The store was closed in the middle.
pub fn is_closed<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::Closed))
}
