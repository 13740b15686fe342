//! Moves: tasks that a caller hands to another tube, in their state.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::{
    Backoff, Ending, EventKind, Failure, Filter, Keep, Outcome, Put, Store, TaskState, Tube,
    TubeOptions,
};

use super::files::{after_a_kill, attempts, create_with, failure, groups};
use super::support::*;
use super::wait::{Wait, wait_for};
use crate::stores;

pub fn other(store: &Store, driver: &str) -> Tube {
    store.create_tube("other", TubeOptions::new().driver(driver)).unwrap()
}

pub fn done(result: &str) -> Ending {
    Ending::Done { result: Some(result.as_bytes().to_vec()) }
}

pub fn listed(tube: &Tube, state: TaskState) -> Vec<u64> {
    tube.query().list(state, None, 1000).unwrap().items.iter().map(|task| task.id).collect()
}

pub fn movements(tube: &Tube) -> [u64; 3] {
    let calls = tube.statistics().unwrap().calls;
    [calls.advance, calls.moved, calls.arrive]
}

/// Q009, Q021, Q034
/// Difference: the attempts of a task go along with it.
#[test]
fn moved_task_is_in_the_other_tube_only() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let large = "large ".repeat(1000);
        let ids = [case.put("first"), case.put(&large), case.put("last")];
        let mut before = ids.map(|id| case.tube.query().task(id).unwrap());
        before[1].info.tube = to.name().into();
        assert_eq!(case.tube.admin().move_to(&to, ids[1]), Ok(1));
        assert_eq!(case.state(ids[1]), None);
        assert_eq!(case.tube.admin().move_to(&to, ids[1]), Ok(0));
        assert_eq!(to.query().task(ids[1]).unwrap(), before[1]);
        assert_eq!(case.take_all(), [ids[0], ids[2]]);
        let claim = to.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.body(), claim.tube()), (ids[1], large.as_bytes(), "other"));
        claim.ack().unwrap();
        assert_eq!(case.tasks(), counts([("taken", 2), ("total", 2), ("done", 1)]));
        assert_eq!(tasks(&to), counts([("done", 1)]));
        assert_eq!((movements(&case.tube), movements(&to)), ([0, 1, 0], [0, 0, 1]));
    });
}

/// Q018, Q130
#[test]
fn move_of_taken_task_ends_its_claim() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(3), |case| {
        let to = other(&case.store, case.driver);
        let id = case.put("work");
        drop(case.tube.try_take().unwrap().unwrap());
        let claim = case.tube.try_take().unwrap().unwrap();
        if case.timed() {
            claim.renew(secs(60)).unwrap();
            claim.touch(secs(1)).unwrap();
        }
        assert_eq!(case.tube.admin().move_to(&to, id), Ok(1));
        assert!(!claim.is_current().unwrap());
        assert_not_taken(claim.touch(secs(1)), id);
        assert_not_taken(claim.ack(), id);
        assert_eq!(case.tasks(), counts([("done", 1)]));
        // The attempt that was interrupted does not count; the one before it does.
        assert_eq!(attempts(&to, id), (1, None));
        assert_eq!(take(&to), Some(id));
    });
}

