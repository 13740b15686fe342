//! What a backlog costs in memory: nothing but the cache of pages, however long it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBE, UTUBETTL};

#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

const CACHE: usize = 1 << 20;
/// Tasks of a batch; it and its rows are in memory for a moment.
const BATCH: usize = 5000;
const FEW: usize = BATCH;
const MANY: usize = 20 * BATCH;
/// What windows, the journal, buffers, and what is remembered of 16,384 sub-queues may differ by. A
/// backlog in memory would take three times this.
const SLACK: usize = 6 << 20;

/// What is put: ready, delayed, mortal, in a sub-queue of its own or in one that is busy.
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

/// What a store in use has in memory: claims are held, a page was listed, the window is full.
fn in_use(store: &Store, tube: &Tube) -> usize {
    let held = tube.take_many(100, Duration::ZERO).unwrap();
    assert_eq!(held.len(), 100);
    tube.list(tubewell::State::Ready, None, 100).unwrap();
    store.flush().unwrap();
    let allocated = MEMORY.allocated();
    drop(held);
    allocated
}

#[test]
fn a_long_backlog_takes_no_more_memory_than_a_short_one_open_or_opened_again() {
    for driver in [FIFO, FIFOTTL, UTUBE, UTUBETTL] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let open =
            || Store::options().clock(ManualClock::new()).cache_size(CACHE).open(&path).unwrap();
        let store = open();
        let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
        fill(&tube, 0, FEW);
        let few = in_use(&store, &tube);
        fill(&tube, FEW, MANY);
        let many = in_use(&store, &tube);
        store.close().unwrap();
        drop((tube, store));

        let store = open();
        let tube = store.tube("work").unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.total, MANY as u64);
        let again = in_use(&store, &tube);
        println!("{driver}: {few} bytes with {FEW} tasks, {many} with {MANY}, {again} once opened");
        assert!(many <= few + SLACK, "{driver}: {many} bytes instead of {few}");
        assert!(again <= few + SLACK, "{driver}: {again} bytes instead of {few}");
    }
}
