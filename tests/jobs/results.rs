//! Results: complete, and the end of tasks by an administrator.

use std::task::Waker;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::{Ending, Error, Failure, Filter, Keep, Outcome, Put, Task, TaskState, TubeOptions};

use super::executor::{block_on, poll_pending};
use super::files::create_with;
use super::support::*;
use super::wait::wait_for;

fn keep_all() -> TubeOptions {
    TubeOptions::new().keep_done(Keep::new())
}

fn done(result: &str) -> Ending {
    Ending::Done { result: Some(result.as_bytes().to_vec()) }
}

fn listed(case: &Case, state: TaskState) -> Vec<u64> {
    case.tube.query().list(state, None, 10).unwrap().items.iter().map(|task| task.id).collect()
}

/// Q060, B005
/// Difference: the successful take counts as an attempt.
#[test]
fn completed_task_is_done_with_its_result_and_without_owner() {
    for_each_driver_with(ALL, keep_all().max_attempts(5), |case| {
        case.put_all([0]);
        case.advance(1_000);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(1_000);
        assert_eq!(claim.end(Outcome::result("R")).unwrap().state, TaskState::Done);
        let info = case.info(0);
        assert_eq!((info.state, info.takes, info.failure), (TaskState::Done, 1, None));
        assert_eq!((info.attempts, info.attempts_left), (1, Some(4)));
        assert_eq!((info.due_in, info.ttl_left), (None, None));
        assert_eq!(case.tube.query().owner(0), Ok(None));
        assert_eq!(case.tube.ending(0), Ok(Some(done("R"))));
        for state in [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried] {
            assert_eq!(listed(case, state), [0_u64; 0]);
        }
        assert_eq!(listed(case, TaskState::Done), [0]);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

#[test]
fn done_tasks_are_listed_with_their_bodies_and_results() {
    for_each_driver_with(ALL, keep_all(), |case| {
        // Results of some pages, one that is a page by itself, and none.
        let sizes = [Some(0), Some(3 << 20), Some(5), None, Some(2 << 20), Some(9 << 20), Some(7)];
        for (number, size) in sizes.into_iter().enumerate() {
            let (result, outcome) = (size.map(|size| vec![7; size]), Outcome::done());
            let outcome = result.map_or(outcome, Outcome::result);
            let body = format!("body {number}");
            let id = case.put(&body);
            case.tube.try_take().unwrap().unwrap().end(outcome).unwrap();
            let task = case.tube.query().task(id).unwrap();
            assert_eq!(
                (task.result.map(|result| result.len()), task.body),
                (size, body.as_bytes().into())
            );
        }
        for newest_first in [false, true] {
            let filter = Filter::new().state(TaskState::Done);
            let filter = if newest_first { filter.newest_first() } else { filter };
            let (mut seen, mut pages, mut after) = (Vec::new(), 0, None);
            loop {
                let page = case.tube.query().tasks(&filter, after, 100).unwrap();
                pages += 1;
                let bytes = |task: &Task| task.result.as_ref().map_or(0, Vec::len);
                let all: usize = page.items.iter().map(bytes).sum();
                assert!(page.items.len() == 1 || all <= 4 << 20, "{all} bytes");
                seen.extend(page.items);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert!((4..=5).contains(&pages), "{pages}");
            if newest_first {
                seen.reverse();
            }
            let lengths = seen.iter().map(|task| task.result.as_ref().map(Vec::len));
            assert_eq!(lengths.collect::<Vec<_>>(), sizes);
            let bodies = seen.iter().enumerate();
            assert!(
                bodies
                    .into_iter()
                    .all(|(number, task)| task.body == format!("body {number}").as_bytes())
            );
            let of_tube = seen.iter().map(|task| case.tube.ending(task.info.id).unwrap());
            assert!(of_tube.eq(seen.iter().map(Task::ending)));
        }
        case.tube.admin().resolve(case.put("x"), Outcome::value(&[1, 2])).unwrap();
        let newest = Filter::new().state(TaskState::Done).newest_first();
        let page = case.tube.query().tasks(newest, None, 1).unwrap();
        assert_eq!(page.items[0].ending().unwrap().value::<Vec<u8>>(), Ok(vec![1, 2]));
    });
}

/// B007
#[test]
fn administrator_ends_tasks_that_were_never_taken() {
    for_each_driver_with(ALL, keep_all(), |case| {
        case.put_all([0, 1]);
        let waits = [0, 1].map(|id| wait_for(&case.tube, id));
        assert_eq!(
            case.tube.admin().resolve(0, Outcome::result(b"R")).unwrap().state,
            TaskState::Done
        );
        assert_eq!(case.tube.admin().bury(1, None).unwrap().state, TaskState::Buried);
        let endings = waits.map(|wait| wait.answer().unwrap().unwrap());
        assert_eq!(endings, [done("R"), Ending::Buried { failure: None }]);
        assert_eq!([0, 1].map(|id| case.info(id).takes), [0, 0]);
        assert_eq!(case.tube.ending(0), Ok(Some(done("R"))));
        assert_eq!(case.take(), None);
    });
}

/// Q099, B008
#[test]
fn delete_of_done_or_buried_task_removes_all_of_it() {
    for_each_driver_with(ALL, keep_all(), |case| {
        case.put_all([0, 1]);
        case.tube.try_take().unwrap().unwrap().end(Outcome::result("R")).unwrap();
        let failed = case.tube.try_take().unwrap().unwrap();
        failed.bury(Failure::new("E", "m")).unwrap();
        for (id, state) in [(0, TaskState::Done), (1, TaskState::Buried)] {
            assert_eq!(listed(case, state), [id]);
            assert_eq!(case.tube.delete(id).unwrap().state, TaskState::Done);
            assert_eq!(listed(case, state), [0_u64; 0]);
            assert_not_found(case.tube.query().task(id), id);
            assert_not_found(case.tube.delete(id), id);
            assert_eq!(case.tube.ending(id), Ok(Some(Ending::Gone)));
        }
        assert_eq!(case.tube.query().groups(), Ok(vec![]));
        assert_eq!((case.tasks(), case.calls()["delete"]), (counts([("done", 2)]), 2));
        assert_eq!(case.tube.statistics().unwrap().tasks.kept, 0);
    });
}

/// Q020, Q075
/// Difference: the failure of a task that succeeds later is kept with its outcome.
#[test]
fn failure_is_known_until_the_task_is_forgotten() {
    for_each_driver_with(ALL, keep_all(), |case| {
        case.put_all([0]);
        let failed = case.tube.try_take().unwrap().unwrap();
        failed.bury(Failure::new("g", "m")).unwrap();
        let known = || case.info(0).failure.map(|failure| (failure.group, failure.message));
        let failure = Some(("g".to_owned(), "m".to_owned()));
        assert_eq!(known(), failure);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        assert_eq!((case.state(0), known()), (Some(TaskState::Ready), failure.clone()));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(known(), failure);
        claim.ack().unwrap();
        assert_eq!((case.state(0), known()), (Some(TaskState::Done), failure));
        assert_eq!(case.tube.query().groups(), Ok(vec![]));
        case.tube.admin().forget(0).unwrap();
        assert_not_found(case.tube.query().task(0), 0);
    });
}

/// T020
#[test]
fn bury_of_vanished_task_is_refused_and_writes_nothing() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new());
        tube.put_many(["a", "b"]).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.bury(Failure::new("trashed", "m")).unwrap().id, 0);
        assert_eq!(tasks(&tube), counts([("buried", 1), ("ready", 1), ("total", 2)]));
        tube.delete(1).unwrap();
        let before = store.admin().counters().unwrap();
        assert_not_found(tube.admin().bury(1, None), 1);
        assert_not_taken(
            tube.claimed(1).and_then(|claim| claim.bury(Failure::new("trashed", "m"))),
            1,
        );
        assert_not_found(tube.admin().resolve(1, ()), 1);
        assert_not_found(tube.admin().forget(1), 1);
        store.flush().unwrap();
        assert_eq!(store.admin().counters().unwrap(), before);
        assert_sound(&store);
    }
}

