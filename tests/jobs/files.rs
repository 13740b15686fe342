//! Stores in files, and the attempts of tasks.

use tubewell::{Claim, Put, Store, Tube, TubeOptions};

use super::support::{Case, SUB_QUEUED, StoreFile, WaitingTake};
use crate::stores;

/// Opens a store file and creates a tube in it.
pub fn create(file: &StoreFile, driver: &str) -> (Store, Tube) {
    create_with(file, driver, TubeOptions::default())
}

/// Opens a store file and creates a tube with these options in it.
pub fn create_with(file: &StoreFile, driver: &str, options: TubeOptions) -> (Store, Tube) {
    println!("driver {driver}");
    let store = file.open();
    let tube = store.create_tube("case", options.driver(driver)).unwrap();
    (store, tube)
}

/// A task to put, in a sub-queue of its own if the driver has sub-queues.
pub fn draft(driver: &str, data: &str) -> Put {
    let put = Put::new(data.into());
    if SUB_QUEUED.contains(&driver) { put.sub_queue(data) } else { put }
}

/// Puts so many drafts.
pub fn put_numbered(case: &Case, count: u64) {
    for n in 0..count {
        case.put(&format!("task {n}"));
    }
}

/// The store as another process finds it after this one was killed: a copy of the file as it is.
pub fn after_a_kill(file: &StoreFile) -> (StoreFile, Store) {
    let killed = StoreFile::new();
    std::fs::copy(file.path(), killed.path()).unwrap();
    let store = stores::open_with(killed.path(), Store::options().clock(&file.clock));
    (killed, store)
}

/// The attempts of a task, and how many are left.
pub fn attempts(tube: &Tube, id: u64) -> (u32, Option<u32>) {
    let info = tube.query().task(id).unwrap().info;
    (info.attempts, info.attempts_left)
}

/// The group, the message and the attempt of the last failure of a task.
pub fn failure(tube: &Tube, id: u64) -> Option<(String, String, u32)> {
    let failure = tube.query().task(id).unwrap().info.failure?;
    Some((failure.group, failure.message, failure.attempt))
}

/// The group of the last failure of a task that is buried.
pub fn group_of_buried(tube: &Tube, id: u64) -> Option<String> {
    let info = tube.query().task(id).unwrap().info;
    assert_eq!(info.state, tubewell::TaskState::Buried);
    info.failure.map(|failure| failure.group)
}

/// The claim of a waiting take that was given a task. The take is counted first, on a thread of the
/// store.
pub fn claim_of(waiting: WaitingTake) -> Claim {
    waiting.answer().unwrap().unwrap()
}

/// The failure groups of the buried tasks, with their counts.
pub fn groups(tube: &Tube) -> Vec<(String, u64)> {
    tube.query().groups().unwrap().into_iter().map(|group| (group.name, group.count)).collect()
}