#[test]
fn move_keeps_state_options_and_failure() {
    for_each_driver_with(TIMED, TubeOptions::new().max_attempts(5), |case| {
        let to = other(&case.store, case.driver);
        let options = |put: Put| put.priority(3).ttl(secs(60)).ttr(secs(7)).max_attempts(4);
        let delayed = case.add(options(case.draft("delayed")).delay(secs(10)));
        let failed = case.add(options(case.draft("failed")));
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.bury(Failure::new("timeout", "no answer")).unwrap();
        case.advance(1000);
        for id in [delayed, failed] {
            let mut info = case.info(id);
            assert_eq!(case.tube.admin().move_to(&to, id), Ok(1));
            info.tube = to.name().into();
            assert_eq!(to.query().task(id).unwrap().info, info);
        }
        assert_eq!((groups(&case.tube), groups(&to)), (vec![], vec![("timeout".to_owned(), 1)]));
        assert_eq!(tasks(&to), counts([("delayed", 1), ("buried", 1), ("total", 2)]));
        assert_eq!(listed(&to, TaskState::Buried), [failed]);
        case.advance(9000);
        assert_eq!(take(&to), Some(delayed));
        to.kick(failed).unwrap();
        let again = to.try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.attempt(), again.priority()), (failed, 1, 3));
        assert_eq!(failure(&to, failed).unwrap().0, "timeout");
        case.advance(7000);
        assert_not_taken(again.ack(), failed);
        case.advance(60_000);
        assert_eq!(tasks(&to), counts([("done", 2)]));
    });
}

/// The order of the other tube decides, and the id between equals: the age counts.
#[test]
fn moved_task_comes_before_younger_ones() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let put = |body: &str| to.put(case.draft(body)).unwrap().id;
        let old = case.put("old");
        let young = [put("young"), put("younger")];
        assert_eq!(case.tube.admin().move_to(&to, old), Ok(1));
        let taken: Vec<u64> = std::iter::from_fn(|| take(&to)).collect();
        assert_eq!(taken, [old, young[0], young[1]]);
    });
}

#[test]
fn move_frees_the_sub_queue_of_a_taken_task() {
    for_each_driver(SUB_QUEUED, |case| {
        let to = other(&case.store, case.driver);
        let put = |tube: &Tube| tube.put(Put::new("x").sub_queue("host")).unwrap().id;
        let [first, second] = [put(&case.tube), put(&case.tube)];
        let in_other = put(&to);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), case.take()), (first, None));
        let waiting = case.begin_take();
        assert_eq!(case.tube.admin().move_to(&to, first), Ok(1));
        assert_eq!(waiting.id(), Some(second));
        // It is the first of its sub-queue there, and the only one that is taken.
        assert_eq!((take(&to), take(&to)), (Some(first), None));
        to.claimed(first).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(take(&to), Some(in_other));
        drop(claim);
    });
}

#[test]
fn moved_task_is_given_to_a_waiting_taker() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let id = case.put("work");
        let first = WaitingTake::begin(to.to_async().take_timeout(NO_TIMEOUT));
        let mut second = WaitingTake::begin(to.to_async().take_timeout(NO_TIMEOUT));
        assert_eq!(case.tube.admin().move_to(&to, id), Ok(1));
        assert_eq!(first.id(), Some(id));
        assert!(second.is_pending());
        let next = case.put("next");
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(1));
        assert_eq!(second.id(), Some(next));
    });
}

#[test]
fn waits_for_the_end_of_a_moved_task_go_on() {
    for_each_driver(ALL, |case| {
        let keep = TubeOptions::new().keep_done(Keep::new());
        let to = case.store.create_tube("other", keep.driver(case.driver)).unwrap();
        let ids = [case.put("acked"), case.put("truncated"), case.put("buried")];
        let waits = ids.map(|id| wait_for(&case.tube, id));
        assert_eq!(case.tube.admin().move_to(&to, ids[0]), Ok(1));
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(2));
        waits.iter().for_each(Wait::assert_waits);
        // The tube where it was does not matter any more.
        case.tube.admin().truncate().unwrap();
        waits.iter().for_each(Wait::assert_waits);
        assert_eq!(case.tube.wait_done(ids[0], ZERO), Ok(Some(Ending::Gone)));
        to.claim(ids[0]).unwrap().end(Outcome::result("R")).unwrap();
        to.admin().bury(ids[2], None).unwrap();
        to.admin().truncate().unwrap();
        let endings = waits.map(|wait| wait.answer().unwrap().unwrap());
        assert_eq!(endings, [done("R"), Ending::Gone, Ending::Buried { failure: None }]);
    });
}

