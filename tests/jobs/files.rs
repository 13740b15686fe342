//! Stores in files.

use tubewell::{Put, Store, Tube, TubeOptions};

use crate::support::{SUB_QUEUED, StoreFile};

/// Opens a store file and creates a tube in it.
pub fn create(file: &StoreFile, driver: &str) -> (Store, Tube) {
    println!("driver {driver}");
    let store = file.open();
    let tube = store.create_tube("case", driver, TubeOptions::default()).unwrap();
    (store, tube)
}

/// A task to put, in a sub-queue of its own if the driver has sub-queues.
pub fn draft(driver: &str, data: &str) -> Put {
    let put = Put::new(data);
    if SUB_QUEUED.contains(&driver) { put.sub_queue(data) } else { put }
}
