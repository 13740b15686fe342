//! Bury and release by a holder: fail, trash, retry and abandon.

use tubewell::{Claim, Filter, Result, TaskState, Tube};

use super::support::*;

/// A call that ends a claim while its handle still exists, and the state of the task afterwards.
type End = (fn(&Tube, u64) -> Result<tubewell::Receipt>, Option<TaskState>);

const ENDS: [End; 5] = [
    (|tube, id| tube.claimed(id).and_then(tubewell::Claim::release), Some(TaskState::Ready)),
    (
        |tube, id| tube.claimed(id).and_then(|claim| claim.release_in(secs(10))),
        Some(TaskState::Delayed),
    ),
    (|tube, id| tube.admin().bury(id, None), Some(TaskState::Buried)),
    (|tube, id| tube.claimed(id).and_then(Claim::ack), None),
    (Tube::delete, None),
];

/// Ends claims in every way, and asserts that `call` through such a claim is refused and changes
/// nothing.
pub fn assert_refused_once_claim_has_ended<T>(
    drivers: &[&'static str],
    call: impl Fn(Claim) -> Result<T>,
) {
    for_each_driver(drivers, |case| {
        for (end, state) in ENDS {
            if state == Some(TaskState::Delayed) && !case.timed() {
                continue;
            }
            let id = case.put("x");
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.id(), id);
            end(&case.tube, id).unwrap();
            let before = (case.tasks(), case.calls());
            assert_not_taken(call(claim), id);
            assert_eq!(case.state(id), state);
            assert_eq!((case.tasks(), case.calls()), before);
            if state.is_some() {
                case.tube.delete(id).unwrap();
            }
        }
    });
}

/// Q111
/// Difference: the error names the task and not its state.
#[test]
fn bury_by_claim_is_refused_once_claim_has_ended() {
    assert_refused_once_claim_has_ended(ALL, |claim| claim.bury(None));
}

/// Q111
/// Difference: a bury by id is for every caller, and buries ready and delayed tasks too.
#[test]
fn bury_by_id_fails_only_for_missing_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.delete(1).unwrap();
        assert_not_found(case.tube.admin().bury(1, None), 1);
        assert_not_found(case.tube.admin().bury(99, None), 99);
        assert_eq!(case.tube.admin().bury(0, None).unwrap().state, TaskState::Buried);
        if case.timed() {
            let delayed = case.add(case.draft("x").delay(secs(10)));
            assert_eq!(case.tube.admin().bury(delayed, None).unwrap().state, TaskState::Buried);
            case.advance(10_000);
            assert_eq!(case.state(delayed), Some(TaskState::Buried));
        }
        assert_eq!(case.take(), None);
    });
}

/// Q112
#[test]
fn bury_by_former_holder_is_refused_when_another_session_has_the_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let (former, current) = (case.tube_in_new_session(), case.tube_in_new_session());
        let claim = former.try_take().unwrap().unwrap();
        assert_eq!(case.tube.admin().release(Filter::new()).unwrap(), 1);
        assert_eq!(take(&current), Some(0));
        assert_not_taken(claim.bury(None), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        assert_eq!(
            current.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// Q154, T015
/// Difference: the error of a task that no session has taken is `NotTaken`, missing or not.
#[test]
fn release_of_task_that_is_not_taken_is_refused() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.tube.admin().bury(1, None).unwrap();
        let (tasks, calls) = (case.tasks(), case.calls());
        for (id, state) in
            [(0, None), (1, Some(TaskState::Buried)), (2, Some(TaskState::Ready)), (99, None)]
        {
            assert_not_taken(case.tube.claimed(id).and_then(tubewell::Claim::release), id);
            assert_eq!(case.state(id), state);
        }
        assert_eq!((case.tasks(), case.calls()), (tasks, calls));
    });
    assert_refused_once_claim_has_ended(ALL, tubewell::Claim::release);
    assert_refused_once_claim_has_ended(TIMED, |claim| claim.release_in(secs(1)));
}

/// Q154, T019
/// Difference: a bury by id is for every caller, so only ack and release need the holder.
#[test]
fn ack_and_release_by_another_session_are_refused() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let (holder, other) = (case.tube_in_new_session(), case.tube_in_new_session());
        assert_eq!(take(&holder), Some(0));
        let before = (case.tasks(), case.calls());
        assert_not_taken(other.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(other.claimed(0).and_then(tubewell::Claim::release), 0);
        if case.timed() {
            assert_not_taken(other.claimed(0).and_then(|claim| claim.release_in(secs(1))), 0);
        }
        assert_eq!((case.tasks(), case.calls()), before);
        assert_eq!(
            holder.claimed(0).and_then(tubewell::Claim::release).unwrap().state,
            TaskState::Ready
        );
    });
}

/// Q156
#[test]
fn holder_calls_after_release_are_refused() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let released = || {
            let claim = case.tube.try_take().unwrap().unwrap();
            case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
            claim
        };
        assert_not_taken(released().ack(), 0);
        assert_not_taken(released().bury(None), 0);
        assert_not_taken(released().release(), 0);
        if case.timed() {
            assert_not_taken(released().renew(secs(1)), 0);
            assert_not_taken(released().touch(secs(1)), 0);
        }
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take_all(), [0]);
    });
}

/// Q157
#[test]
fn release_with_delay_keeps_task_from_takers_until_delay_elapses() {
    for_each_driver(TIMED, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release_in(secs(10)).unwrap().state, TaskState::Delayed);
        assert_eq!(case.take(), None);
        case.advance(9_999);
        assert_eq!((case.state(0), case.take()), (Some(TaskState::Delayed), None));
        case.advance(1);
        assert_eq!(case.take(), Some(0));
    });
}

/// Q165
/// Difference: a session has no list of its tasks; its end releases the tasks that it has.
#[test]
fn end_of_session_does_not_release_task_that_it_released_before() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session("").unwrap();
        let first = session.tube(&case.tube).unwrap();
        assert_eq!((take(&first), take(&first)), (Some(0), Some(1)));
        first.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(0));
        session.end().unwrap();
        assert_eq!(
            [0, 1].map(|id| case.state(id)),
            [Some(TaskState::Taken), Some(TaskState::Ready)]
        );
        assert_eq!(case.calls().get("release"), Some(&2));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// T009
#[test]
fn released_task_is_listed_as_ready_again() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let listed = |state| {
            let page = case.tube.query().list(state, None, 10).unwrap();
            page.items.iter().map(|info| info.id).collect::<Vec<u64>>()
        };
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((listed(TaskState::Ready), listed(TaskState::Taken)), (vec![], vec![0]));
        assert_eq!(claim.release().unwrap().state, TaskState::Ready);
        assert_eq!((listed(TaskState::Ready), listed(TaskState::Taken)), (vec![0], vec![]));
        assert_eq!(case.take(), Some(0));
    });
}