#[test]
fn move_out_of_a_full_tube_admits_a_waiting_put() {
    let store = store_in_memory();
    let small =
        store.create_tube("small", TubeOptions::new().capacity(1).driver(LIMFIFOTTL)).unwrap();
    let to = other(&store, FIFOTTL);
    let id = small.put("first").unwrap().id;
    std::thread::scope(|scope| {
        let put = scope.spawn(|| small.put_timeout("second", Duration::MAX));
        while store.tubes().unwrap().iter().all(|tube| tube.waiting_puts == 0) {
            std::thread::yield_now();
        }
        assert_eq!(small.admin().move_to(&to, id), Ok(1));
        put.join().unwrap().unwrap();
    });
    assert_eq!(tasks(&small), counts([("ready", 1), ("total", 1), ("done", 1)]));
    assert_sound(&store);
}

#[test]
fn task_of_a_tube_without_times_gets_the_defaults_of_the_other_tube() {
    for driver in TIMED {
        let (store, clock) = {
            let clock = stores::ManualClock::new();
            (stores::in_memory_with(Store::options().clock(&clock)), clock)
        };
        let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let options = TubeOptions::new().priority(7).ttl(secs(60)).ttr(secs(5));
        let timed = store.create_tube("timed", options.driver(driver)).unwrap();
        let id = plain.put("x").unwrap().id;
        clock.advance(secs(10));
        assert_eq!(plain.admin().move_to(&timed, id), Ok(1));
        let info = timed.query().task(id).unwrap().info;
        assert_eq!((info.priority, info.ttl_left, info.ttr), (7, Some(secs(60)), Some(secs(5))));
        assert_sound(&store);
    }
}

/// A tube that keeps a limited number of buried tasks has them by the time of the bury.
#[test]
fn buried_tasks_are_kept_as_the_other_tube_says() {
    for_each_driver(ALL, |case| {
        let keep = TubeOptions::new().keep_buried(Keep::new().count(2).age(secs(60)));
        let to = case.store.create_tube("other", keep.driver(case.driver)).unwrap();
        let ids = [case.put("a"), case.put("b"), case.put("c")];
        for id in [ids[2], ids[1], ids[0]] {
            let claim = case.tube.claim(id).unwrap();
            claim.bury(Failure::new("group", "message")).unwrap();
            case.advance(1000);
        }
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(3));
        assert_eq!(listed(&to, TaskState::Buried), [ids[1], ids[0]]);
        assert_eq!(groups(&to), [("group".to_owned(), 2)]);
        // And back again: all are kept, in the order of takes.
        assert_eq!(to.admin().move_to(&case.tube, Filter::new()), Ok(2));
        assert_eq!(listed(&case.tube, TaskState::Buried), [ids[0], ids[1]]);
        assert_eq!(case.tube.admin().move_to(&to, ids[0]), Ok(1));
        case.advance(60_000);
        assert_eq!((tasks(&to).get("buried"), case.tasks()["buried"]), (None, 1));
    });
}

#[test]
fn moved_buried_tasks_that_are_not_kept_are_not_counted_any_more() {
    for_each_driver(ALL, |case| {
        let keep = TubeOptions::new().keep_buried(Keep::new().count(0));
        let to = case.store.create_tube("other", keep.driver(case.driver)).unwrap();
        let events = EventLog::of(&case.store, &to);
        for body in ["a", "b"] {
            let id = case.put(body);
            case.tube.admin().bury(id, None).unwrap();
        }
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(2));
        assert_eq!(tasks(&to), counts([("done", 2)]));
        let kinds: Vec<EventKind> = events.read().iter().map(|event| event.1).collect();
        assert_eq!(kinds, [EventKind::Move, EventKind::Move, EventKind::Forget, EventKind::Forget]);
    });
}

