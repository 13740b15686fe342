//! Advance: a holder passes its task on to another tube.

use std::task::Waker;
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::{
    Durability, Ending, Error, EventKind, Failure, Filter, Keep, Outcome, Put, Store, TaskState,
    Tube, TubeOptions,
};

use super::executor::{block_on, poll_pending, with_timeout};
use super::files::{after_a_kill, attempts, create, failure};
use super::moves::{done, listed, movements, other};
use super::support::*;
use super::wait::{Wait, on_disk, wait_for};
use crate::stores;

/// Q067, Q198
/// Difference: the other tube must exist.
#[test]
fn advanced_task_is_taken_from_the_next_tube() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let id = case.put("first");
        let claim = case.tube.try_take().unwrap().unwrap();
        let receipt = claim.end(Outcome::advance(&next, case.draft("second"))).unwrap();
        assert_eq!((receipt.id, receipt.state), (id, TaskState::Ready));
        assert_eq!((case.state(id), state(&next, id)), (None, Some(TaskState::Ready)));
        let names: Vec<String> =
            case.store.tubes().unwrap().into_iter().map(|tube| tube.name).collect();
        assert_eq!(names, ["case", "other"]);
        assert_eq!((case.tasks(), case.take()), (counts([("done", 1)]), None));
        assert_eq!(tasks(&next), counts([("ready", 1), ("total", 1)]));
        assert_eq!((movements(&case.tube), movements(&next)), ([1, 0, 0], [0, 0, 1]));
        let claim = next.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.body(), claim.takes()), (id, &b"second"[..], 1));
        claim.ack().unwrap();
        assert_eq!(tasks(&next), counts([("done", 1)]));
    });
}

/// Q068
#[test]
fn advance_stores_its_body_byte_by_byte() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        for body in [&b"[]"[..], b"", b"\0\xff", &[7; 5000]] {
            for first in ["small".to_owned(), "large".repeat(1000)] {
                let id = case.put(&first);
                let claim = case.tube.try_take().unwrap().unwrap();
                claim.end(Outcome::advance(&next, body)).unwrap();
                assert_eq!(next.query().task(id).unwrap().body, body);
                next.delete(id).unwrap();
            }
        }
    });
}

/// Q069
#[test]
fn advance_with_a_delay_is_delayed() {
    for_each_driver(TIMED, |case| {
        let next = other(&case.store, case.driver);
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        let receipt = claim.end(Outcome::advance(&next, case.draft("y").delay(secs(5)))).unwrap();
        assert_eq!(receipt.state, TaskState::Delayed);
        assert_eq!(state(&next, id), Some(TaskState::Delayed));
        assert_eq!(tasks(&next), counts([("delayed", 1), ("total", 1)]));
        case.advance(4999);
        assert_eq!(take(&next), None);
        case.advance(1);
        assert_eq!(take(&next), Some(id));
    });
}

/// Q072
/// Difference: what an option cannot be does not compile; what is left has typed errors. The task
/// is released.
#[test]
fn refused_advance_changes_nothing() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(20), |case| {
        let next = other(&case.store, case.driver);
        let memory = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", memory.driver(case.driver)).unwrap();
        let elsewhere = store_in_memory();
        let elsewhere =
            elsewhere.create_tube("case", TubeOptions::new().driver(case.driver)).unwrap();
        let plain = case.store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let small = TubeOptions::new().capacity(1);
        let small = case.store.create_tube("small", small.driver(LIMFIFOTTL)).unwrap();
        small.put("fills it").unwrap();
        let id = case.put("x");
        let claim = || case.tube.claim(id).unwrap();
        for target in [&memory, &elsewhere] {
            let refused = claim().end(Outcome::advance(target, "y"));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        let named = claim()
            .end(Outcome::advance(&next, Put::new("y").key("other")))
            .unwrap_err()
            .to_string();
        assert!(named.contains("cannot get the key \"other\""), "{named}");
        let too_large = claim().end(Outcome::advance(&next, vec![0; tubewell::MAX_BODY + 1]));
        assert!(matches!(too_large, Err(Error::Invalid { .. })), "{too_large:?}");
        for put in
            [Put::new("y").delay(secs(1)), Put::new("y").priority(1), Put::new("y").sub_queue("s")]
        {
            assert_unsupported(claim().end(Outcome::advance(&plain, put)), FIFO);
        }
        let full = Error::Full { tube: "small".into(), capacity: 1 };
        assert_eq!(claim().end(Outcome::advance(&small, "y")), Err(full.clone()));
        assert_eq!(
            claim().into_async().end(Outcome::advance(&small, "y")).wait(),
            Err(full.clone())
        );
        let ended = claim();
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        assert_not_taken(ended.end(Outcome::advance(&next, "y")), id);
        case.store.drop_tube("other").unwrap();
        assert_eq!(
            claim().end(Outcome::advance(&next, "y")),
            Err(Error::TubeDropped { name: "other".into() })
        );
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
        assert_eq!(case.tube.query().task(id).unwrap().body, b"x");
        assert_eq!(tasks(&small), counts([("ready", 1), ("total", 1)]));
        assert_eq!(tasks(&plain), counts([]));
    });
}

