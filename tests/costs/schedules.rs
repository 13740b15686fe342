//! Schedules and their runs.

use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, ManualClock, Overlap, Schedule, Store, TubeOptions};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, store_on, with_tube};

const HOUR: Duration = Duration::from_secs(3600);

fn hourly(key: &str) -> Schedule {
    Schedule::every(key, HOUR)
}

/// A schedule has its record, its place, its due and its key; with them come the header and the
/// counts. A change replaces the record.
#[test]
fn schedule_edits_six_rows_with_one_flush() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put("warm").unwrap();
        let mut cost = (0, 0);
        let rows = rows_edited(store, || {
            cost = flushes_and_commits(store, || _ = tube.schedule(hourly("a"), "run").unwrap());
        });
        assert_eq!((rows, cost), (6, (1, 1)));
        let change = || _ = tube.schedules().change(Schedule::of("a").times(9)).unwrap();
        assert_eq!(rows_edited(store, change), 2);
        let again = || _ = tube.schedule(hourly("a").times(9), "run").unwrap();
        assert_eq!(flushes_and_commits(store, again), (0, 0), "nothing has changed");
        assert_eq!(rows_edited(store, || _ = tube.schedules().remove("a").unwrap()), 6);
    });
}

/// The same schedule by an interval and, with the feature `cron`, by an expression.
fn both(key: &str) -> Vec<Schedule> {
    vec![
        hourly(key),
        #[cfg(feature = "cron")]
        Schedule::cron(key, "0 * * * *", "UTC"),
    ]
}

/// A run by an expression notes as of which moment of the wall clock schedules are right.
fn rows_of_the_clock(schedule: &Schedule) -> u64 {
    u64::from(*schedule != hourly("a"))
}

/// A run has its record and its key; the schedule moves its due and rewrites its record.
#[test]
fn run_is_one_commit_of_few_rows() {
    for schedule in both("a") {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        tube.schedule(schedule.clone(), "run").unwrap();
        clock.advance(HOUR);
        let put = tube.statistics().unwrap().tasks.ready;
        for _ in 0..3 {
            let mut cost = (0, 0);
            let rows =
                rows_edited(&store, || cost = flushes_and_commits(&store, || clock.advance(HOUR)));
            assert_eq!((rows, cost), (7 + rows_of_the_clock(&schedule), (1, 1)));
        }
        assert_eq!(tube.statistics().unwrap().tasks.ready, put + 3);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

/// Thousands of moments have passed: the newest one has a run, with the commit of any other run.
#[test]
fn start_after_a_month_is_one_commit_for_the_run() {
    for schedule in both("a") {
        let mut costs = Vec::new();
        for closed_for in [Duration::from_secs(1), HOUR * 24 * 30] {
            let dir = tempfile::tempdir().unwrap();
            let clock = ManualClock::new();
            let open = || Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
            let store = open();
            let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
            tube.schedule(schedule.clone(), "run").unwrap();
            clock.advance(Duration::ZERO);
            let ready = tube.statistics().unwrap().tasks.ready;
            drop(tube);
            store.close().unwrap();
            clock.advance(closed_for);
            let store = open();
            clock.advance(Duration::ZERO);
            let runs = store.find_tube("work").unwrap().statistics().unwrap().tasks.ready - ready;
            let counters = store.admin().counters().unwrap();
            costs.push((
                runs,
                counters.commits - counters.opened_at,
                counters.flushes,
                counters.rows,
            ));
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
        let [(none, commits, flushes, rows), month] = costs[..] else { panic!("{costs:?}") };
        assert_eq!(none, 0);
        assert_eq!(
            month,
            (1, commits + 1, flushes + 1, rows + 7 + rows_of_the_clock(&schedule)),
            "beside those of an open"
        );
    }
}

/// Until the first of them is due.
#[test]
fn many_schedules_cost_an_idle_store_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let path = dir.path().join("store");
    let open = || Store::options().clock(&clock).open(&path).unwrap();
    let store = open();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let deferred = tube.to_async();
    let later = std::time::UNIX_EPOCH + Duration::from_secs(1_767_225_600) + HOUR * 10;
    let tickets: Vec<_> = (0..10_000)
        .map(|n| deferred.schedule(hourly(&format!("k{n}")).starting(later), "run"))
        .collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    drop((tube, deferred));
    store.close().unwrap();
    let store = open();
    clock.advance(Duration::from_secs(10));
    let before = store.admin().counters().unwrap();
    for _ in 0..9 {
        clock.advance(HOUR);
    }
    assert_eq!(store.admin().counters().unwrap(), before);
    clock.advance(HOUR);
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 10_000);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Whether the last run is over is asked of the tube of the schedule only, unless tasks have moved.
#[test]
fn run_after_the_end_of_the_last_one_looks_in_no_other_tube() {
    let reads = |others: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        {
            let store = store_on(&path);
            for n in 0..=others {
                let tube =
                    store.create_tube(&n.to_string(), TubeOptions::new().driver(FIFO)).unwrap();
                tube.put_many(["x"; 10]).unwrap();
            }
            store.close().unwrap();
        }
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).cache_size(0).open(&path).unwrap();
        let tube = store.find_tube("0").unwrap();
        tube.schedule(hourly("a").overlap(Overlap::Skip), "run").unwrap();
        clock.advance(Duration::ZERO);
        let mut reads = 0;
        for run in 1..4 {
            let last = tube.schedules().list(None, 1).unwrap().items[0].last.unwrap();
            tube.claim(last).unwrap().ack().unwrap();
            let before = store.admin().counters().unwrap().reads;
            clock.advance(HOUR);
            reads = store.admin().counters().unwrap().reads - before;
            let stored = &tube.schedules().list(None, 1).unwrap().items[0];
            assert_eq!((stored.runs, stored.skipped), (run + 1, 0));
        }
        reads
    };
    let (few, many) = (reads(1), reads(100));
    assert!(many <= few + 8, "{few} reads beside one tube, {many} beside a hundred");
}

#[test]
fn schedules_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, plain| {
        let other = store.create_tube("other", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let later = std::time::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        for n in 0..50 {
            other.schedule(hourly(&format!("k{n}")).starting(later), "run").unwrap();
        }
        assert_plain_costs(store, plain);
    });
}

/// Only in release builds: in debug builds the engine checks all its pages when it opens.
#[cfg(not(debug_assertions))]
#[test]
fn reads_of_open_do_not_grow_with_the_number_of_schedules() {
    let reads = |count: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let store = crate::store_on(&path);
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let deferred = tube.to_async();
        let later = std::time::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let tickets: Vec<_> = (0..count)
            .map(|n| deferred.schedule(hourly(&format!("k{n}")).starting(later), "run"))
            .collect();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        drop((tube, deferred));
        store.close().unwrap();
        crate::store_on(&path).admin().counters().unwrap().reads
    };
    let (few, many) = (reads(10), reads(30_000));
    assert!(many <= few + 4, "{few} reads with ten schedules, {many} with thirty thousand");
}
