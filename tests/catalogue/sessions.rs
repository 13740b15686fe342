//! Group H: sessions, and the effects of their end.

use tubewell::driver::{FIFO, UTUBETTL};
use tubewell::{Error, SessionId, Store, TaskState, Tube, TubeOptions};

use super::support::*;
use crate::stores::{self, ManualClock};

/// Runs the test on a tube with two tasks, in a store with a session grace of one second.
fn with_grace(driver: &str, test: impl Fn(&ManualClock, &Store, &Tube)) {
    println!("driver {driver}");
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock).session_grace(secs(1)));
    let tube = store.create_tube("case", TubeOptions::default().driver(driver)).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    test(&clock, &store, &tube);
    assert_sound(&store);
}

/// Takes a task in a new session and drops the session.
fn take_in_dropped_session(store: &Store) -> (SessionId, u64) {
    let session = store.session("").unwrap();
    let tube = session.tube(&store.find_tube("case").unwrap()).unwrap();
    (session.id(), take(&tube).unwrap())
}

/// H01
#[test]
fn session_ids_are_stable_and_unique() {
    for_each_driver(ALL, |case| {
        let (one, two) = (case.store.session("").unwrap(), case.store.session("").unwrap());
        assert_eq!(one.id(), one.id());
        assert_eq!(one.id(), one.clone().id());
        assert_eq!(one.tube(&case.tube).unwrap().session(), one.id());
        assert_ne!(one.id(), two.id());
        assert_ne!(one.id(), case.tube.session());
        assert_eq!(case.tube.session(), case.store.find_tube("case").unwrap().session());
    });
}

/// H02
#[test]
fn session_id_parses_from_its_text() {
    let store = store_in_memory();
    let id = store.session("").unwrap().id();
    assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
    for text in ["", "abc", "5", "not-a-session-id-of-any-kind!!!!"] {
        assert!(text.parse::<SessionId>().is_err(), "{text:?} was parsed as a session id");
    }
    assert_sound(&store);
}

/// H03, H08
#[test]
fn resume_of_ended_session_returns_session_unknown() {
    for_each_driver(ALL, |case| {
        let of_another_store = store_in_memory().session("").unwrap().id();
        let dropped = case.store.session("").unwrap().id();
        let session = case.store.session("").unwrap();
        let ended = session.id();
        session.end().unwrap();
        for id in [of_another_store, dropped, ended] {
            let resumed = case.store.resume_session(id);
            assert_eq!(resumed.err(), Some(Error::SessionUnknown { id }));
        }
    });
}

/// H03
/// Difference: the session of the store itself lasts as long as the store.
#[test]
fn session_of_store_cannot_be_resumed() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let refused = case.store.resume_session(case.tube.session()).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// H04
#[test]
fn resumed_session_shares_claims() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let one = case.store.session("").unwrap();
        let other = case.store.resume_session(one.id()).unwrap();
        assert_eq!(one.id(), other.id());
        let (one, other) = (one.tube(&case.tube).unwrap(), other.tube(&case.tube).unwrap());
        assert_eq!(take(&one), Some(0));
        assert_eq!(take(&other), Some(1));
        one.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        other.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_not_taken(one.claimed(0).and_then(tubewell::Claim::ack), 0);
    });
}

/// H05, I10
#[test]
fn dropped_session_releases_its_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        drop(session);
        assert_eq!(case.state(0), Some(TaskState::Taken), "the tube handle keeps its session open");
        drop(tube);
        assert_eq!(case.tasks(), counts([("ready", 3), ("total", 3)]));
        assert_eq!(case.calls(), counts([("put", 3), ("take", 2), ("release", 2)]));
        assert_eq!(case.take_all(), [0, 1, 2]);
    });
}

/// H06, H07
#[test]
fn session_lasts_until_last_handle_is_dropped() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let a = case.store.session("").unwrap();
        let b = case.store.resume_session(a.id()).unwrap().tube(&case.tube).unwrap();
        assert_eq!(take(&a.tube(&case.tube).unwrap()), Some(0));
        drop(a);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        b.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(take(&b), Some(0));
        drop(b);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// H05, H09
#[test]
fn session_end_releases_tasks_and_invalidates_handles() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        assert_eq!(take(&tube), Some(0));
        let claim = tube.try_take().unwrap().unwrap();
        session.end().unwrap();
        assert_eq!(case.tasks(), counts([("ready", 2), ("total", 2)]));
        assert_eq!(tube.try_take().err(), Some(Error::SessionEnded));
        assert!(claim.ack().is_err());
        assert_eq!(case.take_all(), [0, 1]);
    });
}

/// H05, H09
#[test]
fn calls_on_ended_session_return_session_ended() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        assert_eq!(take(&tube), Some(0));
        session.end().unwrap();
        let ended = || Some(Error::SessionEnded);
        assert_eq!(tube.take_timeout(NO_TIMEOUT).err(), ended());
        assert_eq!(tube.take_many(2, ZERO).err(), ended());
        assert_eq!(tube.claimed(0).and_then(tubewell::Claim::ack).err(), ended());
        assert_eq!(tube.claimed(0).and_then(tubewell::Claim::release).err(), ended());
        assert_eq!(case.take_all(), [0, 1]);
    });
}