/// Q074, Q152
#[test]
fn advance_begins_the_attempts_anew() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(6), |case| {
        let limited = TubeOptions::new().max_attempts(5);
        let next = case.store.create_tube("other", limited.driver(case.driver)).unwrap();
        let id = case.put("x");
        let failed = case.tube.try_take().unwrap().unwrap();
        failed.fail(Failure::new("timeout", "no answer")).unwrap();
        drop(case.tube.try_take().unwrap().unwrap());
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.attempt(), failure(&case.tube, id).unwrap().2), (3, 1));
        claim.end(Outcome::advance(&next, case.draft("y"))).unwrap();
        assert_eq!((attempts(&next, id), failure(&next, id)), ((0, Some(5)), None));
        let claim = next.try_take().unwrap().unwrap();
        assert_eq!((claim.attempt(), claim.takes()), (1, 1));
    });
}

/// The options are those of the put and of the next tube; the age goes along.
#[test]
fn advanced_task_keeps_its_age_and_has_new_options() {
    for_each_driver(TIMED, |case| {
        let options = TubeOptions::new().priority(7).ttl(secs(100)).ttr(secs(5));
        let next = case.store.create_tube("other", options.driver(case.driver)).unwrap();
        let old =
            case.add(case.draft("old").priority(1).ttl(secs(60)).ttr(secs(30)).max_attempts(3));
        case.advance(10_000);
        let young = next.put(case.draft("young")).unwrap().id;
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.end(Outcome::advance(&next, case.draft("old"))).unwrap();
        let info = next.query().task(old).unwrap().info;
        assert_eq!((info.priority, info.ttl_left, info.ttr), (7, Some(secs(100)), Some(secs(5))));
        assert_eq!(info.attempts_left, None);
        assert_eq!(std::iter::from_fn(|| take(&next)).collect::<Vec<_>>(), [old, young]);
    });
}

#[test]
fn task_that_advances_unchanged_keeps_its_body_and_its_options() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let is_timed = TIMED.contains(&case.driver);
        let mut put = case.draft(&"large".repeat(1000)).tag("t").max_attempts(9);
        if is_timed {
            put = put.priority(3).ttl(secs(60)).ttr(secs(20)).max_runtime(secs(50));
        }
        let id = case.add(put);
        let before = case.info(id);
        case.advance(10_000);
        let claim = case.tube.try_take().unwrap().unwrap();
        let receipt = claim.end(Outcome::advance_unchanged(&next).and_put(&next, "y")).unwrap();
        assert_eq!((receipt.id, receipt.state), (id, TaskState::Ready));
        let mut after = next.query().task(id).unwrap().info;
        assert_eq!(after.ttl_left, is_timed.then(|| secs(50)));
        (after.tube, after.ttl_left) = (before.tube.clone(), before.ttl_left);
        assert_eq!(after, before);
        let claim = next.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.body()), (id, "large".repeat(1000).as_bytes()));
        assert_eq!(tasks(&next), counts([("ready", 1), ("taken", 1), ("total", 2)]));
    });
}

#[test]
fn task_that_advances_unchanged_gets_times_where_it_had_none_and_is_refused_where_there_are_none() {
    for_each_driver(&[FIFOTTL], |case| times_where_there_are_none(&case.store, &case.tube));
}

