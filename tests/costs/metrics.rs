//! Metrics: they are written with commits that happen anyway.

use std::time::Duration;

use tubewell::{
    Backoff, Durability, FIFO, FIFOTTL, Failure, Filter, ManualClock, Outcome, Store, Tube,
    TubeOptions,
};

use crate::{
    allocations_of_a_cycle, assert_plain_costs, flushes_and_commits, rows_edited, with_tube,
};

const SECOND: Duration = Duration::from_secs(1);

/// Puts, takes, and every end of a claim.
fn work(tube: &Tube) {
    tube.put_many(vec!["x"; 7]).unwrap();
    let mut claims = tube.take_many(7, Duration::ZERO).unwrap();
    let mut next = || claims.pop().unwrap();
    next().ack().unwrap();
    next().release().unwrap();
    next().release_in(SECOND).unwrap();
    next().fail(Failure::new("timeout", "why")).unwrap();
    next().bury(Failure::new("bad", "why")).unwrap();
    next().end(Outcome::snooze(SECOND)).unwrap();
    drop(next());
    tube.admin().kick(Filter::new().limit(9)).unwrap();
    tube.put("y").unwrap();
}

#[test]
fn metrics_add_no_commit_and_no_flush() {
    let costs = |options: TubeOptions| {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
        let tube = store
            .create_tube("work", options.backoff(Backoff::constant(SECOND)).driver(FIFOTTL))
            .unwrap();
        flushes_and_commits(&store, || {
            for _ in 0..3 {
                work(&tube);
                clock.advance(SECOND * 20);
            }
            clock.advance(SECOND * 86_400 * 2);
            work(&tube);
            clock.advance(SECOND * 3600);
            let _ = tube.query().day(store.today().unwrap());
        })
    };
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::new().durability(durability);
        assert_eq!(costs(options.clone()), costs(options.metrics(2)), "{durability}");
    }
}

#[test]
fn numbers_are_one_row_of_a_commit_in_ten_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tubes = ["one", "other"]
        .map(|name| store.create_tube(name, TubeOptions::new().metrics(30).driver(FIFO)).unwrap());
    // A task, the counts and the header; and the rows of the numbers of both tubes.
    let put = |tube: &Tube| rows_edited(&store, || _ = tube.put("x").unwrap());
    assert_eq!(put(&tubes[0]), 4, "the first one of the day");
    assert_eq!(put(&tubes[1]), 4, "the first one of the day");
    for _ in 0..3 {
        assert_eq!([put(&tubes[0]), put(&tubes[1]), put(&tubes[0])], [3, 3, 3]);
        clock.advance(SECOND * 10);
        assert_eq!([put(&tubes[0]), put(&tubes[1])], [5, 3]);
    }
    // At midnight the row of the last day is written once more, and that of the new one.
    clock.advance(SECOND * 86_400);
    assert_eq!([put(&tubes[0]), put(&tubes[0])], [6, 3]);
}

#[test]
fn cycle_with_metrics_allocates_as_a_plain_one() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    with_tube(FIFO, relaxed.metrics(30), |store, tube| {
        let cycle = allocations_of_a_cycle(store, tube);
        assert!(cycle <= 5, "{cycle} allocations per cycle");
    });
}

#[test]
fn tube_without_metrics_costs_as_before_beside_one_with_them() {
    with_tube(FIFO, TubeOptions::new().metrics(30), |store, tube| {
        tube.put("x").unwrap();
        let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        assert_plain_costs(store, &plain);
    });
}

/// The rows are read when the first number of a run is written, or shown.
#[test]
fn open_does_not_read_the_numbers() {
    let reads = |days: u32| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let clock = ManualClock::new();
        let open = || Store::options().clock(&clock).open(&path).unwrap();
        let store = open();
        let tube =
            store.create_tube("work", TubeOptions::new().metrics(1000).driver(FIFO)).unwrap();
        for _ in 0..days {
            clock.advance(SECOND * 86_400);
            tube.put("x").unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
        }
        assert_eq!(
            tube.query()
                .days(store.today().unwrap().plus_days(-2000)..=store.today().unwrap())
                .unwrap()
                .len(),
            days as usize
        );
        drop(tube);
        store.close().unwrap();
        let store = open();
        let _ = store.find_tube("work").unwrap().info().unwrap();
        store.admin().counters().unwrap().reads
    };
    let (few, many) = (reads(1), reads(300));
    // In debug builds the engine checks all its pages when it opens.
    if cfg!(not(debug_assertions)) {
        assert!(many <= few + 2, "{few} reads with one day, {many} with three hundred");
    }
}