/// T032
#[test]
fn undecodable_task_is_reported_once_and_set_aside() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let numbers = case.tube.clone().typed::<u64>();
        let put = Put::new(&7);
        numbers.put(if case.sub_queued() { put.sub_queue("its own") } else { put }).unwrap();
        let reported = numbers.try_take().err();
        assert!(matches!(reported, Some(Error::Codec { .. })), "{reported:?}");
        assert_eq!(
            [0, 1].map(|id| case.state(id)),
            [Some(TaskState::Buried), Some(TaskState::Ready)]
        );
        let claim = numbers.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), *claim.value()), (1, 7));
        assert_eq!(listed(case, TaskState::Buried), [0]);
        claim.ack().unwrap();
        assert!(numbers.try_take().unwrap().is_none());
        assert_eq!(case.tasks(), counts([("buried", 1), ("done", 1), ("total", 1)]));
    });
}

#[test]
fn resolve_in_a_busy_sub_queue_leaves_the_taken_task_alone() {
    for_each_driver_with(SUB_QUEUED, keep_all(), |case| {
        let ids =
            ["taken", "resolved", "last"].map(|body| case.add(Put::new(body).sub_queue("films")));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.id(), ids[0]);
        let refused = case.tube.admin().resolve(ids[0], ());
        assert!(
            matches!(refused, Err(Error::NotReady { state: TaskState::Taken, .. })),
            "{refused:?}"
        );
        case.tube.admin().resolve(ids[1], Outcome::result(b"by hand")).unwrap();
        assert!(claim.is_current().unwrap());
        assert_eq!(case.take(), None, "the sub-queue is busy");
        let taker = case.begin_take();
        claim.ack().unwrap();
        assert_eq!(taker.id(), Some(ids[2]));
        case.tube.claimed(ids[2]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(listed(case, TaskState::Done), ids.to_vec());
    });
}

