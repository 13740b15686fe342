//! Tasks that wait for a moment of the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, with_tube};

const START: Duration = Duration::from_secs(1_767_225_600);
const HOUR: Duration = Duration::from_secs(3600);

fn at(since: Duration) -> SystemTime {
    UNIX_EPOCH + START + since
}

/// A delayed put has its record, its place and its due, the header and the counts. One with a moment
/// has the row of the moment instead of the due, and one with both has the due first.
#[test]
fn put_with_a_moment_edits_as_many_rows_as_one_with_a_delay() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, tube| {
        tube.put("warm").unwrap();
        let later = || Put::new("x").not_before(at(HOUR));
        for put in [Put::new("x").delay(HOUR), later(), later().delay(HOUR), later().ttl(HOUR)] {
            let mut cost = (0, 0);
            let rows = rows_edited(store, || {
                cost = flushes_and_commits(store, || _ = tube.put(put).unwrap());
            });
            assert_eq!((rows, cost), (5, (1, 1)));
        }
        let past = Put::new("x").not_before(at(Duration::ZERO));
        assert_eq!(rows_edited(store, || _ = tube.put(past).unwrap()), 3);
    });
}

/// No row is converted when the clock is set, and none is read.
#[test]
fn wall_clock_that_is_set_costs_waiting_tasks_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START);
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let put = |n| Put::new("x").not_before(at(HOUR * n)).ttl(HOUR);
    tube.put_many((100..1100).map(put)).unwrap();
    clock.advance(HOUR);
    let before = store.admin().counters().unwrap();
    for n in 0..90 {
        clock.set_wall(START + HOUR * n);
        clock.advance(Duration::from_secs(1));
        clock.set_wall(START);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(store.admin().counters().unwrap(), before);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Another tube of the store has tasks with moments.
#[test]
fn moments_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, plain| {
        let other = store.create_tube("other", TubeOptions::new().driver(FIFOTTL)).unwrap();
        other.put_many((1..100).map(|n| Put::new("x").not_before(at(HOUR * n)))).unwrap();
        assert_plain_costs(store, plain);
    });
}
