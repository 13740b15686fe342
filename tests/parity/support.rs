//! Stores with a full write buffer, wakers that count, and virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use tubewell::{Claim, Error, FIFO, Receipt, Store, Ticket, Tube, TubeOptions};

use crate::stores::{self, ManualClock};

pub use super::blocking_disk::Disk;
pub use super::executor::{
    block_on, eventually_ready, poll, poll_pending, wait_until, waker_calling, with_timeout,
};

/// A store whose write buffer holds 20 rows, on a disk.
pub struct SmallBuffer {
    pub disk: Arc<Disk>,
    pub store: Store,
    pub tube: Tube,
}

impl SmallBuffer {
    pub fn new() -> SmallBuffer {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options().max_pending(20, 1 << 20)));
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        SmallBuffer { disk, store, tube }
    }

    /// Puts deferred tasks until the write buffer is full and a flush is blocked.
    pub fn fill(&self) -> Vec<Ticket<Receipt>> {
        let deferred = self.tube.to_async().refuse_when_full();
        let mut tickets = vec![self.disk.block_flush_of(|| deferred.put("in flight"))];
        loop {
            let ticket = deferred.put("pending");
            if let Some(refusal) = ticket.refusal() {
                assert_eq!(*refusal, Error::Overloaded);
                return tickets;
            }
            tickets.push(ticket);
        }
    }

    pub fn put_and_take(&self) -> Claim {
        self.tube.put("claimed").unwrap();
        self.tube.try_take().unwrap().unwrap()
    }

    pub fn assert_verified(&self) {
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
    }
}

/// Waits for all tickets, which must succeed.
pub fn wait_all<T>(tickets: impl IntoIterator<Item = Ticket<T>>) {
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}

/// A store in memory with a manual clock.
pub fn timed_store() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    (stores::in_memory_with(Store::options().clock(&clock)), clock)
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts how often its wakers are woken.
#[derive(Clone, Default)]
pub struct WakeCount(Arc<AtomicUsize>);

impl WakeCount {
    pub fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    pub fn waker(&self) -> Waker {
        let count = self.0.clone();
        waker_calling(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
    }
}
