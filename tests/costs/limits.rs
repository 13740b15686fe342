//! Limits, rates and pauses of sub-queues.

use std::time::Duration;

use tubewell::{Durability, FIFO, ManualClock, Put, Rate, Store, TubeOptions, UTUBE};

use crate::{
    allocations, allocations_of_a_cycle, assert_plain_costs, flushes_and_commits, rows_edited,
    with_tube,
};

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

/// Each task has a sub-queue of its own, which is in its cooldown after the ack.
#[test]
fn cycle_that_begins_a_cooldown_costs_no_flush_and_few_allocations() {
    let relaxed = || TubeOptions::new().durability(Durability::relaxed());
    let cycles = [relaxed(), relaxed().sub_queue_cooldown(3600 * SECOND)].map(|options| {
        let mut cycle = 0;
        with_tube(UTUBE, options, |store, tube| {
            let mut n = 0;
            let mut put = || {
                n += 1;
                tube.put(Put::new("x").sub_queue(n.to_string())).unwrap();
            };
            let take = || _ = tube.try_take().unwrap().unwrap().ack().unwrap();
            (0..10).for_each(|_| put());
            assert_eq!(flushes_and_commits(store, || (0..10).for_each(|_| take())), (0, 0));
            cycle = allocations(500, || {
                put();
                take();
            });
            let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
            assert_plain_costs(store, &plain);
        });
        cycle
    });
    println!("{cycles:?} allocations");
    assert!(cycles[1] <= cycles[0] + 3, "{cycles:?} allocations per cycle");
}

/// A take meets no task of a sub-queue that is full, paused, without a token or in its cooldown, however
/// many there are.
#[test]
fn crowd_in_shut_sub_queues_costs_a_take_no_allocation() {
    let limited = TubeOptions::new().sub_queue_limit(2);
    let rated = TubeOptions::new().sub_queue_limit(9).sub_queue_rate(Rate::per(2, SECOND));
    let shared = TubeOptions::new().shared_limits(true).sub_queue_limit(2);
    let cooled = TubeOptions::new().sub_queue_limit(2).sub_queue_cooldown(3600 * SECOND);
    for (options, ends) in [(limited, false), (rated, false), (shared, false), (cooled, true)] {
        with_tube(UTUBE, options.clone(), |_, tube| {
            let puts = (0..4000).map(|n| Put::new("x").sub_queue((n % 100).to_string()));
            tube.put_many(puts).unwrap();
            let claims = tube.take_many(4000, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 200);
            if ends {
                for claim in claims {
                    claim.ack().unwrap();
                }
            }
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
