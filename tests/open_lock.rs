//! Opening a store whose lock another owner is about to release.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(all(target_os = "linux", not(feature = "_shuttle")))]

use std::fs::{self, File};
use std::ops::Bound;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use redb::StorageBackend;
use redb::backends::FileBackend;
use tubewell::{Error, FIFO, Store, TubeOptions};

/// Whether the thread of this directory of `/proc` sleeps until a timer or another thread wakes it.
fn is_sleeping(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}

/// Makes a store with one task and closes it.
fn make_store(path: &Path) {
    let store = Store::open(path).unwrap();
    store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap().put("one").unwrap();
    store.close().unwrap();
}

/// Calls `open` on another thread while the file is locked, as the child of a killed process keeps
/// it locked, and releases the lock once that open has begun.
fn open_while_locked<T: Send>(
    path: &Path,
    open: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let lock = FileBackend::new(file).unwrap();
    assert!(lock.try_lock_range(Bound::Unbounded, Bound::Unbounded).unwrap());
    thread::scope(|scope| {
        let (started, is_started) = mpsc::channel();
        let opening = scope.spawn(move || {
            started.send(Path::new("/proc").join(fs::read_link("/proc/thread-self")?)).unwrap();
            Ok::<_, std::io::Error>(open())
        });
        let thread = is_started.recv().unwrap();
        // An open sleeps only between two attempts to get the lock.
        while !is_sleeping(&thread) {
            assert!(!opening.is_finished(), "the open did not wait for the lock");
            thread::yield_now();
        }
        drop(lock);
        opening.join().unwrap().unwrap()
    })
}

#[test]
fn open_waits_for_a_lock_that_is_released_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("store");
    make_store(&path);
    let store = open_while_locked(&path, || Store::open(&path)).unwrap();
    assert_eq!(store.find_tube("jobs").unwrap().statistics().unwrap().tasks.ready, 1);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn salvage_waits_for_a_lock_that_is_released_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("store");
    make_store(&path);
    let mut found = 0;
    let salvage = || {
        Store::options().salvage(&path, |_| {
            found += 1;
            Ok(())
        })
    };
    open_while_locked(&path, salvage).unwrap();
    assert_eq!(found, 2, "a tube and a task");
}

#[test]
fn compact_waits_for_a_lock_that_is_released_soon() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("store");
    make_store(&path);
    open_while_locked(&path, || Store::options().compact(&path, |_, _| {})).unwrap();
}

#[test]
fn open_of_a_store_in_use_fails_and_leaves_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let owner = Store::open(&path).unwrap();
    let refused = Store::open(&path).map(drop);
    assert_eq!(refused, Err(Error::InUse { path: path.display().to_string() }));
    owner.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap().put("one").unwrap();
    assert_eq!(owner.admin().verify().unwrap(), [""; 0]);
}