/// H10, H12
#[test]
fn session_resumed_within_grace_keeps_tasks() {
    for driver in ALL {
        with_grace(driver, |clock, store, tube| {
            let (id, task) = take_in_dropped_session(store);
            clock.advance(ms(200));
            assert_eq!(state(tube, task), Some(TaskState::Taken));
            let resumed = store.resume_session(id).unwrap();
            clock.advance(ms(1_300));
            assert_eq!(state(tube, task), Some(TaskState::Taken));
            resumed.tube(tube).unwrap().claimed(task).and_then(tubewell::Claim::ack).unwrap();
            assert_eq!(state(tube, task), None);
        });
    }
}

/// H11
#[test]
fn elapsed_session_grace_releases_tasks() {
    for driver in ALL {
        with_grace(driver, |clock, store, tube| {
            let (id, task) = take_in_dropped_session(store);
            clock.advance(ms(999));
            assert_eq!(state(tube, task), Some(TaskState::Taken));
            clock.advance(ms(1));
            assert_eq!(state(tube, task), Some(TaskState::Ready));
            assert_eq!(store.resume_session(id).err(), Some(Error::SessionUnknown { id }));
        });
    }
}

/// H10, H11
#[test]
fn session_grace_restarts_at_each_drop() {
    with_grace(FIFO, |clock, store, tube| {
        let (id, task) = take_in_dropped_session(store);
        for _ in 0..3 {
            clock.advance(ms(900));
            drop(store.resume_session(id).unwrap());
        }
        assert_eq!(state(tube, task), Some(TaskState::Taken));
        clock.advance(ms(999));
        assert_eq!(state(tube, task), Some(TaskState::Taken));
        clock.advance(ms(1));
        assert_eq!(state(tube, task), Some(TaskState::Ready));
    });
}

/// H10, H11
#[test]
fn ended_session_has_no_grace() {
    with_grace(FIFO, |_, store, tube| {
        let session = store.session("").unwrap();
        let id = session.id();
        let task = take(&session.tube(tube).unwrap()).unwrap();
        session.end().unwrap();
        assert_eq!(state(tube, task), Some(TaskState::Ready));
        assert_eq!(store.resume_session(id).err(), Some(Error::SessionUnknown { id }));
    });
}

/// H10, E05
#[test]
fn earlier_of_ttr_and_session_grace_releases_task() {
    with_grace(UTUBETTL, |clock, store, _| {
        let tube = store.create_tube("timed", TubeOptions::default().driver(UTUBETTL)).unwrap();
        let put = |sub_queue, ttr| {
            tube.put(tubewell::Put::new("x").sub_queue(sub_queue).ttr(ttr)).unwrap().id
        };
        let (short, long) = (put("short", ms(300)), put("long", secs(10)));
        let dropped = store.session("").unwrap().tube(&tube).unwrap();
        assert_eq!((take(&dropped), take(&dropped)), (Some(short), Some(long)));
        drop(dropped);
        clock.advance(ms(299));
        assert_eq!(state(&tube, short), Some(TaskState::Taken));
        clock.advance(ms(1));
        assert_eq!(state(&tube, short), Some(TaskState::Ready));
        clock.advance(ms(699));
        assert_eq!(state(&tube, long), Some(TaskState::Taken));
        clock.advance(ms(1));
        assert_eq!(state(&tube, long), Some(TaskState::Ready));
        assert_eq!(calls(&tube), counts([("put", 2), ("take", 2), ("ttr", 1), ("release", 1)]));
    });
}

/// H16
#[test]
fn dropped_session_releases_many_tasks() {
    for_each_driver(ALL, |case| {
        case.tube.put_many((0..500).map(|_| case.draft("x"))).unwrap();
        let other_session = case.tube_in_new_session();
        let claims = other_session.take_many(500, ZERO).unwrap();
        assert_eq!(claims.into_iter().map(keep).count(), 500);
        assert!(case.store.drop_tube("case").is_err());
        drop(other_session);
        assert_eq!(case.tasks(), counts([("ready", 500), ("total", 500)]));
        case.store.drop_tube("case").unwrap();
    });
}

/// H17
#[test]
fn session_end_keeps_tasks_of_other_sessions() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let (leaving, staying) = (case.tube_in_new_session(), case.tube_in_new_session());
        assert_eq!(take(&leaving), Some(0));
        assert_eq!(take(&staying), Some(1));
        drop(leaving);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.state(1), Some(TaskState::Taken));
        staying.claimed(1).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// H05, G02
#[test]
fn session_end_gives_tasks_to_waiting_takers() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let leaving = case.tube_in_new_session();
        assert_eq!(take(&leaving), Some(0));
        let waiting = case.begin_take();
        drop(leaving);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// Q16
#[test]
fn session_end_after_truncate_releases_tasks_of_other_tubes() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        case.put_all([0]);
        let kept = other.put("kept").unwrap().id;
        let session = case.store.session("").unwrap();
        assert_eq!(take(&session.tube(&case.tube).unwrap()), Some(0));
        assert_eq!(
            take(&session.tube(&case.store.find_tube("other").unwrap()).unwrap()),
            Some(kept)
        );
        case.tube.admin().truncate().unwrap();
        session.end().unwrap();
        assert_eq!(state(&other, kept), Some(TaskState::Ready));
        assert_eq!(take(&other), Some(kept));
    });
}
