//! Group C: ack, release, and which session may call them.

use tubewell::driver::FIFO;
use tubewell::{Claim, Filter, Outcome, TaskState, TubeOptions};

use super::support::*;

/// C01
#[test]
fn ack_removes_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Done));
        assert_eq!(case.state(0), None);
        assert_eq!(case.take(), None);
    });
}

/// C02, C03, E26
#[test]
fn holder_calls_on_ready_task_return_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_not_taken(case.tube.claimed(0).and_then(|claim| claim.touch(secs(1))), 0);
        assert_not_taken(case.tube.claimed(0).and_then(|claim| claim.renew(secs(1))), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// C04
#[test]
fn holder_calls_on_missing_task_return_not_taken() {
    for_each_driver(ALL, |case| {
        assert_not_taken(case.tube.claimed(99).and_then(tubewell::Claim::ack), 99);
        assert_not_taken(case.tube.claimed(99).and_then(tubewell::Claim::release), 99);
        assert_not_taken(case.tube.claimed(99).and_then(|claim| claim.touch(secs(1))), 99);
        assert_not_taken(case.tube.claimed(99).and_then(|claim| claim.renew(secs(1))), 99);
    });
}

/// C05
#[test]
fn holder_calls_from_other_session_return_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let other_session = case.tube_in_new_session();
        assert_eq!(case.take(), Some(0));
        assert_not_taken(other_session.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(other_session.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_not_taken(other_session.claimed(0).and_then(|claim| claim.touch(secs(1))), 0);
        assert_not_taken(other_session.claimed(0).and_then(|claim| claim.renew(secs(1))), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.state(0), None);
    });
}

/// C06
#[test]
fn second_ack_returns_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.calls().get("ack"), Some(&1));
    });
}

/// C07
#[test]
fn ack_of_deleted_task_returns_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(0).unwrap();
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
    });
}

/// C08
#[test]
fn ack_and_release_of_buried_task_return_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().bury(0, None).unwrap();
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_not_taken(claim.ack(), 0);
        assert_eq!(case.state(0), Some(TaskState::Buried));
    });
}

/// C09
#[test]
fn ack_of_released_task_returns_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Ready));
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// C10, F23
/// Difference: a delay that the driver does not support is rejected, and the task stays taken.
#[test]
fn release_with_delay_is_rejected_by_untimed_driver() {
    for_each_driver(UNTIMED, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_unsupported(
            case.tube.claimed(0).and_then(|claim| claim.release_in(secs(5))),
            case.driver,
        );
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// C11
#[test]
fn release_with_zero_delay_makes_task_ready() {
    for_each_driver(TIMED, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(case.take(), Some(0));
    });
}

/// C12
#[test]
fn ack_by_previous_holder_after_claim_expired_returns_not_taken() {
    for_each_driver(TIMED, |case| {
        let (first, second) = (case.tube_in_new_session(), case.tube_in_new_session());
        case.add(case.draft("x").ttr(ms(50)));
        assert_eq!(take(&first), Some(0));
        case.advance(50);
        assert_eq!(take(&second), Some(0));
        assert_not_taken(first.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(
            second.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// C13
/// Difference: a call by id applies to the current claim of the session. A `Claim` applies to
/// itself only.
#[test]
fn stale_claim_is_rejected_after_same_session_took_task_again() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(50)));
        let stale = case.tube.try_take().unwrap().unwrap();
        case.advance(50);
        let current = case.tube.try_take().unwrap().unwrap();
        assert_eq!((stale.id(), current.id()), (0, 0));
        assert_ne!(stale.epoch(), current.epoch());
        assert_not_taken(stale.touch(secs(1)), 0);
        assert_not_taken(stale.renew(secs(1)), 0);
        assert_not_taken(stale.ack(), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        keep(current);
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// C13
#[test]
fn dropped_stale_claim_releases_nothing() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(50)));
        let stale = case.tube.try_take().unwrap().unwrap();
        case.advance(50);
        assert_eq!(case.take(), Some(0));
        drop(stale);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        assert_eq!(case.calls().get("release"), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// C14
#[test]
fn ack_after_release_all_returns_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        let other_session = case.tube_in_new_session();
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), Some(1));
        assert_eq!(other_session.admin().release(Filter::new()).unwrap(), 2);
        for id in 0..2 {
            assert_eq!(case.state(id), Some(TaskState::Ready));
            assert_not_taken(case.tube.claimed(id).and_then(tubewell::Claim::ack), id);
        }
        assert_eq!(case.take_all(), [0, 1, 2]);
    });
}

/// C15, H04
#[test]
fn session_handles_share_claims() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let session = case.store.session("").unwrap();
        let taker = session.tube(&case.tube).unwrap();
        let acker = case.store.resume_session(session.id()).unwrap().tube(&case.tube).unwrap();
        assert_eq!(taker.session(), acker.session());
        assert_eq!(take(&taker), Some(0));
        assert_eq!(acker.claimed(0).and_then(tubewell::Claim::ack).unwrap().state, TaskState::Done);
    });
}

/// C09, H05
/// Difference: a take returns a `Claim`, and dropping it releases the task.
#[test]
fn dropped_claim_releases_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        drop(case.tube.try_take().unwrap().unwrap());
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.calls(), counts([("put", 2), ("take", 1), ("release", 1)]));
        let again = case.tube.try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.takes()), (0, 2));
        again.ack().unwrap();
    });
}

/// C01, C11, D02
#[test]
fn claim_can_release_ack_and_bury_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let next = || case.tube.try_take().unwrap().unwrap();
        assert_eq!(next().release().unwrap().state, TaskState::Ready);
        assert_eq!(next().ack().unwrap().state, TaskState::Done);
        assert_eq!(case.state(0), None);
        assert_eq!(next().bury(None).unwrap().state, TaskState::Buried);
        assert_eq!(case.state(1), Some(TaskState::Buried));
        let calls = counts([("put", 2), ("take", 3), ("release", 1), ("ack", 1), ("bury", 1)]);
        assert_eq!(case.calls(), calls);
    });
}

/// C04, C06
/// Difference: one call can ack many tasks and returns one result for each.
#[test]
fn ack_many_with_stale_claim_acks_other_claims() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4]);
        let claims = case.tube.take_many(3, ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), [0, 1, 2]);
        case.tube.admin().bury(1, None).unwrap();
        let answers = Claim::end_many(claims, |_| Outcome::done()).unwrap();
        let [first, second, third] = <[_; 3]>::try_from(answers).unwrap();
        assert_eq!(first.unwrap().state, TaskState::Done);
        assert_not_taken(second, 1);
        assert_eq!(third.unwrap().state, TaskState::Done);
        assert_eq!(case.state(1), Some(TaskState::Buried));

        assert_eq!(case.take_all(), [3, 4]);
        assert_not_taken(case.tube.claimed(99), 99);
        let claims = [3, 4].map(|id| case.tube.claimed(id).unwrap());
        let answers = Claim::end_many(Vec::from(claims), |_| Outcome::done()).unwrap();
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(case.tasks(), counts([("buried", 1), ("total", 1), ("done", 4)]));
    });
}

/// C04
#[test]
fn calls_with_id_of_other_tube_fail() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        assert_not_taken(other.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(other.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_not_found(other.admin().bury(0, None), 0);
        assert_not_found(other.delete(0), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
    });
}
