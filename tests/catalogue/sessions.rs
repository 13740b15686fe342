//! Group H: sessions, and what happens when they end.

use tubewell::driver::{FIFO, UTUBETTL};
use tubewell::{Error, ManualClock, SessionId, State, Store, Tube, TubeOptions};

use crate::support::*;

/// A tube with two tasks in a store that keeps the claims of a session for a second.
fn with_grace(driver: &str, test: impl Fn(&ManualClock, &Store, &Tube)) {
    println!("driver {driver}");
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).session_grace(secs(1)).open_in_memory().unwrap();
    let tube = store.create_tube("case", driver, TubeOptions::default()).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    test(&clock, &store, &tube);
    assert_sound(&store);
}

/// Takes for a session that is gone when this returns.
fn take_and_leave(store: &Store) -> (SessionId, u64) {
    let session = store.session();
    let tube = session.tube("case").unwrap();
    (session.id(), take(&tube).unwrap())
}

/// H01
#[test]
fn a_session_has_one_id_and_no_two_have_the_same() {
    each(ALL, |case| {
        let (one, two) = (case.store.session(), case.store.session());
        assert_eq!(one.id(), one.id());
        assert_eq!(one.id(), one.clone().id());
        assert_eq!(one.tube("case").unwrap().session(), one.id());
        assert_ne!(one.id(), two.id());
        assert_ne!(one.id(), case.tube.session());
        assert_eq!(case.tube.session(), case.store.tube("case").unwrap().session());
    });
}

/// H02
#[test]
fn a_session_id_is_read_back_from_its_text() {
    let store = store_in_memory();
    let id = store.session().id();
    assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
    for text in ["", "abc", "5", "not-a-session-id-of-any-kind!!!!"] {
        assert!(text.parse::<SessionId>().is_err(), "{text:?} was read as a session id");
    }
    assert_sound(&store);
}

/// H03, H08
#[test]
fn a_session_that_nobody_is_in_cannot_be_resumed() {
    each(ALL, |case| {
        let of_another_store = store_in_memory().session().id();
        let dropped = case.store.session().id();
        let session = case.store.session();
        let ended = session.id();
        session.end().unwrap();
        for id in [of_another_store, dropped, ended] {
            let resumed = case.store.resume_session(id);
            assert_eq!(resumed.err(), Some(Error::SessionUnknown { id }));
        }
    });
}

/// H03
/// Here: the session of those who did not ask for one lives as long as the store.
#[test]
fn the_stores_own_session_can_be_neither_resumed_nor_ended() {
    each(ALL, |case| {
        case.put_all([0]);
        let refused = case.store.resume_session(case.tube.session()).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
    });
}

/// H04
#[test]
fn a_session_can_be_joined_by_its_id() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let one = case.store.session();
        let other = case.store.resume_session(one.id()).unwrap();
        assert_eq!(one.id(), other.id());
        let (one, other) = (one.tube("case").unwrap(), other.tube("case").unwrap());
        assert_eq!(take(&one), Some(0));
        assert_eq!(take(&other), Some(1));
        one.ack(1).unwrap();
        other.release(0, ZERO).unwrap();
        assert_not_taken(one.ack(0), 0);
    });
}

/// H05, I10
#[test]
fn the_tasks_of_a_session_are_released_when_it_ends() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        let session = case.store.session();
        let tube = session.tube("case").unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        drop(session);
        assert_eq!(case.state(0), Some(State::Taken), "its tube keeps a session alive");
        drop(tube);
        assert_eq!(case.tasks(), counts([("ready", 3), ("total", 3)]));
        assert_eq!(case.calls(), counts([("put", 3), ("take", 2), ("release", 2)]));
        assert_eq!(case.take_all(), [0, 1, 2]);
    });
}

/// H06, H07
#[test]
fn a_session_lives_until_its_last_handle_is_gone() {
    each(ALL, |case| {
        case.put_all([0]);
        let a = case.store.session();
        let b = case.store.resume_session(a.id()).unwrap().tube("case").unwrap();
        assert_eq!(take(&a.tube("case").unwrap()), Some(0));
        drop(a);
        assert_eq!(case.state(0), Some(State::Taken));
        b.release(0, ZERO).unwrap();
        assert_eq!(take(&b), Some(0));
        drop(b);
        assert_eq!(case.state(0), Some(State::Ready));
    });
}

/// H05, H09
#[test]
fn ending_a_session_releases_its_tasks_at_once_and_stops_its_handles() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session();
        let tube = session.tube("case").unwrap();
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
fn the_verbs_of_an_ended_session_say_that_it_ended() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session();
        let tube = session.tube("case").unwrap();
        assert_eq!(take(&tube), Some(0));
        session.end().unwrap();
        let ended = || Some(Error::SessionEnded);
        assert_eq!(tube.take(FOR_EVER).err(), ended());
        assert_eq!(tube.take_many(2, ZERO).err(), ended());
        assert_eq!(tube.ack(0).err(), ended());
        assert_eq!(tube.release(0, ZERO).err(), ended());
        assert_eq!(case.take_all(), [0, 1]);
    });
}