#[test]
fn attempts_go_along_with_a_move() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        let limited = TubeOptions::new().max_attempts(2);
        let to = case.store.create_tube("other", limited.driver(case.driver)).unwrap();
        let ids = [case.put("once"), case.put("twice")];
        for (id, takes) in [(ids[0], 1), (ids[1], 2)] {
            for _ in 0..takes {
                drop(case.tube.claim(id).unwrap());
            }
            assert_eq!(case.tube.admin().move_to(&to, id), Ok(1));
        }
        assert_eq!(attempts(&to, ids[0]), (1, Some(1)));
        assert_eq!(attempts(&to, ids[1]), (2, Some(0)));
        assert_eq!((take(&to), take(&to)), (Some(ids[0]), None));
        assert_eq!(to.query().task(ids[1]).unwrap().info.state, TaskState::Buried);
    });
}

#[test]
fn move_is_two_events() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let (from_log, to_log) = (case.event_log(), EventLog::of(&case.store, &to));
        let id = case.put("x");
        assert_eq!(case.tube.admin().move_to(&to, id), Ok(1));
        let put = (id, EventKind::Put, TaskState::Ready);
        assert_eq!(from_log.read(), [put, (id, EventKind::Move, TaskState::Done)]);
        assert_eq!(to_log.read(), [(id, EventKind::Move, TaskState::Ready)]);
        assert_eq!("move".parse(), Ok(EventKind::Move));
    });
}

#[test]
fn parked_and_overdue_claims_end_with_a_move() {
    let options = TubeOptions::new().reclaim_delay(secs(60)).backoff(Backoff::constant(secs(9)));
    for_each_driver_with(TIMED, options, |case| {
        let to = other(&case.store, case.driver);
        let parked = case.put("parked");
        let token = case.tube.claim(parked).unwrap().park(secs(60)).unwrap();
        let overdue = case.add(case.draft("overdue").ttr(secs(1)));
        let claim = case.tube.claim(overdue).unwrap();
        case.advance(2000);
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(2));
        assert_not_taken(case.store.resume_claim(&token), parked);
        assert_not_taken(claim.ack(), overdue);
        assert_eq!(tasks(&to), counts([("ready", 2), ("total", 2)]));
    });
}

#[test]
fn deferred_move_is_visible_with_its_flush() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let id = case.put("x");
        let deferred = case.tube.to_async();
        let ticket = deferred.admin().move_to(&to, id);
        assert_eq!(deferred.admin().move_to(&to, id).wait(), Ok(0));
        assert_eq!(ticket.wait(), Ok(1));
        assert_eq!(take(&to), Some(id));
    });
}

/// The commit with the move has all its rows, also those of a body that is not in the record.
#[test]
fn moved_task_survives_a_kill_and_a_close() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, from) = create_with(&file, driver, TubeOptions::new().max_attempts(9));
        let to = other(&store, driver);
        let large = vec![7; 5000];
        let [ready, buried] = [from.put(large.clone()), from.put("b")].map(|put| put.unwrap().id);
        from.claim(buried).unwrap().bury(Failure::new("group", "message")).unwrap();
        assert_eq!(from.admin().move_to(&to, ready), Ok(1));
        assert_eq!(from.admin().move_to(&to, buried), Ok(1));
        let check = |store: &Store| {
            assert_sound(store);
            let (from, to) = (store.find_tube("case").unwrap(), store.find_tube("other").unwrap());
            assert_eq!(tasks(&from).get("total"), None);
            assert_eq!(tasks(&to), counts([("ready", 1), ("buried", 1), ("total", 2)]));
            assert_eq!(to.query().task(ready).unwrap().body, large);
            assert_eq!(failure(&to, buried), Some(("group".into(), "message".into(), 1)));
            assert_eq!(attempts(&to, buried).0, 1);
        };
        let (_image, killed) = after_a_kill(&file);
        check(&killed);
        drop((from, to));
        check(&file.reopen(store));
    }
}
