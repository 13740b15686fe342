//! Waits for the end of tasks, as the tests begin and observe them.

use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tubewell::{Ending, Result, Store, Ticket, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{WakeFlag, block_on, poll};
use super::support::*;
use crate::stores::{self, ManualClock};

pub const DONE: Ending = Ending::Done { result: None };
pub const BURIED: Ending = Ending::Buried { failure: None };

/// A wait without a thread. It is polled once at the beginning, and then only after it has called
/// its waker, so that a missing wakeup fails the test.
pub struct Wait<T> {
    future: RefCell<Ticket<T>>,
    woken: Arc<WakeFlag>,
}

impl<T> Wait<T> {
    pub fn begin(future: Ticket<T>) -> Wait<T> {
        let wait = Wait { future: RefCell::new(future), woken: WakeFlag::raised() };
        assert!(wait.poll().is_pending(), "the wait returned immediately");
        wait
    }

    fn poll(&self) -> Poll<Result<T>> {
        if !self.woken.lower() {
            return Poll::Pending;
        }
        poll(&mut *self.future.borrow_mut(), &Waker::from(Arc::clone(&self.woken)))
    }

    /// Asserts that the wait has no answer.
    pub fn assert_waits(&self) {
        assert!(self.poll().is_pending(), "the wait has ended");
    }

    /// Waits for the answer, which must come in time.
    pub fn answer(self) -> Result<T> {
        loop {
            self.woken.wait();
            if let Poll::Ready(answer) = self.poll() {
                return answer;
            }
        }
    }
}

/// Waits until the wait has ended; `with_timeout` limits how long.
pub fn end_of<T>(wait: Wait<T>) -> Result<T> {
    block_on(wait.future.into_inner())
}

pub fn wait_for(tube: &Tube, id: u64) -> Wait<Option<Ending>> {
    Wait::begin(tube.to_async().wait_done(id, NO_TIMEOUT))
}

pub fn wait_drained(tube: &Tube) -> Wait<bool> {
    Wait::begin(tube.to_async().wait_drained(NO_TIMEOUT))
}

/// What has ended, as a wait that begins now says it.
pub fn ended(tube: &Tube, id: u64) -> Option<Ending> {
    let ended = tube.wait_done(id, ZERO).unwrap();
    assert_eq!(block_on(tube.to_async().wait_done(id, ZERO)), Ok(ended.clone()));
    ended
}

/// A store on a disk in memory, and a tube whose calls wait for flushes.
pub fn on_disk(driver: &str) -> (Arc<Disk>, ManualClock, Store, Tube) {
    let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
    let store = stores::serve(disk.open(Store::options().clock(&clock)));
    let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
    (disk, clock, store, tube)
}
