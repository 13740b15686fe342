//! Replacement: a task that is put again by its key begins anew, with its old id.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};
use tubewell::{
    Claim, Durability, Ending, Error, EventKind, Failure, Keep, OnKey, Outcome, Put, TaskState,
    TubeOptions,
};

use super::files::{attempts, failure};
use super::support::*;
use super::wait::{DONE, wait_for};

/// A task that replaces the one with the key `k`.
fn again(put: Put) -> Put {
    put.key("k").on_key(OnKey::Replace)
}

/// Q001
/// Difference: what remains of the attempts is the limit less the attempts, and nothing is stored of
/// options that a put leaves out.
#[test]
fn task_put_with_a_key_shows_defaults() {
    for_each_driver_with(ALL, TubeOptions::default().max_attempts(5), |case| {
        let id = case.add(Put::new("x").key("k"));
        let info = case.store.by_key("k").unwrap().unwrap();
        assert_eq!(
            (info.id, info.state, info.priority, info.sub_queue),
            (id, TaskState::Ready, tubewell::DEFAULT_PRIORITY, None)
        );
        assert_eq!((info.attempts, info.attempts_left, info.failure), (0, Some(5), None));
        assert_eq!(case.tube.query().owner(id).unwrap(), None);
    });
}

/// Q010
#[test]
fn replacement_without_options_keeps_those_of_the_task() {
    for_each_driver_with(&[UTUBETTL], TubeOptions::default().ttr(secs(60)), |case| {
        let put = Put::new("old").key("k").priority(1).sub_queue("s").ttr(secs(5)).max_attempts(2);
        let id = case.add(put.ttl(secs(100)));
        case.advance(99_000);
        assert_eq!(case.add(again(Put::new("new".into()))), id);
        let info = case.info(id);
        assert_eq!((info.priority, info.sub_queue.as_deref()), (1, Some("s")));
        assert_eq!((info.ttr, info.attempts_left), (Some(secs(5)), Some(2)));
        assert_eq!(info.ttl_left, None, "the ttl is that of the tube, and begins anew");
        assert_eq!(case.tube.query().task(id).unwrap().body, b"new");
        case.advance(10_000);
        assert_eq!(case.take(), Some(id));
    });
}

/// Q011
#[test]
fn replacement_with_options_overrides_those_of_the_task() {
    for_each_driver(&[UTUBETTL], |case| {
        let id = case.add(Put::new("old").key("k").priority(1).sub_queue("s").max_attempts(2));
        let put = again(Put::new("new".into()).priority(2).sub_queue("t").max_attempts(3));
        case.add(put.ttl(secs(7)).ttr(secs(8)).delay(secs(9)));
        let info = case.info(id);
        assert_eq!((info.priority, info.sub_queue.as_deref()), (2, Some("t")));
        assert_eq!((info.ttl_left, info.ttr), (Some(secs(16)), Some(secs(8))));
        assert_eq!((info.state, info.due_in), (TaskState::Delayed, Some(secs(9))));
        assert_eq!(info.attempts_left, Some(3));
        assert_eq!(case.tasks(), counts([("delayed", 1), ("total", 1)]));
        assert_eq!(case.take(), None);
        case.advance(9_000);
        assert_eq!(case.take(), Some(id));
    });
}

/// Q016 Q017
/// Difference: the holder of the claim loses the task, whichever session puts it again.
#[test]
fn replaced_task_is_lost_to_its_holder() {
    for_each_driver_with(ALL, TubeOptions::default().max_attempts(2), |case| {
        for own in [true, false] {
            let id = case.add(again(case.draft("old")));
            let log = case.event_log();
            let holder = case.tube_in_new_session();
            let claim = holder.try_take().unwrap().unwrap();
            let putter = if own { holder.clone() } else { case.tube_in_new_session() };
            assert_eq!(putter.put(again(Put::new("new".into()))).unwrap().state, TaskState::Ready);
            assert!(!claim.is_current().unwrap());
            assert_not_taken(claim.renew(secs(1)).and(Ok(())), id);
            assert_not_taken(holder.claimed(id).and_then(tubewell::Claim::ack), id);
            assert_not_taken(claim.ack(), id);
            assert_eq!(case.tube.query().owner(id).unwrap(), None);
            assert_eq!(case.tasks()["ready"], 1);
            assert_eq!(attempts(&case.tube, id), (0, Some(2)), "its attempts are forgiven");
            let kinds: Vec<_> = log.read().iter().map(|event| (event.1, event.2)).collect();
            let put = (EventKind::Replace, TaskState::Ready);
            assert_eq!(kinds[kinds.len() - 2..], [(EventKind::Lost, TaskState::Ready), put]);
            assert_sound(&case.store);
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!((claim.body(), claim.takes(), claim.attempt()), (&b"new"[..], 2, 1));
            claim.ack().unwrap();
        }
    });
}

