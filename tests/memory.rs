//! Memory use of a backlog: the page cache only, however many tasks there are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBE, UTUBETTL};

#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const CACHE: usize = 1 << 20;
/// Tasks in a batch, which is held in memory with its rows while it is put.
const BATCH: usize = 5000;
const FEW: usize = BATCH;
const MANY: usize = 20 * BATCH;
/// In bytes: by how much windows, the journal, buffers and the cached heads of 16,384 sub-queues
/// may differ. A backlog held in memory would take three times as much.
const SLACK: usize = 6 << 20;

/// A task: ready, delayed, with a ttl, in a sub-queue of its own, or in a shared sub-queue.
fn task(driver: &str, number: usize) -> Put {
    let put = Put::new(vec![b'-'; 100]);
    match driver {
        FIFO => put,
        FIFOTTL if number.is_multiple_of(2) => put.delay(Duration::from_secs(3600)),
        FIFOTTL => put.ttl(Duration::from_secs(7200)),
        UTUBE if number.is_multiple_of(2) => put.sub_queue("busy"),
        _ => put.sub_queue(format!("{}", number % 50_000)),
    }
}

fn fill(tube: &Tube, from: usize, to: usize) {
    for batch in (from..to).step_by(BATCH) {
        tube.put_many((batch..batch + BATCH).map(|number| task(tube.driver(), number))).unwrap();
    }
}

/// Bytes allocated with 100 claims held, a page listed and the window full.
fn allocated_in_use(store: &Store, tube: &Tube) -> usize {
    let held = tube.take_many(100, Duration::ZERO).unwrap();
    assert_eq!(held.len(), 100);
    tube.list(tubewell::State::Ready, None, 100).unwrap();
    store.flush().unwrap();
    let allocated = MEMORY.allocated();
    drop(held);
    allocated
}

#[test]
fn memory_use_does_not_grow_with_the_backlog() {
    for driver in [FIFO, FIFOTTL, UTUBE, UTUBETTL] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let open =
            || Store::options().clock(ManualClock::new()).cache_size(CACHE).open(&path).unwrap();
        let store = open();
        let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
        fill(&tube, 0, FEW);
        let few = allocated_in_use(&store, &tube);
        fill(&tube, FEW, MANY);
        let many = allocated_in_use(&store, &tube);
        store.close().unwrap();
        drop((tube, store));

        let store = open();
        let tube = store.tube("work").unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.total, MANY as u64);
        let reopened = allocated_in_use(&store, &tube);
        println!(
            "{driver}: {few} bytes with {FEW} tasks, {many} with {MANY}, {reopened} after a reopen"
        );
        assert!(many <= few + SLACK, "{driver}: {many} bytes instead of {few}");
        assert!(reopened <= few + SLACK, "{driver}: {reopened} bytes instead of {few}");
    }
}
