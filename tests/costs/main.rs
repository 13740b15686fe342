//! The costs of calls: flushes, commits, rows, bytes, reads and allocations. They are counted, not
//! timed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod allocations;
mod attempts;
mod bytes;
mod edits;
mod flushes;
mod gates;
mod history;
mod keys;
mod labels;
mod limits;
mod metrics;
mod movement;
mod not_before;
mod outcomes;
mod parents;
mod reads;
mod rows;
mod schedules;
mod steps;
mod tokens;
#[cfg(debug_assertions)]
mod visits;
mod worker;

use tubewell::{Durability, ManualClock, Store, Tube, TubeOptions};

fn store_on(path: &std::path::Path) -> Store {
    Store::options().clock(ManualClock::new()).open(path).unwrap()
}

/// The number of flushes and commits of `work`.
fn flushes_and_commits(store: &Store, work: impl FnOnce()) -> (u64, u64) {
    let before = store.admin().counters().unwrap();
    work();
    let after = store.admin().counters().unwrap();
    (after.flushes - before.flushes, after.commits - before.commits)
}

fn with_tube(driver: &str, options: TubeOptions, check: impl FnOnce(&Store, &Tube)) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(&dir.path().join("store"));
    let tube = store.create_tube("work", options.driver(driver)).unwrap();
    check(&store, &tube);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The number of rows that `work` edits, header and counts included.
fn rows_edited(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.admin().counters().unwrap().rows;
    work();
    store.admin().counters().unwrap().rows - before
}

fn bytes_written(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.admin().counters().unwrap().bytes_written;
    work();
    store.admin().counters().unwrap().bytes_written - before
}

/// The allocations of this thread in one call, as the mean of `calls` calls, rounded up.
fn allocations(calls: u64, mut call: impl FnMut()) -> u64 {
    // The first calls grow maps and buffers.
    (0..calls).for_each(|_| call());
    let counted = allocation_counter::measure(|| (0..calls).for_each(|_| call()));
    counted.count_total.div_ceil(calls)
}

/// The allocations of a put, a take and an ack in a relaxed tube. The take and the ack flush nothing.
fn allocations_of_a_cycle(store: &Store, tube: &Tube) -> u64 {
    tube.put("the first put of a run reserves ids").unwrap();
    let take = || tube.try_take().unwrap().unwrap().ack().unwrap();
    assert_eq!(flushes_and_commits(store, || _ = take()), (0, 0));
    allocations(500, || {
        tube.put(&[7; 128]).unwrap();
        take();
    })
}

/// Checks the costs of a tube without options, in a store whose other tube uses what has a cost.
fn assert_plain_costs(store: &Store, plain: &Tube) {
    plain.put("warm").unwrap();
    let put = || _ = plain.put("x").unwrap();
    assert_eq!((rows_edited(store, put), flushes_and_commits(store, put)), (3, (1, 1)));
    let ack = || _ = plain.try_take().unwrap().unwrap().ack().unwrap();
    assert_eq!((rows_edited(store, ack), flushes_and_commits(store, ack)), (3, (1, 1)));
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let relaxed = store.create_tube("relaxed", relaxed.driver(plain.driver())).unwrap();
    let cycle = allocations_of_a_cycle(store, &relaxed);
    assert!(cycle <= 6, "{cycle} allocations per cycle");
}