/// Q019
#[test]
fn task_that_is_done_begins_anew_when_it_is_put_again() {
    for_each_driver_with(ALL, TubeOptions::default().keep_done(Keep::new()), |case| {
        let id = case.add(again(case.draft("old")));
        case.tube.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.kept, 1);
        let log = case.event_log();
        assert_eq!(case.add(again(Put::new("new".into()))), id);
        assert_eq!(log.read(), [(id, EventKind::Replace, TaskState::Ready)]);
        assert_eq!(case.tube.statistics().unwrap().tasks.kept, 0);
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1), ("done", 1)]));
        assert_eq!(case.tube.ending(id).unwrap(), None);
        assert_sound(&case.store);
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.tube.ending(id).unwrap(), Some(DONE), "the old result is gone");
    });
}

/// Q020 Q075
#[test]
fn failure_is_shown_until_success_after_a_replacement() {
    let options = || TubeOptions::default().max_attempts(1).keep_done(Keep::new());
    for_each_driver_with(ALL, options(), |case| {
        let id = case.add(again(case.draft("old")));
        let timeout = Failure::new("timeout", "no answer");
        case.tube.try_take().unwrap().unwrap().fail(timeout).unwrap();
        let shown = Some(("timeout".to_owned(), "no answer".to_owned(), 1));
        assert_eq!(case.state(id), Some(TaskState::Buried));
        case.add(again(Put::new("new".into())));
        assert_eq!(
            (case.state(id), failure(&case.tube, id)),
            (Some(TaskState::Ready), shown.clone())
        );
        assert_eq!((case.info(id).group, case.tube.query().groups().unwrap()), (None, Vec::new()));
        assert_sound(&case.store);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(failure(&case.tube, id), shown);
        claim.ack().unwrap();
        case.add(again(Put::new("newest".into())));
        assert_eq!(failure(&case.tube, id), None);
    });
}

/// Q022
#[test]
fn requeue_of_a_removed_task_is_refused() {
    for_each_driver(ALL, |case| {
        let not_found = Error::KeyNotFound { key: "k".into() };
        let id = case.add(case.draft("x").key("k"));
        assert_eq!(case.tube.requeue("k", "y").unwrap().id, id);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"y");
        let deferred = case.tube.to_async().refuse_when_full();
        assert_eq!(deferred.requeue("k", "z").wait().unwrap().id, id);
        let typed = case.tube.typed::<u32>();
        assert_eq!(typed.requeue("k", 7).unwrap().id, id);
        assert_eq!(typed.to_async().refuse_when_full().requeue("k", 8).wait().unwrap().id, id);
        assert_eq!(*typed.try_take().unwrap().unwrap().value(), 8);
        case.tube.delete(id).unwrap();
        assert_eq!(case.tube.requeue("k", "y"), Err(not_found.clone()));
        assert_eq!(deferred.requeue("k", "y").wait(), Err(not_found));
        assert_eq!(case.tasks().get("total"), None);
    });
}

/// The body crosses the limit of those that are stored in the record.
#[test]
fn replacement_changes_the_size_of_the_body() {
    for_each_driver(ALL, |case| {
        let id = case.add(again(case.draft("")));
        for size in [2_000, 10, 3_000, 3_000, 0] {
            case.add(again(Put::new(vec![7; size].into())));
            assert_eq!(case.tube.query().task(id).unwrap().body, vec![7; size]);
            assert_sound(&case.store);
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.body(), vec![7; size]);
            claim.release().unwrap();
        }
    });
}

#[test]
fn replaced_task_keeps_its_place_among_tasks_of_its_priority() {
    for_each_driver(&[FIFO, FIFOTTL, LIMFIFOTTL], |case| {
        case.add(Put::new("0").key("k"));
        case.put_all([1, 2]);
        case.add(again(Put::new("0 again".into())));
        assert_eq!(case.take(), Some(0));
        case.add(again(Put::new("0 again".into())));
        if case.timed() {
            case.add(again(Put::new("late".into()).priority(900)));
            assert_eq!(case.take_all(), [1, 2, 0]);
        } else {
            assert_eq!(case.take_all(), [0, 1, 2]);
        }
    });
}

