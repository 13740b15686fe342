//! Renew and touch: heartbeats and longer claims.

use tubewell::{Claim, TaskState, TubeOptions};

use super::fail::assert_refused_once_claim_has_ended;
use super::support::*;

/// Q046
/// Difference: a ttr is an option of a tube or a task, and none of the store; a renewal names its
/// time.
#[test]
fn claim_expires_by_ttr_of_its_tube_and_renew_counts_from_its_call() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(300)), |case| {
        let ten = TubeOptions::default().ttr(secs(10));
        let other = case.store.create_tube("other", ten.driver(case.driver)).unwrap();
        case.put_all([0]);
        let short = other.put("x").unwrap().id;
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(take(&other), Some(short));
        assert_eq!(case.info(0).due_in, Some(secs(300)));
        assert_eq!(other.query().task(short).unwrap().info.due_in, Some(secs(10)));
        case.advance(100_000);
        assert_eq!(state(&other, short), Some(TaskState::Ready));
        claim.renew(secs(300)).unwrap();
        assert_eq!(case.info(0).due_in, Some(secs(300)));
        case.advance(299_999);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// Q132
#[test]
fn renew_and_touch_move_deadline_of_claim() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(60)), |case| {
        case.advance(1_000);
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(2_000);
        assert_eq!(case.info(0).due_in, Some(secs(58)));
        claim.renew(secs(60)).unwrap();
        assert_eq!(case.info(0).due_in, Some(secs(60)));
        assert_eq!(claim.touch(secs(5)).unwrap().unwrap().state, TaskState::Taken);
        assert_eq!(case.info(0).due_in, Some(secs(65)));
        case.advance(64_999);
        claim.ack().unwrap();
    });
}

/// Q133
/// Difference: the error names the task and not its state.
#[test]
fn renew_and_touch_are_refused_once_claim_has_ended() {
    assert_refused_once_claim_has_ended(TIMED, |claim| claim.renew(secs(60)));
    assert_refused_once_claim_has_ended(TIMED, |claim| claim.touch(secs(60)));
}

/// Q133
#[test]
fn renew_and_touch_of_task_that_is_not_taken_are_refused() {
    for_each_driver(TIMED, |case| {
        case.put_all([0, 1, 2]);
        case.tube.admin().bury(0, None).unwrap();
        case.tube.delete(1).unwrap();
        let delayed = case.add(case.draft("x").delay(secs(10)));
        for id in [0, 1, 2, delayed, 99] {
            assert_not_taken(case.tube.claimed(id).and_then(|claim| claim.renew(secs(60))), id);
            assert_not_taken(case.tube.claimed(id).and_then(|claim| claim.touch(secs(60))), id);
        }
        assert_eq!(case.info(delayed).due_in, Some(secs(10)));
        assert_eq!([0, 1, 2].map(|id| case.state(id)), {
            [Some(TaskState::Buried), None, Some(TaskState::Ready)]
        });
        assert_eq!(case.calls().get("touch"), None);
    });
}

/// Q134
#[test]
fn renew_and_touch_by_another_session_are_refused() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(60)), |case| {
        case.put_all([0]);
        let (holder, other) = (case.tube_in_new_session(), case.tube_in_new_session());
        assert_eq!(take(&holder), Some(0));
        assert_not_taken(other.claimed(0).and_then(|claim| claim.renew(secs(90))), 0);
        assert_not_taken(other.claimed(0).and_then(|claim| claim.touch(secs(90))), 0);
        assert_eq!(case.info(0).due_in, Some(secs(60)));
        holder.claimed(0).and_then(|claim| claim.renew(secs(90))).unwrap();
        assert_eq!(case.info(0).due_in, Some(secs(90)));
        holder.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// T037
#[test]
fn renew_uses_its_argument_and_not_the_ttr() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(10)), |case| {
        case.put_all([0]);
        let claim: Claim = case.tube.try_take().unwrap().unwrap();
        claim.renew(secs(100)).unwrap();
        let info = case.info(0);
        assert_eq!((info.due_in, info.ttr), (Some(secs(100)), Some(secs(10))));
        case.advance(99_999);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_not_taken(claim.ack(), 0);
    });
}
