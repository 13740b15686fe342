//! Helpers of the tests: a store in a file, and waiting with a deadline.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tubewell::{
    AsyncClaim, Claim, Durability, FIFO, FIFOTTL, LIMFIFOTTL, Put, Store, Ticket, Tube, TubeInfo,
    TubeOptions, UTUBE, UTUBETTL,
};

use crate::stores;

use super::executor::wait_until;
pub use super::executor::{HANGS_AFTER, block_on};

/// The task of a take that is a future.
pub fn blocking(take: Ticket<Option<AsyncClaim>>) -> tubewell::Result<Option<Claim>> {
    block_on(take).map(|claim| claim.map(AsyncClaim::into_blocking))
}

pub const ALL_DRIVERS: [&str; 5] = [FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];
pub const SUB_QUEUE_DRIVERS: [&str; 2] = [UTUBE, UTUBETTL];

/// The durabilities at which a close keeps every change.
pub const fn all_durabilities() -> [Durability; 3] {
    let within = ms(50);
    [
        Durability::Flush,
        Durability::Write { flush_within: within },
        Durability::Relaxed { max_delay: within },
    ]
}

pub const NO_TIMEOUT: Duration = Duration::MAX;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until `condition` holds. Panics after [`HANGS_AFTER`].
#[expect(clippy::disallowed_methods, reason = "only to fail instead of waiting forever")]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    wait_until(|| {
        assert!(begun.elapsed() < HANGS_AFTER, "timed out waiting until {what}");
        condition()
    });
}

/// A store in a temporary folder.
pub struct FileStore {
    pub folder: TempDir,
    pub store: Store,
    durability: Durability,
}

impl FileStore {
    pub fn new() -> FileStore {
        FileStore::with_durability(Durability::Flush)
    }

    /// A store whose tubes have this durability.
    pub fn with_durability(durability: Durability) -> FileStore {
        let folder = TempDir::new().unwrap();
        let store = open(&folder, durability);
        FileStore { folder, store, durability }
    }

    pub fn tube(&self, driver: &str) -> Tube {
        self.store.create_tube(driver, TubeOptions::new().driver(driver)).unwrap()
    }

    /// How many takes wait in this tube.
    pub fn waiting(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting
    }

    /// How many puts wait for space in this tube.
    pub fn waiting_puts(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting_puts
    }

    fn info(&self, tube: &Tube) -> TubeInfo {
        self.store.tubes().unwrap().into_iter().find(|info| info.name == tube.name()).unwrap()
    }

    /// Closes the store for all its handles and opens it again.
    pub fn reopen(&mut self) {
        stores::close(&self.store);
        self.store = open(&self.folder, self.durability);
    }

    pub fn assert_verified(&self) {
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
    }
}

fn open(folder: &TempDir, durability: Durability) -> Store {
    stores::open_with(folder.path().join("store.tubewell"), Store::options().durability(durability))
}

/// A task, in this sub-queue if the driver has sub-queues.
pub fn task(tube: &Tube, body: &str, sub_queue: usize) -> Put {
    let put = Put::new(body.into());
    if SUB_QUEUE_DRIVERS.contains(&tube.driver()) {
        put.sub_queue(sub_queue.to_string())
    } else {
        put
    }
}

pub fn body(claim: &Claim) -> String {
    String::from_utf8(claim.body().to_vec()).unwrap()
}

/// Takes and acks all ready tasks. Returns their bodies.
pub fn drain(tube: &Tube) -> Vec<String> {
    std::iter::from_fn(|| {
        let claim = tube.try_take().unwrap()?;
        let body = body(&claim);
        claim.ack().unwrap();
        Some(body)
    })
    .collect()
}

/// A take that already waits.
pub fn waiting_take(tube: &Tube, timeout: Duration) -> Pin<Box<Ticket<Option<AsyncClaim>>>> {
    let mut future = Box::pin(tube.to_async().take_timeout(timeout));
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "the take must wait");
    future
}