/// The claim on the task ends, and so does its hold on the sub-queue in which it was.
#[test]
fn task_replaced_into_another_sub_queue_frees_the_old_one() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::default().durability(durability);
        for_each_driver_with(&[UTUBE, UTUBETTL], options, |case| {
            for is_taken in [false, true] {
                let id = case.add(Put::new("x").key("k").sub_queue("a"));
                let next_of_a = case.add(Put::new("a").sub_queue("a"));
                let b = case.add(Put::new("b").sub_queue("b"));
                let claim = is_taken.then(|| case.tube.try_take().unwrap().unwrap());
                case.add(again(Put::new("y".into()).sub_queue("b")));
                assert_sound(&case.store);
                assert_eq!(case.info(id).sub_queue.as_deref(), Some("b"));
                let first = case.tube.try_take().unwrap().unwrap();
                let second = case.tube.try_take().unwrap().unwrap();
                let mut ids = [first.id(), second.id()];
                ids.sort_unstable();
                assert_eq!(ids, [id, next_of_a], "one of each sub-queue");
                assert_eq!(case.take(), None);
                assert_not_taken(claim.map_or(Err(Error::NotTaken { id }), Claim::ack), id);
                first.ack().unwrap();
                second.ack().unwrap();
                assert_eq!(case.take_all(), [b]);
                case.tube.claimed(b).and_then(tubewell::Claim::ack).unwrap();
                assert_sound(&case.store);
            }
        });
    }
}

/// A waiting take gets the task as it is after the replacement.
#[test]
fn replacement_of_a_taken_task_serves_a_waiting_take() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::default().durability(durability);
        for_each_driver_with(ALL, options, |case| {
            let id = case.add(again(case.draft("old")));
            let claim = case.tube.try_take().unwrap().unwrap();
            let waiting = case.begin_take();
            case.add(again(Put::new("new".into())));
            let taken = waiting.answer().unwrap().unwrap();
            assert_eq!((taken.id(), taken.body()), (id, &b"new"[..]));
            assert_not_taken(claim.ack(), id);
            assert_eq!(case.tasks(), counts([("taken", 1), ("total", 1)]));
            taken.ack().unwrap();
        });
    }
}

#[test]
fn waits_for_the_end_go_on_while_the_task_is_replaced() {
    for_each_driver(ALL, |case| {
        let id = case.add(again(case.draft("old")));
        let wait = wait_for(&case.tube, id);
        case.add(again(Put::new("new".into())));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.add(again(Put::new("newest".into())));
        wait.assert_waits();
        drop(claim);
        case.tube.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        let result = Ending::Done { result: Some(b"result".to_vec()) };
        assert_eq!(wait.answer(), Ok(Some(result)));
    });
}

/// A replaced task has its place, unless it was done and kept: those take none.
#[test]
fn replacement_of_a_kept_task_needs_capacity() {
    let options = TubeOptions::default().capacity(1).keep_done(Keep::new());
    for_each_driver_with(&[LIMFIFOTTL], options, |case| {
        let id = case.add(again(Put::new("x".into())));
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        let other = case.put("full");
        let is_full = |answer: tubewell::Result<_>| matches!(answer, Err(Error::Full { .. }));
        assert!(is_full(case.tube.put(again(Put::new("y".into()))).map(drop)));
        assert!(is_full(case.tube.requeue("k", "y").map(drop)));
        assert!(is_full(case.tube.put_many([again(Put::new("y".into()))]).map(drop)));
        assert_eq!(case.state(id), Some(TaskState::Done));
        let waiting = case.tube.to_async().put_timeout(again(Put::new("y".into())), NO_TIMEOUT);
        let waiting = super::wait::Wait::begin(waiting);
        case.tube.delete(other).unwrap();
        assert_eq!(super::wait::end_of(waiting).unwrap().id, id);
        assert_eq!(case.tasks()["total"], 1);
        let again = [again(Put::new("z".into())), again(Put::new("last".into()))];
        assert_eq!(case.tube.put_many(again).unwrap()[1].id, id);
        assert!(is_full(case.tube.put("one more").map(drop)));
    });
}

#[test]
fn replaced_tasks_survive_a_close() {
    for driver in TIMED {
        let file = StoreFile::new();
        let options = TubeOptions::default().max_attempts(3).keep_done(Keep::new());
        let (store, tube) = super::files::create_with(&file, driver, options);
        tube.put(again(Put::new("old".into()))).unwrap();
        let _ = tube.try_take().unwrap().unwrap().detach();
        tube.put(again(Put::new("new".into()).delay(secs(5)))).unwrap();
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(attempts(&tube, 0), (0, Some(3)));
        assert_eq!(tube.query().task(0).unwrap().info.due_in, Some(Duration::from_secs(5)));
        file.clock.advance(secs(5));
        assert_eq!(tube.try_take().unwrap().unwrap().body(), b"new");
        assert_sound(&store);
    }
}
