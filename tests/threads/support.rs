//! What the tests share: a store on disk, patience, and a very small executor.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tubewell::{
    Claim, FIFO, FIFOTTL, LIMFIFOTTL, Put, Store, TakeFuture, Tube, TubeInfo, TubeOptions, UTUBE,
    UTUBETTL,
};

pub const ALL: [&str; 5] = [FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];
pub const SUB_QUEUED: [&str; 2] = [UTUBE, UTUBETTL];

pub const FOR_EVER: Option<Duration> = None;

/// Far longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until it is so.
#[expect(clippy::disallowed_methods, reason = "only to fail instead of waiting for ever")]
pub fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::yield_now();
    }
}

/// A store in a file of its own.
pub struct Disk {
    pub folder: TempDir,
    pub store: Store,
}

impl Disk {
    pub fn new() -> Disk {
        let folder = TempDir::new().unwrap();
        let store = Store::open(folder.path().join("store.tubewell")).unwrap();
        Disk { folder, store }
    }

    pub fn tube(&self, driver: &str) -> Tube {
        self.store.create_tube(driver, driver, TubeOptions::new()).unwrap()
    }

    /// How many takes wait in this tube.
    pub fn waiting(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting
    }

    /// How many puts wait for room in it.
    pub fn waiting_puts(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting_puts
    }

    fn info(&self, tube: &Tube) -> TubeInfo {
        self.store.tubes().into_iter().find(|info| info.name == tube.name()).unwrap()
    }

    /// Closes the store for all and opens it again.
    pub fn reopen(&mut self) {
        self.store.close().unwrap();
        self.store = Store::open(self.folder.path().join("store.tubewell")).unwrap();
    }

    pub fn assert_sound(&self) {
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
    }
}

/// A task in one of so many sub-queues, if the tube has such.
pub fn task(tube: &Tube, body: &str, sub_queue: usize) -> Put {
    let put = Put::new(body);
    if SUB_QUEUED.contains(&tube.driver()) { put.sub_queue(sub_queue.to_string()) } else { put }
}

pub fn body(claim: &Claim) -> String {
    String::from_utf8(claim.data().to_vec()).unwrap()
}

/// What is ready in the tube.
pub fn drain(tube: &Tube) -> Vec<String> {
    std::iter::from_fn(|| {
        let claim = tube.try_take().unwrap()?;
        let body = body(&claim);
        claim.ack().unwrap();
        Some(body)
    })
    .collect()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// A take that stands in line already.
pub fn in_line(tube: &Tube, timeout: impl Into<Option<Duration>>) -> Pin<Box<TakeFuture>> {
    let mut future = Box::pin(tube.take_async(timeout));
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "there was something to take");
    future
}
