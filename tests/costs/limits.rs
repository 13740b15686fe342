//! Limits, rates and pauses of sub-queues.

use std::time::Duration;

use tubewell::{Durability, ManualClock, Put, Rate, Store, TubeOptions, UTUBE};

use crate::{allocations, allocations_of_a_cycle, flushes_and_commits, rows_edited, with_tube};

const SECOND: Duration = Duration::from_secs(1);

/// The header of the store, and the row of the pause or the limit.
#[test]
fn change_of_a_pause_or_a_limit_edits_two_rows_in_one_commit() {
    with_tube(UTUBE, TubeOptions::new(), |store, tube| {
        let calls: [&dyn Fn(); 6] = [
            &|| tube.admin().pause_sub_queue("x", SECOND).unwrap(),
            &|| tube.admin().pause_sub_queue("x", Duration::MAX).unwrap(),
            &|| tube.admin().unpause_sub_queue("x").unwrap(),
            &|| store.admin().set_limit("x", 1).unwrap(),
            &|| store.admin().set_limit("x", 2).unwrap(),
            &|| store.admin().remove_limit("x").unwrap(),
        ];
        for call in calls {
            let mut cost = (0, 0);
            let rows = rows_edited(store, || cost = flushes_and_commits(store, call));
            assert_eq!((rows, cost), (2, (1, 1)));
        }
        assert_eq!(
            flushes_and_commits(store, || tube.admin().unpause_sub_queue("x").unwrap()),
            (0, 0)
        );
        assert_eq!(flushes_and_commits(store, || store.admin().remove_limit("x").unwrap()), (0, 0));
    });
}

#[test]
fn takes_of_limited_sub_queues_cost_no_flush_and_few_allocations() {
    let relaxed = || TubeOptions::new().durability(Durability::relaxed());
    let rate = Rate::per(1_000_000, SECOND);
    for (options, most) in [
        (relaxed(), 8),
        (relaxed().sub_queue_limit(4), 8),
        (relaxed().sub_queue_limit(4).shared_limits(true), 11),
        (relaxed().sub_queue_rate(rate), 12),
    ] {
        with_tube(UTUBE, options.clone(), |store, tube| {
            let cycle = allocations_of_a_cycle(store, tube);
            println!("{options:?}: {cycle} allocations");
            assert!(cycle <= most, "{options:?}: {cycle} allocations per cycle");
        });
    }
}

/// A take meets no task of a sub-queue that is full, paused or without a token, however many there
/// are.
#[test]
fn crowd_in_shut_sub_queues_costs_a_take_no_allocation() {
    let limited = TubeOptions::new().sub_queue_limit(2);
    let rated = TubeOptions::new().sub_queue_limit(9).sub_queue_rate(Rate::per(2, SECOND));
    let shared = TubeOptions::new().shared_limits(true).sub_queue_limit(2);
    for options in [limited, rated, shared] {
        with_tube(UTUBE, options.clone(), |_, tube| {
            let puts = (0..4000).map(|n| Put::new("x").sub_queue((n % 100).to_string()));
            tube.put_many(puts).unwrap();
            let claims = tube.take_many(4000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 200);
            let take = allocations(100, || assert!(tube.try_take().unwrap().is_none()));
            assert_eq!(take, 0, "{options:?}");
        });
    }
}

#[test]
fn end_of_a_pause_of_a_sub_queue_costs_no_flush() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(UTUBE)).unwrap();
    tube.put(Put::new("x").sub_queue("x")).unwrap();
    tube.admin().pause_sub_queue("x", SECOND).unwrap();
    let cost = flushes_and_commits(&store, || {
        clock.advance(SECOND);
        let _ = tube.try_take().unwrap().unwrap().detach();
    });
    assert_eq!(cost, (0, 0));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
