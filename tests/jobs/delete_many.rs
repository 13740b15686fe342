//! Deletes of many tasks with one commit.

use tubewell::{Durability, Error, Filter, Keep, Outcome, TaskState, TubeOptions};

use super::files::{after_a_kill, create_with, draft};
use super::support::*;

/// Q094
/// Difference: no task depends on another one here.
#[test]
fn delete_many_deletes_tasks_in_every_state() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::new().keep_done(Keep::new()).durability(durability);
        for_each_driver_with(ALL, options, |case| {
            case.put_all([0, 1, 2, 3, 4]);
            case.tube.admin().bury(2, None).unwrap();
            case.tube.claim(3).unwrap().end(Outcome::result("result")).unwrap();
            let claim = case.tube.claim(1).unwrap();
            assert_eq!(case.tube.admin().delete(Filter::new().ids([3, 2, 1, 0])).unwrap(), 4);
            assert_not_taken(claim.ack(), 1);
            assert!((0..4).all(|id| case.state(id).is_none()));
            assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1), ("done", 4)]));
            assert_eq!(case.calls()["delete"], 4);
            assert_eq!(case.take_all(), [4]);
        });
    }
}

/// Q096
#[test]
fn delete_many_skips_unknown_and_repeated_ids() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        let elsewhere = other.put(case.draft("x")).unwrap().id;
        assert_eq!(
            case.tube.admin().delete(Filter::new().ids([0, 77, 1, 0, elsewhere])).unwrap(),
            2
        );
        assert_eq!(case.tube.admin().delete(Filter::new().ids([0, 77, 1])).unwrap(), 0);
        assert_eq!(case.tube.admin().delete(Filter::new().ids([0_u64; 0])).unwrap(), 0);
        assert_eq!(case.calls()["delete"], 2);
        assert_eq!(other.statistics().unwrap().tasks.ready, 1);
    });
}

#[test]
fn delete_many_of_ten_thousand_tasks_is_one_commit() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new());
        let put = |n: u64| draft(driver, &format!("{}", n % 100));
        let puts = tube.put_many((0..10_001).map(put)).unwrap();
        let ids: Vec<u64> = puts.iter().map(|receipt| receipt.id).collect();
        let refused = tube.admin().delete(Filter::new().ids(&ids)).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 10_001);
        let before = store.admin().counters().unwrap().commits;
        assert_eq!(tube.admin().delete(Filter::new().ids(&ids[1..])).unwrap(), 10_000);
        assert_eq!(store.admin().counters().unwrap().commits - before, 1);
        let (_killed, copy) = after_a_kill(&file);
        assert_eq!(copy.find_tube("case").unwrap().statistics().unwrap().tasks.total, 1);
        assert_sound(&copy);
        assert_eq!(take(&tube), Some(ids[0]));
        assert_sound(&store);
    }
}

/// Both calls are answered by the flush that removes the task.
#[test]
fn delete_many_of_task_whose_delete_is_not_flushed_waits_for_that() {
    for_each_driver(ALL, |case| {
        case.put("x");
        let deferred = case.tube.to_async();
        let first = deferred.delete(0);
        let again = deferred.admin().delete(Filter::new().ids([0]));
        assert_eq!(again.wait().unwrap(), 0);
        // The counts show what is flushed.
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
        assert_eq!(first.wait().unwrap().state, TaskState::Done);
    });
}

/// Sub-queues of deleted tasks are free, and a waiting put is admitted.
#[test]
fn delete_many_frees_sub_queues_and_capacity() {
    for_each_driver(SUB_QUEUED, |case| {
        let put = |sub: &str| case.add(tubewell::Put::new("x").sub_queue(sub));
        let [a, b, next_a, next_b] = [put("a"), put("b"), put("a"), put("b")];
        assert_eq!(case.take_all(), [a, b]);
        let waiting = case.begin_take();
        case.tube.admin().delete(Filter::new().ids([next_a, a, b])).unwrap();
        assert_eq!(waiting.id(), Some(next_b));
        assert_eq!(case.take(), None);
    });
    for_each_driver_with(&[tubewell::LIMFIFOTTL], TubeOptions::new().capacity(2), |case| {
        case.put_all([0, 1]);
        let mut put = std::pin::pin!(case.tube.to_async().put_timeout("waits", NO_TIMEOUT));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(put.as_mut().poll(&mut context).is_pending());
        assert_eq!(case.tube.admin().delete(Filter::new().ids([0, 1])).unwrap(), 2);
        let id = super::executor::block_on(put).unwrap().id;
        assert_eq!(case.take_all(), [id]);
    });
}
