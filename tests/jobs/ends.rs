//! Outcomes of all kinds, and what they put with the same commit.

use std::collections::BTreeSet;
use std::time::Duration;

use tubewell::driver::{FIFO, LIMFIFOTTL};
use tubewell::{
    Claim, Error, EventKind, Failure, Filter, Keep, Outcome, Put, TaskState, TubeOptions,
};

use super::executor::with_timeout;
use super::files::{after_a_kill, create_with};
use super::moves::{listed, other};
use super::support::*;
use super::wait::{end_of, on_disk, wait_for};
use crate::stores;

const HOUR: Duration = Duration::from_secs(3600);

fn failure() -> Failure {
    Failure::new("timeout", "no answer")
}

/// An end of each kind that leaves the task in its tube, and the state after it.
fn staying(timed: bool) -> Vec<(Outcome, TaskState, EventKind)> {
    let (ready, buried) = (TaskState::Ready, TaskState::Buried);
    let mut ends = vec![
        (Outcome::release(), ready, EventKind::Release),
        (Outcome::snooze(ZERO), ready, EventKind::Snooze),
        (Outcome::fail(failure()), ready, EventKind::Fail),
        (Outcome::bury(failure()), buried, EventKind::Bury),
        (Outcome::bury(None), buried, EventKind::Bury),
    ];
    if timed {
        ends.extend([
            (Outcome::release_in(HOUR), TaskState::Delayed, EventKind::Release),
            (Outcome::snooze(HOUR), TaskState::Delayed, EventKind::Snooze),
            (Outcome::fail_in(HOUR, failure()), TaskState::Delayed, EventKind::Fail),
        ]);
    }
    ends
}

#[test]
fn task_that_stays_in_its_tube_puts_others_with_the_same_commit() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        let mail = other(&case.store, case.driver);
        for (outcome, state, kind) in staying(TIMED.contains(&case.driver)) {
            let id = case.put("x");
            let claim = case.tube.claim(id).unwrap();
            let log = case.event_log();
            let outcome =
                outcome.and_put(&mail, case.draft("a")).and_put(&case.tube, case.draft("b"));
            let before = case.store.admin().counters().unwrap().commits;
            let receipt = claim.end(outcome).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, state), "{kind:?}");
            assert_eq!(case.store.admin().counters().unwrap().commits - before, 1, "{kind:?}");
            assert_eq!(case.state(id), Some(state));
            assert_eq!(mail.query().task(id + 1).unwrap().body, b"a");
            assert_eq!(case.tube.query().task(id + 2).unwrap().body, b"b");
            assert!(log.read().contains(&(id, kind, state)), "{kind:?}");
            let info = case.info(id);
            assert_eq!(info.attempts, u32::from(kind != EventKind::Snooze), "{kind:?}");
            let fails = kind == EventKind::Fail;
            assert!(info.failure.is_some() || !fails, "{kind:?}");
            for (tube, id) in [(&case.tube, id), (&mail, id + 1), (&case.tube, id + 2)] {
                tube.delete(id).unwrap();
            }
        }
    });
}

#[test]
fn last_attempt_that_fails_is_buried_and_puts() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let alarms = other(&case.store, FIFO);
        let id = case.put("x");
        let wait = wait_for(&case.tube, id);
        let outcome = Outcome::fail(failure()).and_put(&alarms, "x has failed");
        let receipt = case.tube.claim(id).unwrap().end(outcome).unwrap();
        assert_eq!(receipt.state, TaskState::Buried);
        let ending = wait.answer().unwrap().unwrap();
        let error = ending.value::<()>().unwrap_err().to_string();
        assert!(error.contains("timeout: no answer (attempt 1)"), "{error}");
        assert_eq!(alarms.try_take().unwrap().unwrap().body(), b"x has failed");
    });
}

/// The burial is not seen before the put of the other tube is flushed.
#[test]
fn burial_with_a_put_into_a_flushed_tube_is_flushed() {
    with_timeout(|| {
        let (disk, _, store, strong) = on_disk(FIFO);
        let options = TubeOptions::new().durability(tubewell::Durability::relaxed());
        let weak = store.create_tube("weak", options.driver(FIFO)).unwrap();
        let id = weak.put("x").unwrap().id;
        let claim = weak.try_take().unwrap().unwrap();
        let outcome = Outcome::bury(failure()).and_put(&strong, "y");
        let ticket = disk.block_flush_of(|| claim.into_async().end(outcome));
        let wait = wait_for(&weak, id);
        assert_eq!(weak.statistics().unwrap().tasks.taken, 1);
        stores::settle(&store);
        disk.unblock_flushes();
        ticket.wait().unwrap();
        let ending = end_of(wait).unwrap().unwrap();
        assert!(ending.value::<()>().unwrap_err().to_string().contains("timeout"));
        assert_sound(&store);
    });
}