fn times_where_there_are_none(store: &Store, tube: &Tube) {
    let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
    let id = tube.put("x").unwrap().id;
    tube.try_take().unwrap().unwrap().end(Outcome::advance_unchanged(&plain)).unwrap();
    let options = TubeOptions::new().priority(7).ttl(secs(9)).ttr(secs(5));
    let timed = store.create_tube("timed", options).unwrap();
    plain.try_take().unwrap().unwrap().end(Outcome::advance_unchanged(&timed)).unwrap();
    let has = timed.query().task(id).unwrap().info;
    assert_eq!((has.priority, has.ttl_left, has.ttr), (7, Some(secs(9)), Some(secs(5))));

    let claim = timed.try_take().unwrap().unwrap();
    let refused = claim.end(Outcome::advance_unchanged(&plain)).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    assert_eq!(timed.query().task(id).unwrap().info.state, TaskState::Ready, "it is released");
    let claim = timed.try_take().unwrap().unwrap();
    store.drop_tube(plain.name()).unwrap();
    let refused = claim.end(Outcome::advance_unchanged(&plain)).unwrap_err();
    assert!(matches!(refused, Error::TubeDropped { .. }), "{refused}");
}

#[test]
fn advance_frees_one_sub_queue_and_enters_another() {
    for_each_driver(SUB_QUEUED, |case| {
        let next = other(&case.store, case.driver);
        let put = |tube: &tubewell::Tube| tube.put(Put::new("x").sub_queue("host")).unwrap().id;
        let [first, second] = [put(&case.tube), put(&case.tube)];
        let in_next = put(&next);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), case.take()), (first, None));
        let (waiting, blocked) = (case.begin_take(), next.try_take().unwrap().unwrap());
        let mut waiting_in_next = WaitingTake::begin(next.to_async().take_timeout(NO_TIMEOUT));
        claim.end(Outcome::advance(&next, Put::new("y").sub_queue("host"))).unwrap();
        assert_eq!(waiting.id(), Some(second));
        assert_eq!(blocked.id(), in_next);
        assert!(waiting_in_next.is_pending());
        blocked.ack().unwrap();
        assert_eq!(waiting_in_next.id(), Some(first));
    });
}

#[test]
fn advance_to_its_own_tube_begins_anew_there() {
    for_each_driver(ALL, |case| {
        let id = case.put("first round");
        let young = case.put("young");
        for round in 0..3 {
            let mut waiting = None;
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!((claim.id(), claim.takes()), (id, 1));
            if round == 1 {
                assert_eq!(case.take(), Some(young));
                waiting = Some(case.begin_take());
            }
            claim.end(Outcome::advance(&case.tube, case.draft("next round"))).unwrap();
            if let Some(waiting) = waiting {
                assert_eq!(waiting.id(), Some(id));
                case.tube.claimed(id).and_then(tubewell::Claim::release).unwrap();
                case.tube.delete(id).unwrap();
                break;
            }
        }
        assert_eq!(movements(&case.tube), [2, 0, 2]);
        assert_eq!(case.tasks(), counts([("taken", 1), ("total", 1), ("done", 3)]));
    });
}

/// A worker must be able to go on in a tube that is full of its own tasks.
#[test]
fn advanced_task_takes_its_own_place_in_a_full_tube() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
        let id = case.put("a");
        let mut put = case.tube.to_async().put_timeout("waits", Duration::MAX);
        poll_pending(&mut put, Waker::noop());
        for _ in 0..3 {
            let claim = case.tube.try_take().unwrap().unwrap();
            claim.end(Outcome::advance(&case.tube, "b")).unwrap();
            assert_eq!(case.tasks()["total"], 1);
        }
        poll_pending(&mut put, Waker::noop());
        case.tube.claim(id).unwrap().ack().unwrap();
        block_on(put).unwrap();
        assert_eq!(case.tasks()["total"], 1);
    });
}

#[test]
fn advance_out_of_a_full_tube_admits_a_waiting_put() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
        let next = other(&case.store, FIFO);
        case.put("a");
        let claim = case.tube.try_take().unwrap().unwrap();
        let mut put = case.tube.to_async().put_timeout("waits", Duration::MAX);
        poll_pending(&mut put, Waker::noop());
        claim.end(Outcome::advance(&next, "b")).unwrap();
        block_on(put).unwrap();
        assert_eq!(case.tasks()["ready"], 1);
    });
}

#[test]
fn waits_for_the_end_go_on_after_an_advance() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let last = TubeOptions::new().keep_done(Keep::new());
        let last = case.store.create_tube("last", last.driver(case.driver)).unwrap();
        let id = case.put("x");
        let wait = wait_for(&case.tube, id);
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&next, "y")).unwrap();
        let from_next = wait_for(&next, id);
        next.try_take().unwrap().unwrap().end(Outcome::advance(&last, "z")).unwrap();
        wait.assert_waits();
        from_next.assert_waits();
        assert_eq!(case.tube.ending(id), Ok(Some(Ending::Gone)));
        last.try_take().unwrap().unwrap().end(Outcome::result("R")).unwrap();
        assert_eq!(wait.answer(), Ok(Some(done("R"))));
        assert_eq!(from_next.answer(), Ok(Some(done("R"))));
        assert_eq!(last.ending(id), Ok(Some(done("R"))));
    });
}

