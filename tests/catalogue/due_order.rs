//! Group E: many deadlines at the same time, and their order.

use std::time::Duration;

use tubewell::driver::FIFOTTL;
use tubewell::{EventKind, TubeOptions};

use super::support::*;
use crate::stores;

/// E33, G10
#[test]
fn task_of_expired_claim_is_given_to_waiting_taker() {
    for_each_driver(TIMED, |case| {
        let holder = case.tube_in_new_session();
        case.add(case.draft("x").ttr(ms(300)));
        assert_eq!(take(&holder), Some(0));
        let mut waiting = WaitingTake::begin(case.tube.to_async().take_timeout(secs(1)));
        case.advance(299);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
        assert_not_taken(holder.claimed(0).and_then(tubewell::Claim::ack), 0);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// E34
#[test]
fn many_tasks_due_at_same_time_are_all_processed() {
    for_each_driver(TIMED, |case| {
        let drafts = |count: u64| (0..count).map(|n| case.draft(&format!("task {n}")));
        case.tube.put_many(drafts(3000).map(|put| put.ttl(secs(1)))).unwrap();
        case.tube.put_many(drafts(3000).map(|put| put.delay(secs(1)))).unwrap();
        case.add(case.draft("far").ttl(secs(1000)));
        case.advance(1000);
        let tasks = counts([("ready", 3001), ("total", 3001), ("done", 3000)]);
        assert_eq!(case.tasks(), tasks);
        case.add(case.draft("afterwards").ttl(secs(1)));
        case.advance(1000);
        assert_eq!(case.tasks().get("done"), Some(&3001));
    });
}

/// E35
#[test]
fn drop_tube_with_pending_deadlines_succeeds() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(ms(100)).ttl(secs(1)), |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.take(), Some(1));
        case.advance(100);
        case.store.drop_tube("case").unwrap();
        case.advance(5000);
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(FIFOTTL)).unwrap();
        let id = other.put("x").unwrap().id;
        assert_eq!(take(&other), Some(id));
        other.claimed(id).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// E05, E11, E01
#[test]
fn clock_step_processes_due_tasks_in_time_order() {
    for_each_driver(TIMED, |case| {
        let log = case.event_log();
        case.add(case.draft("ttl").ttl(ms(300)));
        case.add(case.draft("delay").delay(ms(100)));
        case.add(case.draft("ttr").ttr(ms(200)).ttl(secs(60)));
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.take(), Some(2));
        log.read();
        case.advance(10_000);
        let due: Vec<_> = log.read().into_iter().map(|(id, kind, _)| (id, kind)).collect();
        assert_eq!(
            due,
            [
                (1, EventKind::Delay),
                (2, EventKind::Ttr),
                (0, EventKind::Delete),
                (0, EventKind::Ttl),
            ]
        );
    });
}

/// Regression: such tasks were processed in the order in which their tubes were created.
#[test]
fn tasks_due_at_same_time_are_processed_in_id_order() {
    let clock = stores::ManualClock::new();
    let store = stores::in_memory_with(tubewell::Store::options().clock(&clock));
    let [old, new] = ["old", "new"]
        .map(|name| store.create_tube(name, TubeOptions::new().driver(tubewell::FIFOTTL)).unwrap());
    let later = || tubewell::Put::new("later").delay(ms(7));
    new.put(later()).unwrap();
    old.put(later()).unwrap();
    let waiting = WaitingTake::begin(store.to_async().take_any(&[&old, &new], Duration::MAX));
    clock.advance(ms(7));
    assert_eq!(waiting.id(), Some(0), "the task that was put first must be served first");
}