#[test]
fn kill_leaves_all_of_an_end_or_nothing() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new());
        let mail = other(&store, driver);
        for (round, (outcome, state, kind)) in staying(false).into_iter().enumerate() {
            let id = tube.put("x").unwrap().id;
            let claim = tube.claim(id).unwrap();
            let before = after_a_kill(&file);
            claim.end(outcome.and_put(&mail, "a")).unwrap();
            for ((_file, store), state, mails) in
                [(before, TaskState::Ready, round), (after_a_kill(&file), state, round + 1)]
            {
                let [tube, mail] = ["case", "other"].map(|name| store.find_tube(name).unwrap());
                assert_eq!(super::support::state(&tube, id), Some(state), "{kind:?}");
                assert_eq!(listed(&mail, TaskState::Ready).len(), mails, "{kind:?}");
                assert_sound(&store);
            }
            tube.delete(id).unwrap();
        }
    }
}

/// Only a task that leaves its tube makes room there.
#[test]
fn task_that_stays_keeps_its_place_in_a_full_tube() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
        let id = case.put("x");
        for (outcome, _, kind) in staying(true) {
            let claim = case.tube.claim(id).unwrap();
            let full = Error::Full { tube: "case".into(), capacity: 1 };
            assert_eq!(claim.end(outcome.and_put(&case.tube, "y")), Err(full), "{kind:?}");
            assert_eq!(case.state(id), Some(TaskState::Ready), "{kind:?}");
        }
        let next = Outcome::done().and_put(&case.tube, "y");
        case.tube.claim(id).unwrap().end(next).unwrap();
        assert_eq!(case.tasks()["total"], 1);
    });
}

/// It puts nothing, so that it needs no place.
#[test]
fn put_that_keeps_the_task_itself_needs_no_place_in_a_full_tube() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
        let id = case.add(case.draft("x").key("k"));
        let kept = case.draft("y").key("k").on_key(tubewell::OnKey::Keep);
        let claim = case.tube.claim(id).unwrap();
        claim.end(Outcome::release().and_put(&case.tube, kept.clone())).unwrap();
        let in_use = Outcome::release().and_put(&case.tube, case.draft("y").key("k"));
        let refused = case.tube.claim(id).unwrap().end(in_use);
        assert!(matches!(refused, Err(Error::KeyInUse { .. })), "{refused:?}");
        let on = Outcome::advance(&case.tube, "on").and_put(&case.tube, kept);
        case.tube.claim(id).unwrap().end(on).unwrap();
        assert_eq!(case.tasks()["total"], 1);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"on");
    });
}

#[test]
fn task_that_stays_keeps_its_key() {
    for_each_driver(ALL, |case| {
        let id = case.add(case.draft("x").key("k"));
        for (outcome, _, kind) in staying(false) {
            let claim = case.tube.claim(id).unwrap();
            let again = outcome.clone().and_put(&case.tube, case.draft("y").key("k"));
            let in_use = claim.end(again).unwrap_err();
            assert!(matches!(in_use, Error::KeyInUse { .. }), "{kind:?}: {in_use}");
            let kept = case.draft("y").key("k").on_key(tubewell::OnKey::Keep);
            let claim = case.tube.claim(id).unwrap();
            claim.end(outcome.and_put(&case.tube, kept)).unwrap();
            assert_eq!(case.tasks()["total"], 1, "{kind:?}");
            if kind == EventKind::Bury {
                case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            }
        }
    });
}

/// The task that it puts waits for the one that has failed.
#[test]
fn task_can_put_one_that_waits_for_it() {
    for_each_driver(ALL, |case| {
        let report = other(&case.store, FIFO);
        let id = case.put("x");
        let claim = case.tube.claim(id).unwrap();
        let waits = Put::new("when x is done").after(&case.tube, [id]);
        claim.end(Outcome::release().and_put(&report, waits)).unwrap();
        assert_eq!(state(&report, id + 1), Some(TaskState::Blocked));
        case.tube.claim(id).unwrap().ack().unwrap();
        assert_eq!(state(&report, id + 1), Some(TaskState::Ready));
    });
}

#[test]
fn refused_snooze_does_not_count_the_attempt() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(3), |case| {
        let next = other(&case.store, case.driver);
        let large = vec![0; tubewell::MAX_BODY + 1];
        let id = case.put("x");
        let refused = case.tube.claim(id).unwrap().end(Outcome::snooze(ZERO).and_put(&next, large));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!((case.state(id), case.info(id).attempts), (Some(TaskState::Ready), 0));
    });
}

#[test]
fn end_takes_what_a_handler_returns() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        let id = case.put("x");
        let failed = case.tube.claim(id).unwrap().end("12a".parse::<u32>().map(|_| ()));
        assert_eq!(failed.unwrap().state, TaskState::Ready);
        assert_eq!(case.info(id).failure.unwrap().group, "ParseIntError");
        let failed = case.tube.claim(id).unwrap().end(Err::<Outcome, _>(failure()));
        assert_eq!(failed.unwrap().state, TaskState::Ready);
        assert_eq!(case.info(id).failure.unwrap().group, "timeout");
        let kept = case.tube.claim(id).unwrap().end(Outcome::detach()).unwrap();
        assert_eq!((kept.id, kept.state), (id, TaskState::Taken));
        assert_eq!(case.state(id), Some(TaskState::Taken));
        case.tube.claimed(id).unwrap().end(()).unwrap();
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

