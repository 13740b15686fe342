//! Gates of tubes.

use std::time::Duration;

use tubewell::{Durability, FIFO, ManualClock, Rate, Store, TubeOptions};

use crate::{allocations, allocations_of_a_cycle, flushes_and_commits, rows_edited, with_tube};

const SECOND: Duration = Duration::from_secs(1);

/// The header of the store and the definition of the tube.
#[test]
fn change_of_a_gate_edits_two_rows_in_one_commit() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let alter = |limit| tube.admin().alter(TubeOptions::new().max_taken(limit)).unwrap();
        let calls: [&dyn Fn(); 5] = [
            &|| tube.admin().pause().unwrap(),
            &|| tube.admin().pause_for(SECOND).unwrap(),
            &|| tube.admin().unpause().unwrap(),
            &|| alter(1),
            &|| alter(2),
        ];
        for call in calls {
            let mut cost = (0, 0);
            let rows = rows_edited(store, || cost = flushes_and_commits(store, call));
            assert_eq!((rows, cost), (2, (1, 1)));
        }
        assert_eq!(flushes_and_commits(store, || alter(2)), (0, 0));
        assert_eq!(flushes_and_commits(store, || tube.admin().unpause().unwrap()), (0, 0));
    });
}

#[test]
fn takes_through_gates_cost_no_flush_and_allocate_as_plain_ones() {
    let relaxed = || TubeOptions::new().durability(Durability::relaxed());
    let rate = Rate::per(1_000_000, SECOND);
    for options in [relaxed(), relaxed().max_taken(1), relaxed().rate(rate)] {
        with_tube(FIFO, options.clone(), |store, tube| {
            let cycle = allocations_of_a_cycle(store, tube);
            println!("{options:?}: {cycle} allocations");
            assert!(cycle <= 5, "{options:?}: {cycle} allocations per cycle");
        });
    }
}

/// It looks for no task.
#[test]
fn take_at_a_shut_gate_allocates_nothing() {
    let limited = TubeOptions::new().max_taken(1);
    let rated = TubeOptions::new().rate(Rate::per(1, SECOND));
    for options in [TubeOptions::new(), limited, rated] {
        with_tube(FIFO, options.clone(), |_, tube| {
            tube.put_many(vec!["x"; 4000]).unwrap();
            let _claim = tube.try_take().unwrap();
            if tube.try_take().unwrap().is_some() {
                tube.admin().pause().unwrap();
            }
            let take = allocations(100, || assert!(tube.try_take().unwrap().is_none()));
            assert_eq!(take, 0, "{options:?}");
        });
    }
}

#[test]
fn end_of_a_pause_costs_no_flush() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    tube.admin().pause_for(SECOND).unwrap();
    let cost = flushes_and_commits(&store, || {
        clock.advance(SECOND);
        let _ = tube.try_take().unwrap().unwrap().detach();
    });
    assert_eq!(cost, (0, 0));
}