#[test]
fn resolve_of_the_head_of_a_sub_queue_makes_the_next_task_available() {
    for_each_driver_with(SUB_QUEUED, keep_all(), |case| {
        let ids = ["head", "next"].map(|body| case.add(Put::new(body).sub_queue("films")));
        // The take and its release read the head into memory.
        assert_eq!(case.take(), Some(ids[0]));
        case.tube.claimed(ids[0]).and_then(tubewell::Claim::release).unwrap();
        case.tube.admin().resolve(ids[0], ()).unwrap();
        assert_eq!(case.take(), Some(ids[1]));
        case.tube.claimed(ids[1]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.kept, 2);
    });
}

#[test]
fn done_tasks_keep_their_priority_and_are_never_taken_or_kicked() {
    for_each_driver_with(TIMED, keep_all(), |case| {
        let ids =
            [9, 1, 5].map(|priority| case.add(case.draft("x").priority(priority).ttl(secs(5))));
        assert_eq!(case.take_all(), [ids[1], ids[2], ids[0]]);
        for id in ids {
            case.tube.claimed(id).and_then(|claim| claim.end(Outcome::result("R"))).unwrap();
            case.advance(1);
        }
        case.advance(10_000);
        let pris: Vec<u32> = ids.iter().map(|id| case.info(*id).priority).collect();
        assert_eq!((pris, listed(case, TaskState::Done)), (vec![9, 1, 5], ids.to_vec()));
        assert_eq!((case.tube.admin().kick(Filter::new().limit(9)), case.take()), (Ok(0), None));
        assert_eq!(
            (case.tube.admin().release(Filter::new()), case.tube.admin().revoke(Filter::new())),
            (Ok(0), Ok(0))
        );
        for refused in [
            case.tube.claimed(ids[0]).and_then(tubewell::Claim::ack),
            case.tube.claimed(ids[0]).and_then(tubewell::Claim::release),
        ] {
            assert_not_taken(refused, ids[0]);
        }
    });
}