#[test]
fn detached_task_puts_nothing() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let outcome = Outcome::detach().and_put(&case.tube, case.draft("y"));
        let refused = case.tube.claim(id).unwrap().end(outcome);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
    });
}

#[test]
fn result_is_read_as_the_value_that_was_given() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let end = |outcome: Outcome| {
            let id = case.put("x");
            case.tube.claim(id).unwrap().end(outcome).unwrap();
            case.tube.ending(id).unwrap().unwrap()
        };
        let ending = end(Outcome::value(&("Lima", 21)));
        assert_eq!(ending.value::<(String, i32)>(), Ok(("Lima".to_owned(), 21)));
        assert_eq!(ending.result(), Some(&br#"["Lima",21]"#[..]));
        assert_eq!(end(Outcome::done()).value::<Option<u8>>(), Ok(None));
        assert_eq!(end(Outcome::done()).result(), None);
        let wrong = end(Outcome::result("no JSON")).value::<u8>();
        assert!(matches!(wrong, Err(Error::Codec { .. })), "{wrong:?}");
        let gone = tubewell::Ending::Gone.value::<u8>();
        assert!(matches!(gone, Err(Error::Codec { .. })), "{gone:?}");
        let id = case.put("x");
        let not_json = std::collections::BTreeMap::from([((1, 2), 3)]);
        let refused = case.tube.claim(id).unwrap().end(Outcome::value(&not_json));
        assert!(matches!(refused, Err(Error::Codec { .. })), "{refused:?}");
        assert_eq!(case.state(id), Some(TaskState::Ready));
    });
}

#[test]
fn many_claims_end_each_with_its_outcome() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        let next = other(&case.store, case.driver);
        case.put_all([0, 1, 2, 3, 4]);
        let claims = case.tube.take_many(5, ZERO).unwrap();
        let before = case.store.admin().counters().unwrap().commits;
        let ended = Claim::end_many(claims, |claim| match claim.id() {
            0 => Outcome::done(),
            1 => Outcome::fail(failure()),
            2 => Outcome::bury(None).and_put(&next, case.draft("buried")),
            3 => Outcome::advance(&next, case.draft("on")),
            _ => Outcome::snooze(ZERO),
        });
        let states: Vec<_> = ended.unwrap().into_iter().map(|one| one.unwrap().state).collect();
        let (ready, buried) = (TaskState::Ready, TaskState::Buried);
        assert_eq!(states, [TaskState::Done, ready, buried, ready, ready]);
        assert_eq!(case.store.admin().counters().unwrap().commits - before, 1);
        assert_eq!((case.info(1).attempts, case.info(4).attempts), (1, 0));
        assert_eq!(BTreeSet::from_iter(listed(&next, ready)), BTreeSet::from([3, 5]));
    });
}

/// The task of a claim by its id stays taken, as after each refused call of such a claim.
#[test]
fn refused_end_among_many_releases_its_task_alone() {
    for_each_driver(ALL, |case| {
        let full = TubeOptions::new().capacity(1);
        let full = case.store.create_tube("full", full.driver(LIMFIFOTTL)).unwrap();
        full.put("x").unwrap();
        let [first, second, third] = ["a", "b", "c"].map(|body| case.put(body));
        let [one, two] = [first, second].map(|id| case.tube.claim(id).unwrap());
        let _ = case.tube.claim(third).unwrap().detach();
        let claims = vec![one, two, case.tube.claimed(third).unwrap()];
        let ended = Claim::end_many(claims, |claim| {
            if claim.id() == first { Outcome::done() } else { Outcome::done().and_put(&full, "y") }
        });
        let [one, two, three] = <[_; 3]>::try_from(ended.unwrap()).unwrap();
        assert_eq!(one.unwrap().state, TaskState::Done);
        let error = Error::Full { tube: "full".into(), capacity: 1 };
        assert_eq!((two, three), (Err(error.clone()), Err(error)));
        assert_eq!(case.state(second), Some(TaskState::Ready));
        assert_eq!(case.state(third), Some(TaskState::Taken));
    });
}

#[test]
fn outcome_that_cannot_be_made_refuses_the_end_of_all_claims() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        for bad in [Outcome::detach(), Outcome::result(vec![0; tubewell::MAX_BODY + 1])] {
            let claims = case.tube.take_many(2, ZERO).unwrap();
            let refused = Claim::end_many(claims, |claim| match claim.id() {
                0 => Outcome::done(),
                _ => bad.clone(),
            });
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            assert_eq!(case.tasks(), counts([("ready", 2), ("total", 2)]));
        }
    });
}
