//! What calls cost, counted rather than timed: flushes, commits, bytes, reads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBE, WhenFull,
};

fn store_on(path: &std::path::Path) -> Store {
    Store::options().clock(ManualClock::new()).open(path).unwrap()
}

/// How many flushes and commits `work` costs.
fn cost(store: &Store, work: impl FnOnce()) -> (u64, u64) {
    let before = store.counters();
    work();
    let after = store.counters();
    (after.flushes - before.flushes, after.commits - before.commits)
}

fn with_tube(driver: &str, options: TubeOptions, check: impl FnOnce(&Store, &Tube)) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(&dir.path().join("store"));
    let tube = store.create_tube("work", driver, options).unwrap();
    check(&store, &tube);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn a_lone_cycle_costs_two_flushes_and_its_take_none() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        assert_eq!(cost(store, || _ = tube.put("warm").unwrap()), (1, 1));
        assert_eq!(cost(store, || _ = tube.put("one").unwrap()), (1, 1));
        let mut claim = None;
        assert_eq!(cost(store, || claim = tube.try_take().unwrap()), (0, 0));
        assert_eq!(cost(store, || _ = claim.take().unwrap().ack().unwrap()), (1, 1));
    });
}

#[test]
fn a_release_a_renewal_and_the_end_of_a_hold_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    tube.put(Put::new("one").ttr(Duration::from_secs(5))).unwrap();
    let free = cost(&store, || {
        let claim = tube.try_take().unwrap().unwrap();
        claim.renew(Duration::from_secs(7)).unwrap();
        claim.release(Duration::ZERO).unwrap();
        drop(tube.try_take().unwrap().unwrap());
        let _ = tube.try_take().unwrap().unwrap().detach();
        clock.advance(Duration::from_secs(6));
        assert_eq!(tube.statistics().unwrap().calls.ttr, 1);
        assert_eq!(tube.peek(0).unwrap().info.takes, 3);
    });
    assert_eq!(free, (0, 0));
}

#[test]
fn a_batch_costs_one_flush_however_many_tasks_it_has() {
    with_tube(UTUBE, TubeOptions::new(), |store, tube| {
        let tasks = || (0..500).map(|n| Put::new("x").sub_queue(format!("s{n}")));
        assert_eq!(cost(store, || _ = tube.put_many(tasks()).unwrap()), (1, 1));
        let claims = tube.take_many(500, Duration::ZERO).unwrap();
        assert_eq!(claims.len(), 500);
        assert_eq!(cost(store, || _ = Claim::ack_many(claims).unwrap()), (1, 1));
    });
}

#[test]
fn deferred_calls_share_their_flushes() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let deferred = tube.deferred(WhenFull::Block);
        let (flushes, _) = cost(store, || {
            let tickets: Vec<_> = (0..1000).map(|_| deferred.put("x").unwrap()).collect();
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        });
        assert!(flushes <= 500, "1000 puts from one thread cost {flushes} flushes");
    });
}

#[test]
fn a_relaxed_put_and_its_ack_never_reach_the_file() {
    with_tube(FIFO, TubeOptions::new().durability(Durability::relaxed()), |store, tube| {
        tube.put("the first one of a life reserves ids").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        store.flush().unwrap();
        let lone = bytes(store, || _ = store.flush().unwrap());
        assert_eq!(lone, 0, "nothing to flush, nothing written");
        let annihilated = bytes(store, || {
            for _ in 0..100 {
                tube.put(vec![7; 1000]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
            store.flush().unwrap();
        });
        assert!(
            annihilated < 40_000,
            "{annihilated} bytes for 100 tasks of 1000 bytes that came and went"
        );
    });
}

#[test]
fn temporary_tubes_write_nothing() {
    with_tube(FIFO, TubeOptions::new().temporary(true), |store, tube| {
        tube.put("the first one of a life reserves ids").unwrap();
        let free = cost(store, || {
            for _ in 0..3000 {
                tube.put("x").unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
        });
        assert_eq!(free, (0, 0));
    });
}

#[test]
fn a_lone_put_writes_few_pages() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        for _ in 0..20 {
            tube.put("x").unwrap();
        }
        let lone = bytes(store, || _ = tube.put("x").unwrap());
        assert!(lone <= 36 << 10, "a put of one byte wrote {lone} bytes");
    });
}

/// Only in release builds: in others the engine checks all its pages when it opens.
#[cfg(not(debug_assertions))]
#[test]
fn opening_and_the_first_take_read_as_much_with_ten_as_with_thirty_thousand_tasks() {
    let reads = |tasks: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        {
            let store = store_on(&path);
            let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
            tube.put_many((0..tasks).map(|n| format!("task {n}"))).unwrap();
            store.close().unwrap();
        }
        let store = store_on(&path);
        let claim = store.tube("work").unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.data(), b"task 0");
        store.counters().reads
    };
    let (few, many) = (reads(10), reads(30_000));
    assert!(many <= few + 4, "{few} reads with ten tasks, {many} with thirty thousand");
}

fn bytes(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.counters().bytes_written;
    work();
    store.counters().bytes_written - before
}

/// A relaxed put and its ack came and went before the flush, which found nothing to write and
/// answered with an earlier commit than their receipts name.
#[test]
fn a_flush_makes_every_commit_that_a_receipt_names() {
    let store = Store::in_memory().unwrap();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let tube = store.create_tube("work", FIFO, relaxed).unwrap();
    for _ in 0..3 {
        tube.put("x").unwrap();
        let ack = tube.try_take().unwrap().unwrap().ack().unwrap();
        assert!(store.flush().unwrap() >= ack.commit);
    }
}
