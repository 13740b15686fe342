//! Stores on a disk whose flushes can be blocked, and values whose drop panics.

use std::sync::Arc;
use std::thread;

use tubewell::{FIFO, Store, Tube, TubeOptions};

pub use crate::blocking_disk::Disk;
pub use crate::executor::{poll_pending, wait_until, waker_calling, with_timeout};

/// A new store on a new disk, with the tube `work`.
pub fn new_store() -> (Arc<Disk>, Store, Tube) {
    let disk = Arc::new(Disk::default());
    let store = disk.open(Store::options());
    let tube = create_tube(&store, "work");
    (disk, store, tube)
}

pub fn create_tube(store: &Store, name: &str) -> Tube {
    store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap()
}

/// A value whose drop panics, except during a panic.
pub struct PanicOnDrop;

impl Drop for PanicOnDrop {
    fn drop(&mut self) {
        assert!(thread::panicking(), "this value panics when it is dropped");
    }
}
