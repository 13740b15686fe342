//! Group C: ack, release, and who may.

use tubewell::driver::FIFO;
use tubewell::{Claim, State, TubeOptions};

use crate::support::*;

/// C01
#[test]
fn an_acked_task_is_gone() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.ack(0).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, State::Done));
        assert_eq!(case.state(0), None);
        assert_eq!(case.take(), None);
    });
}

/// C02, C03, E26
#[test]
fn a_ready_task_is_nobodys_to_finish() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_not_taken(case.tube.ack(0), 0);
        assert_not_taken(case.tube.release(0, ZERO), 0);
        assert_not_taken(case.tube.touch(0, secs(1)), 0);
        assert_not_taken(case.tube.renew(0, secs(1)), 0);
        assert_eq!(case.state(0), Some(State::Ready));
    });
}

/// C04
#[test]
fn a_task_that_does_not_exist_is_not_taken() {
    each(ALL, |case| {
        assert_not_taken(case.tube.ack(99), 99);
        assert_not_taken(case.tube.release(99, ZERO), 99);
        assert_not_taken(case.tube.touch(99, secs(1)), 99);
        assert_not_taken(case.tube.renew(99, secs(1)), 99);
    });
}

/// C05
#[test]
fn only_the_session_that_took_a_task_may_finish_it() {
    each(ALL, |case| {
        case.put_all([0]);
        let stranger = case.stranger();
        assert_eq!(case.take(), Some(0));
        assert_not_taken(stranger.ack(0), 0);
        assert_not_taken(stranger.release(0, ZERO), 0);
        assert_not_taken(stranger.touch(0, secs(1)), 0);
        assert_not_taken(stranger.renew(0, secs(1)), 0);
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.ack(0).unwrap();
        assert_eq!(case.state(0), None);
    });
}

/// C06
#[test]
fn a_task_is_acked_once() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.calls().get("ack"), Some(&1));
    });
}

/// C07
#[test]
fn a_task_deleted_under_its_holder_cannot_be_acked() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(0).unwrap();
        assert_not_taken(case.tube.ack(0), 0);
    });
}

/// C08
#[test]
fn a_task_buried_under_its_holder_cannot_be_acked_or_released() {
    each(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.bury(0).unwrap();
        assert_not_taken(case.tube.ack(0), 0);
        assert_not_taken(case.tube.release(0, ZERO), 0);
        assert_not_taken(claim.ack(), 0);
        assert_eq!(case.state(0), Some(State::Buried));
    });
}

/// C09
#[test]
fn a_released_task_cannot_be_acked() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.release(0, ZERO).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, State::Ready));
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.state(0), Some(State::Ready));
    });
}

/// C10, F23
/// Here: a delay that the driver cannot keep is refused, and the task stays taken.
#[test]
fn a_driver_without_delays_refuses_one_at_release() {
    each(UNTIMED, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_unsupported(case.tube.release(0, secs(5)), case.driver);
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.release(0, ZERO).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// C11
#[test]
fn a_release_with_a_delay_of_nothing_makes_the_task_ready() {
    each(TIMED, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.tube.release(0, ZERO).unwrap().state, State::Ready);
        assert_eq!(case.take(), Some(0));
    });
}

/// C12
#[test]
fn a_holder_whose_time_is_over_cannot_ack_what_another_took_since() {
    each(TIMED, |case| {
        let (first, second) = (case.stranger(), case.stranger());
        case.add(case.draft("x").ttr(ms(50)));
        assert_eq!(take(&first), Some(0));
        case.advance(50);
        assert_eq!(take(&second), Some(0));
        assert_not_taken(first.ack(0), 0);
        assert_eq!(second.ack(0).unwrap().state, State::Done);
    });
}

/// C13
/// Here: by id, a session finishes whatever claim it holds now; a handle finishes its own claim only.
#[test]
fn a_stale_handle_is_refused_even_when_its_session_took_the_task_again() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(50)));
        let stale = case.tube.try_take().unwrap().unwrap();
        case.advance(50);
        let current = case.tube.try_take().unwrap().unwrap();
        assert_eq!((stale.id(), current.id()), (0, 0));
        assert_ne!(stale.epoch(), current.epoch());
        assert_not_taken(stale.touch(secs(1)), 0);
        assert_not_taken(stale.renew(secs(1)), 0);
        assert_not_taken(stale.ack(), 0);
        assert_eq!(case.state(0), Some(State::Taken));
        keep(current);
        assert_eq!(case.tube.ack(0).unwrap().state, State::Done);
    });
}