#[test]
fn result_replaces_nothing_of_the_body() {
    for (body, result) in [(10, 10_000), (10_000, 10), (10_000, 10_000), (0, 0)] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFO, keep_all());
        let (body, result) = ("b".repeat(body), "r".repeat(result));
        tube.put(&*body).unwrap();
        let failed = tube.try_take().unwrap().unwrap();
        failed.fail(Failure::new("g", "m".repeat(20_000))).unwrap();
        tube.try_take().unwrap().unwrap().end(Outcome::result(&*result)).unwrap();
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        let task = tube.query().task(0).unwrap();
        assert_eq!((&*task.body, task.info.size), (body.as_bytes(), body.len() as u64));
        assert_eq!(task.info.failure.unwrap().message.len(), 10_000);
        assert_eq!(tube.ending(0), Ok(Some(done(&result))));
        tube.admin().forget(0).unwrap();
        let store = file.reopen(store);
        assert_eq!(store.find_tube("case").unwrap().ending(0), Ok(Some(Ending::Gone)));
        assert_sound(&store);
    }
}

#[test]
fn task_whose_ttl_has_elapsed_cannot_be_resolved() {
    for_each_driver_with(&[FIFOTTL], keep_all(), |case| {
        let id = case.add(case.draft("x").ttl(secs(5)));
        case.advance(5_000);
        assert_not_found(case.tube.admin().resolve(id, ()), id);
        assert_eq!(case.tube.ending(id), Ok(Some(Ending::Gone)));
    });
}

#[test]
fn kept_tasks_of_a_bounded_tube_leave_its_capacity_to_others() {
    for temporary in [false, true] {
        let options = keep_all().capacity(2).temporary(temporary);
        let file = StoreFile::new();
        let (mut store, mut tube) = create_with(&file, LIMFIFOTTL, options);
        for _ in 0..2 {
            tube.put_many(["x", "x"]).unwrap();
            assert!(matches!(tube.put("x"), Err(Error::Full { capacity: 2, .. })));
            let first = tube.query().list(TaskState::Ready, None, 1).unwrap().items[0].id;
            let mut waiting =
                [(); 2].map(|()| Box::pin(tube.to_async().put_timeout("x", NO_TIMEOUT)));
            for put in &mut waiting {
                poll_pending(put, Waker::noop());
            }
            // Each end makes place for one put.
            tube.admin().resolve(first, ()).unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
            for put in waiting {
                block_on(put).unwrap();
            }
            assert!(matches!(tube.put("x"), Err(Error::Full { capacity: 2, .. })));
            let ends = tube.take_many(2, ZERO).unwrap();
            assert_eq!(tubewell::Claim::end_many(ends, |_| Outcome::done()).unwrap().len(), 2);
            drop(tube);
            store = file.reopen(store);
            tube = store.find_tube("case").unwrap();
        }
        let kept = tube.statistics().unwrap().tasks.kept;
        assert_eq!(kept, if temporary { 0 } else { 8 });
        assert_sound(&store);
    }
}

#[test]
fn parked_and_overdue_tasks_are_resolved_after_a_revoke() {
    let options = keep_all().ttr(secs(10)).reclaim_delay(secs(50));
    for_each_driver_with(TIMED, options, |case| {
        case.put_all([0, 1]);
        let parked = case.tube.try_take().unwrap().unwrap().park(secs(100)).unwrap();
        let overdue = case.tube.try_take().unwrap().unwrap();
        case.advance(20_000);
        for id in [0, 1] {
            let refused = case.tube.admin().resolve(id, Outcome::result(b"R"));
            let is_taken = matches!(refused, Err(Error::NotReady { state: TaskState::Taken, .. }));
            assert!(is_taken, "{refused:?}");
            assert_eq!(case.tube.admin().revoke(id), Ok(1));
            case.tube.admin().resolve(id, Outcome::result(b"R")).unwrap();
            assert_eq!(case.tube.ending(id), Ok(Some(done("R"))));
        }
        assert_not_taken(overdue.end(Outcome::result("late")), 1);
        assert!(case.store.resume_claim(&parked).is_err());
        assert_eq!(listed(case, TaskState::Done), [0, 1]);
    });
}
