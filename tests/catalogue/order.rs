//! Group B: the order of takes and kicks.

use tubewell::{EventKind, Filter, TaskState};

use super::support::*;

/// B01, B12
#[test]
fn take_returns_tasks_in_id_order() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in 0..4 {
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.id(), id);
            assert_eq!(claim.body(), format!("task {id}").as_bytes());
            assert_eq!(case.state(id), Some(TaskState::Taken));
            keep(claim);
        }
        assert_eq!(case.take(), None);
    });
}

/// B02
#[test]
fn released_task_returns_to_its_position() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take_all(), [0, 1, 2]);
    });
}

/// B03
#[test]
fn released_task_is_taken_before_later_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), Some(1));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), Some(2));
    });
}

/// B04, B05
#[test]
fn take_with_zero_timeout_returns_immediately() {
    for_each_driver(ALL, |case| {
        assert_eq!(case.take(), None);
        assert!(case.tube.try_take().unwrap().is_none());
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
    });
}

/// B07, B12
#[test]
fn take_orders_by_priority_then_id() {
    for_each_driver(TIMED, |case| {
        for priority in [2, 1, 0, 2, 1, 0] {
            case.add(case.draft("x").priority(priority));
        }
        assert_eq!(case.take_all(), [2, 5, 1, 4, 0, 3]);
    });
}

/// B08
#[test]
fn released_task_keeps_priority() {
    for_each_driver(TIMED, |case| {
        let low = case.add(case.draft("low").priority(5));
        let high = case.add(case.draft("high").priority(1));
        assert_eq!(case.take(), Some(high));
        case.tube.claimed(high).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.info(high).priority, 1);
        assert_eq!(case.take_all(), [high, low]);
    });
}

/// B07
#[test]
fn take_orders_extreme_priorities() {
    for_each_driver(TIMED, |case| {
        let last = case.add(case.draft("x").priority(u32::MAX));
        let middle = case.add(case.draft("x").priority(u32::MAX - 1));
        let first = case.add(case.draft("x").priority(0));
        assert_eq!(case.take_all(), [first, middle, last]);
    });
}

/// B09
#[test]
fn delayed_task_becomes_ready_in_id_order() {
    for_each_driver(TIMED, |case| {
        let delayed = case.add(case.draft("a").delay(ms(100)));
        let ready = case.put("b");
        case.advance(150);
        assert_eq!(case.take_all(), [delayed, ready]);
    });
}

/// B10
#[test]
fn take_skips_buried_and_delayed_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(0, None).unwrap();
        if case.timed() {
            case.add(case.draft("late").delay(secs(10)));
        }
        assert_eq!(case.take_all(), [1]);
    });
}

/// B11
#[test]
fn take_skips_expired_tasks() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("short").ttl(ms(100)));
        let long = case.put("long");
        case.advance(100);
        assert_eq!(case.take_all(), [long]);
    });
}

/// B13
#[test]
fn kicked_tasks_return_to_their_positions() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in [2, 0, 3] {
            case.tube.admin().bury(id, None).unwrap();
        }
        assert_eq!(case.tube.admin().kick(Filter::new().limit(2)).unwrap(), 2);
        assert_eq!(case.take_all(), [0, 1, 2]);
        assert_eq!(case.state(3), Some(TaskState::Buried));
    });
}

/// B14
#[test]
fn kick_orders_by_priority() {
    for_each_driver(TIMED, |case| {
        for priority in [2, 1, 0, 2, 1, 0] {
            let id = case.add(case.draft("x").priority(priority));
            case.tube.admin().bury(id, None).unwrap();
        }
        let log = case.event_log();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(4)).unwrap(), 4);
        assert_eq!(log.read(), [2, 5, 1, 4].map(|id| (id, EventKind::Kick, TaskState::Ready)));
        assert_eq!(case.take_all(), [2, 5, 1, 4]);
    });
}

/// B01, B02
#[test]
fn take_returns_long_backlog_in_order_before_and_after_release_all() {
    for_each_driver(all_or_few(), |case| {
        case.tube.put_many((0..3000).map(|_| case.draft("x"))).unwrap();
        let ids: Vec<u64> = (0..3000).collect();
        assert_eq!(case.take_all(), ids);
        assert_eq!(case.tube.admin().release(Filter::new()).unwrap(), 3000);
        assert_eq!(case.take_all(), ids);
    });
}

/// B07, B08
#[test]
fn take_skips_taken_tasks_after_many_urgent_puts() {
    for_each_driver(TIMED, |case| {
        case.tube.put_many((0..3000).map(|_| case.draft("x").priority(5))).unwrap();
        assert_eq!(case.take_all().len(), 3000);
        case.tube.put_many((0..3000).map(|_| case.draft("x").priority(0))).unwrap();
        assert_eq!(case.take_all(), (3000..6000).collect::<Vec<u64>>());
        case.tube.claimed(7).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take_all(), [7]);
    });
}