/// C13
#[test]
fn a_stale_handle_that_is_dropped_releases_nothing() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(50)));
        let stale = case.tube.try_take().unwrap().unwrap();
        case.advance(50);
        assert_eq!(case.take(), Some(0));
        drop(stale);
        assert_eq!(case.state(0), Some(State::Taken));
        assert_eq!(case.calls().get("release"), None);
        case.tube.ack(0).unwrap();
    });
}

/// C14
#[test]
fn after_a_release_of_all_no_holder_can_ack() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        let stranger = case.stranger();
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), Some(1));
        assert_eq!(stranger.release_all().unwrap(), 2);
        for id in 0..2 {
            assert_eq!(case.state(id), Some(State::Ready));
            assert_not_taken(case.tube.ack(id), id);
        }
        assert_eq!(case.take_all(), [0, 1, 2]);
    });
}

/// C15, H04
#[test]
fn all_handles_of_a_session_share_what_it_took() {
    each(ALL, |case| {
        case.put_all([0]);
        let session = case.store.session();
        let taker = session.tube("case").unwrap();
        let acker = case.store.resume_session(session.id()).unwrap().tube("case").unwrap();
        assert_eq!(taker.session(), acker.session());
        assert_eq!(take(&taker), Some(0));
        assert_eq!(acker.ack(0).unwrap().state, State::Done);
    });
}

/// C09, H05
/// Here: a take answers with a handle, and a handle that is dropped gives its task back.
#[test]
fn a_dropped_handle_releases_its_task() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        drop(case.tube.try_take().unwrap().unwrap());
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.calls(), counts([("put", 2), ("take", 1), ("release", 1)]));
        let again = case.tube.try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.takes()), (0, 2));
        again.ack().unwrap();
    });
}

/// C01, C11, D02
#[test]
fn a_handle_finishes_its_task() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let next = || case.tube.try_take().unwrap().unwrap();
        assert_eq!(next().release(ZERO).unwrap().state, State::Ready);
        assert_eq!(next().ack().unwrap().state, State::Done);
        assert_eq!(case.state(0), None);
        assert_eq!(next().bury().unwrap().state, State::Buried);
        assert_eq!(case.state(1), Some(State::Buried));
        let calls = counts([("put", 2), ("take", 3), ("release", 1), ("ack", 1), ("bury", 1)]);
        assert_eq!(case.calls(), calls);
    });
}

/// C04, C06
/// Here: many tasks can be acked in one call, which answers for each.
#[test]
fn one_stale_claim_does_not_keep_the_others_from_being_acked() {
    each(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4]);
        let claims = case.tube.take_many(3, ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), [0, 1, 2]);
        case.tube.bury(1).unwrap();
        let answers = Claim::ack_many(claims).unwrap();
        let [first, second, third] = <[_; 3]>::try_from(answers).unwrap();
        assert_eq!(first.unwrap().state, State::Done);
        assert_not_taken(second, 1);
        assert_eq!(third.unwrap().state, State::Done);
        assert_eq!(case.state(1), Some(State::Buried));

        assert_eq!(case.take_all(), [3, 4]);
        let answers = case.tube.ack_many(&[3, 99, 4]).unwrap();
        let [first, second, third] = <[_; 3]>::try_from(answers).unwrap();
        assert_eq!((first.unwrap().id, third.unwrap().id), (3, 4));
        assert_not_taken(second, 99);
        assert_eq!(case.tasks(), counts([("buried", 1), ("total", 1), ("done", 4)]));
    });
}

/// C04
#[test]
fn a_task_of_another_tube_is_not_found_here() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let other = case.store.create_tube("other", FIFO, TubeOptions::default()).unwrap();
        assert_not_taken(other.ack(0), 0);
        assert_not_taken(other.release(0, ZERO), 0);
        assert_not_found(other.bury(0), 0);
        assert_not_found(other.delete(0), 0);
        assert_eq!(case.state(0), Some(State::Taken));
    });
}
