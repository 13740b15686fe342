//! The order in which tasks are listed and taken.

use tubewell::TaskState;

use super::files::{create, draft};
use super::support::*;

/// The ids of the ready tasks, in the order of the list.
fn listed(case: &Case) -> Vec<u64> {
    let page = case.tube.query().list(TaskState::Ready, None, 1000).unwrap();
    page.items.iter().map(|info| info.id).collect()
}

/// Q032
/// Difference: the lowest number is the most urgent one, so the priorities -10 to 9 are 19 to 0.
/// Tasks of sub-queues are listed sub-queue by sub-queue.
#[test]
fn tasks_are_listed_and_taken_by_priority() {
    for_each_driver(TIMED, |case| {
        // 7 and 20 have no common factor, so each priority comes once, and not in order.
        let pris: Vec<u32> = (0..20).map(|n| n * 7 % 20).collect();
        let ids: Vec<u64> =
            pris.iter().map(|priority| case.add(case.draft("x").priority(*priority))).collect();
        let mut expected: Vec<_> = pris.into_iter().zip(ids).collect();
        expected.sort_unstable();
        let expected: Vec<u64> = expected.into_iter().map(|(_, id)| id).collect();
        if !case.sub_queued() {
            assert_eq!(listed(case), expected);
        }
        let claims = case.tube.take_many(100, ZERO).unwrap();
        assert!(claims.iter().map(tubewell::Claim::priority).eq(0..20));
        assert!(claims.iter().map(tubewell::Claim::id).eq(expected));
    });
}

/// Q033
#[test]
fn tasks_put_at_different_times_are_taken_in_put_order() {
    for_each_driver(ALL, |case| {
        for _ in 0..100 {
            case.put("x");
            case.advance(1_000);
        }
        assert_eq!(case.take_all(), (0..100).collect::<Vec<u64>>());
    });
}

/// Q040
/// Difference: tasks put at the same moment are taken in put order, not by name.
#[test]
fn tasks_put_at_same_moment_are_taken_in_put_order() {
    for_each_driver(ALL, |case| {
        for body in ["a", "c", "b"] {
            case.put(body);
        }
        let claims = case.tube.take_many(10, ZERO).unwrap();
        let bodies: Vec<&[u8]> = claims.iter().map(tubewell::Claim::body).collect();
        assert_eq!(bodies, [b"a", b"c", b"b"]);
    });
}

/// Q042
/// Difference: the order never depends on time. A task whose claim has expired is in its old place,
/// and not before all others; so is a task whose delay has elapsed.
#[test]
fn expired_and_delayed_tasks_are_taken_by_priority() {
    for_each_driver_with(TIMED, tubewell::TubeOptions::new().max_attempts(6), |case| {
        let old = case.add(case.draft("old").priority(205).ttr(secs(1)));
        assert_eq!(case.take(), Some(old));
        let waiting = case.add(case.draft("waiting").priority(100));
        let scheduled = case.add(case.draft("scheduled").priority(50).delay(secs(1)));
        let child = case.add(case.draft("child").priority(0));
        case.advance(1000);
        let claims = case.tube.take_many(10, ZERO).unwrap();
        let ids: Vec<u64> = claims.iter().map(tubewell::Claim::id).collect();
        assert_eq!(ids, [child, scheduled, waiting, old]);
    });
}

/// Q043
/// Difference: a take considers all tasks whose delay has elapsed, and not the earliest one alone.
#[test]
fn urgent_task_is_taken_before_task_with_earlier_delay() {
    for_each_driver(TIMED, |case| {
        let low = case.add(case.draft("low").delay(secs(5)).priority(10));
        let high = case.add(case.draft("high").delay(secs(6)).priority(0));
        case.advance(20_000);
        assert_eq!(case.take(), Some(high));
        assert_eq!(case.take(), Some(low));
    });
}

/// Q043
#[test]
fn first_take_after_open_returns_most_urgent_task_whose_delay_has_elapsed() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = |put| tube.put(put).unwrap().id;
        let low = put(draft(driver, "low").delay(secs(5)).priority(10));
        let high = put(draft(driver, "high").delay(secs(6)).priority(1));
        drop(tube);
        let store = file.reopen_after(store, secs(20));
        let tube = store.find_tube("case").unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(high), Some(low)));
        assert_sound(&store);
    }
}

/// Q043
/// Difference: the tasks that fell due while the store was closed are in their places once it has
/// caught up.
#[test]
fn urgent_task_whose_delay_has_elapsed_is_taken_before_ready_task_after_catch_up() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = |put| tube.put(put).unwrap().id;
        let ready = put(draft(driver, "ready").priority(20));
        let low = put(draft(driver, "low").delay(secs(5)).priority(10));
        let high = put(draft(driver, "high").delay(secs(6)).priority(1));
        drop(tube);
        let store = file.reopen_after(store, secs(20));
        store.admin().catch_up().unwrap();
        let tube = store.find_tube("case").unwrap();
        assert_eq!([take(&tube), take(&tube), take(&tube)], [high, low, ready].map(Some));
        assert_sound(&store);
    }
}

/// Q044
/// Difference: a task whose delay has elapsed is in its old place, by id, and not behind the tasks
/// that were put meanwhile: the order never depends on time.
#[test]
fn delayed_task_is_taken_before_task_put_after_it() {
    for_each_driver(TIMED, |case| {
        let late = case.add(case.draft("late").delay(secs(5)));
        case.advance(3_000);
        let now = case.put("now");
        case.advance(17_000);
        let claims = case.tube.take_many(2, ZERO).unwrap();
        assert!(claims.iter().map(tubewell::Claim::id).eq([late, now]));
    });
}

/// T030
#[test]
fn tasks_of_same_priority_keep_put_order() {
    const HIGH: u32 = 1;
    const NORMAL: u32 = 2;
    const LOW: u32 = 3;
    for_each_driver(TIMED, |case| {
        let ids = [NORMAL, LOW, HIGH, NORMAL]
            .map(|priority| case.add(case.draft("x").priority(priority)));
        let [first_normal, low, high, second_normal] = ids;
        let expected = [high, first_normal, second_normal, low];
        if !case.sub_queued() {
            assert_eq!(listed(case), expected);
        }
        assert_eq!(case.take_all(), expected);
    });
}
