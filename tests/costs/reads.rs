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

#[test]
fn description_of_a_task_reads_no_large_body() {
    const TASKS: u64 = 100;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    // The bodies do not fit into the cache.
    let open = || Store::options().cache_size(1 << 20).open(&path).unwrap();
    let store = open();
    let bodies = (0..TASKS).map(|_| vec![7; 100_000]);
    store.create_tube("work", TubeOptions::new()).unwrap().put_many(bodies).unwrap();
    store.close().unwrap();
    let store = open();
    let tube = store.find_tube("work").unwrap();
    let reads_of = |look: &dyn Fn(u64)| {
        let before = store.admin().counters().unwrap().reads;
        (0..TASKS).for_each(look);
        store.admin().counters().unwrap().reads - before
    };
    let described = reads_of(&|id| assert_eq!(tube.query().task_info(id).unwrap().size, 100_000));
    let with_body = reads_of(&|id| assert_eq!(tube.query().task(id).unwrap().body.len(), 100_000));
    assert!(described < TASKS / 10, "{described} reads");
    assert!(with_body > TASKS / 2, "{with_body} reads");
}