/// A wait that begins while the advance is flushed belongs to the task, in any of both tubes.
#[test]
fn waits_that_begin_during_the_flush_of_an_advance_follow_the_task() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(FIFO);
        let next = other(&store, FIFO);
        let id = tube.put("x").unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        let ticket = disk.block_flush_of(|| claim.into_async().end(Outcome::advance(&next, "y")));
        // Neither tube has it for takers until the flush.
        assert_eq!((tube.try_take().unwrap().is_none(), take(&next)), (true, None));
        let waits = [wait_for(&tube, id), wait_for(&next, id)];
        stores::settle(&store);
        disk.unblock_flushes();
        assert_eq!(ticket.wait().unwrap().id, id);
        waits.iter().for_each(Wait::assert_waits);
        next.try_take().unwrap().unwrap().end(Outcome::result("R")).unwrap();
        for wait in waits {
            assert_eq!(super::wait::end_of(wait), Ok(Some(done("R"))));
        }
        assert_sound(&store);
    });
}

/// Nothing of a task that goes on is kept by a tube that keeps outcomes.
#[test]
fn advanced_task_leaves_no_outcome_behind() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let next = other(&case.store, case.driver);
        let id = case.put("x");
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&next, "y")).unwrap();
        assert_eq!(listed(&case.tube, TaskState::Done), [0_u64; 0]);
        assert_eq!(case.tube.statistics().unwrap().tasks.kept, 0);
        assert_eq!(listed(&next, TaskState::Ready), [id]);
    });
}

/// Q302
#[test]
fn advance_is_two_events() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let (log, next_log) = (case.event_log(), EventLog::of(&case.store, &next));
        let id = case.put("x");
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&next, "y")).unwrap();
        let event = |kind, state| (id, kind, state);
        assert_eq!(
            log.read(),
            [
                event(EventKind::Put, TaskState::Ready),
                event(EventKind::Take, TaskState::Taken),
                event(EventKind::Advance, TaskState::Done),
            ]
        );
        assert_eq!(next_log.read(), [event(EventKind::Advance, TaskState::Ready)]);
    });
}

/// The stronger durability of both tubes holds for the commit.
#[test]
fn advance_out_of_a_relaxed_tube_waits_for_the_flush_of_the_other() {
    for (weak, strong) in [
        (Durability::relaxed(), Durability::Flush),
        (Durability::write(), Durability::Flush),
        (Durability::relaxed(), Durability::write()),
    ] {
        for strong_first in [true, false] {
            let file = StoreFile::new();
            let (store, _) = create(&file, FIFO);
            let tube = |name, durability| {
                let options = TubeOptions::new().durability(durability);
                store.create_tube(name, options.driver(FIFO)).unwrap()
            };
            let [one, two] = [tube("weak", weak), tube("strong", strong)];
            let (from, to) = if strong_first { (&two, &one) } else { (&one, &two) };
            let id = from.put("x").unwrap().id;
            store.flush().unwrap();
            from.try_take().unwrap().unwrap().end(Outcome::advance(to, "y")).unwrap();
            let (_image, killed) = after_a_kill(&file);
            let there = killed.find_tube(to.name()).unwrap();
            assert_eq!(state(&there, id), Some(TaskState::Ready), "{weak:?} {strong:?}");
            assert_eq!(killed.find_tube(from.name()).unwrap().statistics().unwrap().tasks.total, 0);
            assert_sound(&killed);
            assert_sound(&store);
        }
    }
}

#[test]
fn tasks_of_temporary_tubes_advance_in_memory() {
    for_each_driver_with(ALL, TubeOptions::new().temporary(true), |case| {
        let memory = TubeOptions::new().temporary(true);
        let next = case.store.create_tube("other", memory.driver(case.driver)).unwrap();
        let id = case.put("x");
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&next, "y")).unwrap();
        assert_eq!(next.admin().move_to(&case.tube, id), Ok(1));
        assert_eq!(case.tube.admin().move_to(&next, Filter::new()), Ok(1));
        assert_eq!(take(&next), Some(id));
    });
}
