//! Stores in files.

use tubewell::{Put, Store, Tube, TubeOptions};

use crate::support::{SUB_QUEUED, StoreFile};

/// Opens a store file and creates a tube in it.
pub fn create(file: &StoreFile, driver: &str) -> (Store, Tube) {
    create_with(file, driver, TubeOptions::default())
}

/// Opens a store file and creates a tube with these options in it.
pub fn create_with(file: &StoreFile, driver: &str, options: TubeOptions) -> (Store, Tube) {
    println!("driver {driver}");
    let store = file.open();
    let tube = store.create_tube("case", driver, options).unwrap();
    (store, tube)
}

/// The store as another process finds it after this one was killed: a copy of the file as it is.
pub fn after_a_kill(file: &StoreFile) -> (StoreFile, Store) {
    let killed = StoreFile::new();
    std::fs::copy(file.path(), killed.path()).unwrap();
    let store = Store::options().clock(&file.clock).open(killed.path()).unwrap();
    (killed, store)
}

/// A task to put, in a sub-queue of its own if the driver has sub-queues.
pub fn draft(driver: &str, data: &str) -> Put {
    let put = Put::new(data);
    if SUB_QUEUED.contains(&driver) { put.sub_queue(data) } else { put }
}
