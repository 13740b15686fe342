//! Retention of buried tasks, by count and by age.

use std::task::Waker;

use tubewell::driver::LIMFIFOTTL;
use tubewell::expert::{LastFailure, Restore};
use tubewell::{Ending, Failure, Filter, Keep, TaskState, Tube, TubeOptions};

use super::executor::{block_on, poll_pending};
use super::files::{create_with, draft};
use super::support::*;

fn keep_buried(keep: Keep) -> TubeOptions {
    TubeOptions::new().keep_buried(keep)
}

fn buried(tube: &Tube) -> Vec<u64> {
    let page = tube.query().list(TaskState::Buried, None, 100).unwrap();
    page.items.iter().map(|task| task.id).collect()
}

#[test]
fn no_more_restored_buried_tasks_than_are_kept_stay() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, keep_buried(Keep::new().count(2)));
        let restore = |n: u64| Restore::new(draft(driver, &n.to_string())).buried(true);
        tube.admin().restore_many((0..7).map(restore)).unwrap();
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("buried", 2), ("total", 2)]));
        for n in 7..14 {
            file.clock.advance(ms(1));
            let id = tube.put(draft(driver, &n.to_string())).unwrap().id;
            tube.admin().bury(id, None).unwrap();
            assert_eq!(buried(&tube).last(), Some(&id));
            assert_eq!(tube.statistics().unwrap().tasks.buried, 2);
            assert_sound(&store);
        }
    }
}

#[test]
fn restored_buried_task_is_forgotten_after_its_age() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, keep_buried(Keep::new().age(secs(60))));
        tube.admin().restore_many([Restore::new(draft(driver, "x")).buried(true)]).unwrap();
        let id = buried(&tube)[0];
        let store = file.reopen_after(store, secs(30));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(state(&tube, id), Some(TaskState::Buried));
        file.clock.advance(secs(30));
        assert_eq!(tube.ending(id), Ok(Some(Ending::Gone)));
        assert_sound(&store);
    }
}

#[test]
fn buried_tasks_of_count_and_age_zero_are_not_kept() {
    for keep in [Keep::new().count(0), Keep::new().age(ZERO)] {
        for_each_driver_with(ALL, keep_buried(keep).max_attempts(1), |case| {
            case.put_all([0, 1, 2]);
            let failed = case.tube.try_take().unwrap().unwrap();
            assert_eq!(failed.fail(Failure::new("g", "m")).unwrap().state, TaskState::Buried);
            drop(case.tube.try_take().unwrap().unwrap());
            assert_eq!(case.tube.admin().bury(2, None).unwrap().state, TaskState::Buried);
            case.advance(0);
            case.store.flush().unwrap();
            assert_eq!([0, 1, 2].map(|id| case.state(id)), [None; 3]);
            assert_eq!(case.tasks(), counts([("done", 3)]));
            assert_eq!(case.tube.query().groups(), Ok(vec![]));
        });
    }
}

/// A buried task takes a place until it is forgotten.
#[test]
fn forgotten_buried_task_makes_place_for_a_waiting_put() {
    let options = keep_buried(Keep::new().count(1)).capacity(2);
    for temporary in [false, true] {
        let options = options.clone().temporary(temporary);
        for_each_driver_with(&[LIMFIFOTTL], options, |case| {
            case.put_all([0, 1]);
            case.tube.admin().bury(0, None).unwrap();
            let held = case.tube.try_take().unwrap().unwrap();
            let mut put = Box::pin(case.tube.to_async().put_timeout("waits", NO_TIMEOUT));
            poll_pending(&mut put, Waker::noop());
            let taker = case.begin_take();
            case.advance(1);
            held.bury(Failure::new("g", "m")).unwrap();
            assert_eq!(block_on(put).unwrap().id, 2);
            assert_eq!(taker.id(), Some(2));
            assert_eq!([0, 1].map(|id| case.state(id)), [None, Some(TaskState::Buried)]);
            case.tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
        });
    }
}

#[test]
fn buried_task_is_kept_no_longer_than_its_ttl() {
    for_each_driver_with(TIMED, keep_buried(Keep::new().age(secs(60))), |case| {
        let short = case.add(case.draft("x").ttl(secs(10)));
        let long = case.add(case.draft("x").ttl(secs(100)));
        for id in [short, long] {
            case.tube.admin().bury(id, None).unwrap();
        }
        case.advance(10_000);
        assert_eq!((case.state(short), case.calls()["ttl"]), (None, 1));
        case.advance(50_000);
        assert_eq!((case.state(long), case.calls()["ttl"]), (None, 1));
        assert_eq!(case.tube.statistics().unwrap().calls.forget, 1);
    });
}

#[test]
fn kicked_task_gets_a_new_age_when_it_is_buried_again() {
    for_each_driver_with(ALL, keep_buried(Keep::new().age(secs(60))), |case| {
        case.put_all([0]);
        case.tube.admin().bury(0, None).unwrap();
        case.advance(59_000);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        case.advance(59_000);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.tube.admin().bury(0, None).unwrap();
        case.advance(59_999);
        assert_eq!(case.state(0), Some(TaskState::Buried));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// A task that has used its last attempt is buried at close.
#[test]
fn close_buries_no_more_tasks_than_are_kept() {
    for count in 0..3 {
        let file = StoreFile::new();
        let options = keep_buried(Keep::new().count(count)).max_attempts(1);
        let (store, tube) = create_with(&file, LIMFIFOTTL, options);
        tube.put_many(["x"; 5]).unwrap();
        tube.admin().bury(0, None).unwrap();
        file.clock.advance(ms(1));
        for id in 1..5 {
            assert_eq!(take(&tube), Some(id));
        }
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube).get("buried").copied().unwrap_or_default(), count);
        let failures =
            buried(&tube).into_iter().map(|id| tube.query().task(id).unwrap().info.failure);
        assert!(failures.into_iter().all(|failure| failure.unwrap().group == "lost"));
        assert_sound(&store);
    }
}

/// The restored task is older than the one that the retention has forgotten last.
#[test]
fn restored_task_that_was_buried_long_ago_is_the_oldest() {
    for_each_driver_with(ALL, keep_buried(Keep::new().count(2)), |case| {
        case.advance(60_000);
        for _ in 0..4 {
            let id = case.put("x");
            case.tube.admin().bury(id, None).unwrap();
            case.advance(1_000);
        }
        assert_eq!(buried(&case.tube), [2, 3]);
        case.tube.delete(2).unwrap();
        case.advance(100);
        let mut failure = LastFailure::new("g", "m", 1);
        failure.ago = secs(30);
        let old = Restore::new(case.draft("old")).buried(true).group("g").failure(failure);
        let restored = case.tube.admin().restore_many([old]).unwrap()[0].id;
        assert_eq!(buried(&case.tube), [restored, 3]);
        assert_sound(&case.store);
        let id = case.put("x");
        case.tube.admin().bury(id, None).unwrap();
        assert_eq!(buried(&case.tube), [3, id]);
        assert_eq!(case.tube.query().groups(), Ok(vec![]));
    });
}

#[test]
fn restored_tasks_with_keys_that_are_not_kept_are_not_counted_any_more() {
    let keep = TubeOptions::new().keep_buried(Keep::new().count(0));
    for_each_driver_with(ALL, keep, |case| {
        let buried = |key: &str| Restore::new(case.draft("x").key(key)).buried(true);
        case.tube.admin().restore_many([buried("a"), buried("b")]).unwrap();
        assert_eq!(case.tasks(), counts([("done", 2)]));
        assert_eq!(case.store.by_key("b").unwrap(), None);
    });
}
