//! Reads: at open, and while a store is idle.

use std::time::Duration;

use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
#[cfg(not(debug_assertions))]
use {crate::store_on, tubewell::FIFO};

/// Only in release builds: in debug builds the engine checks all its pages when it opens.
#[cfg(not(debug_assertions))]
#[test]
fn reads_of_open_and_first_take_do_not_grow_with_task_count() {
    let reads = |tasks: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        {
            let store = store_on(&path);
            let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
            tube.put_many((0..tasks).map(|n| format!("task {n}"))).unwrap();
            store.close().unwrap();
        }
        let store = store_on(&path);
        let claim = store.tube("work").unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.body(), b"task 0");
        store.admin().counters().unwrap().reads
    };
    let (few, many) = (reads(10), reads(30_000));
    assert!(many <= few + 4, "{few} reads with ten tasks, {many} with thirty thousand");
}

#[test]
fn idle_store_neither_reads_nor_writes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put(Put::new("one").ttl(Duration::from_secs(86_400))).unwrap();
    clock.advance(Duration::from_secs(10));
    let before = store.admin().counters().unwrap();
    for _ in 0..3600 {
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(store.admin().counters().unwrap(), before);
}
