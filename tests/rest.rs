//! A file that its process leaves in peace is left so that it opens quickly, whatever becomes of
//! the process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{Durability, FIFO, ManualClock, Store, StoreOptions, TubeOptions};

const SECOND: Duration = Duration::from_secs(1);

fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).durability(Durability::relaxed()).cache_size(1 << 20)
}

/// A store of about 64 MiB; its process is about to be killed.
fn large(path: &std::path::Path, clock: &ManualClock) -> Store {
    let store = options(clock).open(path).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    for _ in 0..40 {
        tube.put_many((0..16).map(|_| vec![7_u8; 60_000])).unwrap();
    }
    store.flush().unwrap();
    store
}

/// Reads that opening a copy of the file costs, made as a kill would leave it.
fn reads_to_open(path: &std::path::Path) -> u64 {
    let copy = path.with_extension("killed");
    std::fs::copy(path, &copy).unwrap();
    let store = options(&ManualClock::new()).open(&copy).unwrap();
    let reads = store.counters().reads;
    assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.total, 640);
    reads
}

#[test]
fn a_pause_ends_with_one_commit_that_spares_the_next_open_a_repair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let store = large(&path, &clock);
    let before = reads_to_open(&path);
    let commits = store.counters().commits;
    clock.advance(SECOND * 4);
    assert_eq!(store.counters().commits, commits, "too early");
    clock.advance(SECOND * 2);
    assert_eq!(store.counters().commits, commits + 1);
    let after = reads_to_open(&path);
    // An engine that was built to check itself reads all pages once more at every open.
    let spared = if cfg!(debug_assertions) { before / 3 } else { before * 9 / 10 };
    assert!(after + spared < before, "{after} reads instead of {before}");
    let flushes = store.counters().flushes;
    clock.advance(SECOND * 3600);
    assert_eq!(store.counters().flushes, flushes, "idle means idle");
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn a_small_file_is_not_written_to_for_that() {
    let clock = ManualClock::new();
    let store = options(&clock).open_in_memory().unwrap();
    store.create_tube("work", FIFO, TubeOptions::new()).unwrap().put("x").unwrap();
    store.flush().unwrap();
    let flushes = store.counters().flushes;
    clock.advance(SECOND * 60);
    assert_eq!(store.counters().flushes, flushes);
}