/// H10, H12
#[test]
fn a_session_that_is_resumed_in_time_keeps_its_tasks() {
    for driver in ALL {
        with_grace(driver, |clock, store, tube| {
            let (id, task) = take_and_leave(store);
            clock.advance(ms(200));
            assert_eq!(state(tube, task), Some(State::Taken));
            let resumed = store.resume_session(id).unwrap();
            clock.advance(ms(1_300));
            assert_eq!(state(tube, task), Some(State::Taken));
            resumed.tube("case").unwrap().ack(task).unwrap();
            assert_eq!(state(tube, task), None);
        });
    }
}

/// H11
#[test]
fn the_tasks_of_a_session_are_released_when_its_grace_is_over() {
    for driver in ALL {
        with_grace(driver, |clock, store, tube| {
            let (id, task) = take_and_leave(store);
            clock.advance(ms(999));
            assert_eq!(state(tube, task), Some(State::Taken));
            clock.advance(ms(1));
            assert_eq!(state(tube, task), Some(State::Ready));
            assert_eq!(store.resume_session(id).err(), Some(Error::SessionUnknown { id }));
        });
    }
}

/// H10, H11
#[test]
fn each_time_a_session_is_left_its_grace_begins_anew() {
    with_grace(FIFO, |clock, store, tube| {
        let (id, task) = take_and_leave(store);
        for _ in 0..3 {
            clock.advance(ms(900));
            drop(store.resume_session(id).unwrap());
        }
        assert_eq!(state(tube, task), Some(State::Taken));
        clock.advance(ms(999));
        assert_eq!(state(tube, task), Some(State::Taken));
        clock.advance(ms(1));
        assert_eq!(state(tube, task), Some(State::Ready));
    });
}

/// H10, H11
#[test]
fn a_session_that_is_ended_has_no_grace() {
    with_grace(FIFO, |_, store, tube| {
        let session = store.session();
        let id = session.id();
        let task = take(&session.tube("case").unwrap()).unwrap();
        session.end().unwrap();
        assert_eq!(state(tube, task), Some(State::Ready));
        assert_eq!(store.resume_session(id).err(), Some(Error::SessionUnknown { id }));
    });
}

/// H10, E05
#[test]
fn of_ttr_and_grace_the_first_to_end_releases() {
    with_grace(UTUBETTL, |clock, store, _| {
        let tube = store.create_tube("timed", UTUBETTL, TubeOptions::default()).unwrap();
        let put = |sub_queue, ttr| {
            tube.put(tubewell::Put::new("x").sub_queue(sub_queue).ttr(ttr)).unwrap().id
        };
        let (short, long) = (put("short", ms(300)), put("long", secs(10)));
        let gone = store.session().tube("timed").unwrap();
        assert_eq!((take(&gone), take(&gone)), (Some(short), Some(long)));
        drop(gone);
        clock.advance(ms(299));
        assert_eq!(state(&tube, short), Some(State::Taken));
        clock.advance(ms(1));
        assert_eq!(state(&tube, short), Some(State::Ready));
        clock.advance(ms(699));
        assert_eq!(state(&tube, long), Some(State::Taken));
        clock.advance(ms(1));
        assert_eq!(state(&tube, long), Some(State::Ready));
        assert_eq!(calls(&tube), counts([("put", 2), ("take", 2), ("ttr", 1), ("release", 1)]));
    });
}

/// H16
#[test]
fn a_session_with_many_tasks_leaves_nothing_behind() {
    each(ALL, |case| {
        case.tube.put_many((0..500).map(|_| case.draft("x"))).unwrap();
        let stranger = case.stranger();
        let claims = stranger.take_many(500, ZERO).unwrap();
        assert_eq!(claims.into_iter().map(keep).count(), 500);
        assert!(case.store.drop_tube("case").is_err());
        drop(stranger);
        assert_eq!(case.tasks(), counts([("ready", 500), ("total", 500)]));
        case.store.drop_tube("case").unwrap();
    });
}

/// H17
#[test]
fn the_end_of_a_session_leaves_the_tasks_of_others_alone() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let (leaving, staying) = (case.stranger(), case.stranger());
        assert_eq!(take(&leaving), Some(0));
        assert_eq!(take(&staying), Some(1));
        drop(leaving);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.state(1), Some(State::Taken));
        staying.ack(1).unwrap();
    });
}

/// H05, G02
#[test]
fn the_end_of_a_session_serves_those_who_wait() {
    each(ALL, |case| {
        case.put_all([0]);
        let leaving = case.stranger();
        assert_eq!(take(&leaving), Some(0));
        let waiting = case.wait();
        drop(leaving);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// Q16
#[test]
fn a_session_that_held_truncated_tasks_still_releases_the_others() {
    each(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, TubeOptions::default()).unwrap();
        case.put_all([0]);
        let kept = other.put("kept").unwrap().id;
        let session = case.store.session();
        assert_eq!(take(&session.tube("case").unwrap()), Some(0));
        assert_eq!(take(&session.tube("other").unwrap()), Some(kept));
        case.tube.truncate().unwrap();
        session.end().unwrap();
        assert_eq!(state(&other, kept), Some(State::Ready));
        assert_eq!(take(&other), Some(kept));
    });
}
