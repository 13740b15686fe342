//! Ack: complete and consume.

use tubewell::driver::FIFO;
use tubewell::{Error, TaskState, TubeOptions};

use super::files::create;
use super::support::*;

/// Q061
#[test]
fn ack_of_ready_task_is_refused_until_it_is_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// Q062
/// Difference: the error names the task and not its state, and a missing task has the same error.
#[test]
fn ack_of_task_that_is_not_taken_is_refused_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(0, None).unwrap();
        case.tube.delete(1).unwrap();
        if case.timed() {
            let delayed = case.add(case.draft("x").delay(secs(10)));
            assert_not_taken(case.tube.claimed(delayed).and_then(tubewell::Claim::ack), delayed);
            assert_eq!(case.state(delayed), Some(TaskState::Delayed));
        }
        for (id, state) in [(0, Some(TaskState::Buried)), (1, None), (99, None)] {
            assert_not_taken(case.tube.claimed(id).and_then(tubewell::Claim::ack), id);
            assert_eq!(case.state(id), state);
        }
        assert_eq!(case.calls().get("ack"), None);
    });
}

/// Q063, B034
#[test]
fn ack_by_session_that_has_not_taken_the_task_is_refused() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let (holder, other) = (case.tube_in_new_session(), case.tube_in_new_session());
        assert_eq!(take(&holder), Some(0));
        for stranger in [&other, &case.tube] {
            assert_not_taken(stranger.claimed(0).and_then(tubewell::Claim::ack), 0);
            assert_eq!(case.state(0), Some(TaskState::Taken));
        }
        assert_eq!(
            holder.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// B034
#[test]
fn ack_in_later_run_of_the_store_is_refused() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put("x").unwrap();
        assert_eq!(take(&tube), Some(0));
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_not_taken(tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(state(&tube, 0), Some(TaskState::Ready));
        assert_sound(&store);
    }
}

/// Q064
#[test]
fn ack_through_another_tube_is_refused() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        assert_eq!(other.session(), case.tube.session());
        assert_eq!(case.take(), Some(0));
        assert_not_taken(other.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// Q065, B033, T008
/// Difference: the error of the second ack is `NotTaken`, as for a task that was never taken.
#[test]
fn second_ack_is_refused_and_counts_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let log = case.event_log();
        let claims = case.tube.take_many(2, ZERO).unwrap();
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        let [by_claim, open] = <[_; 2]>::try_from(claims).unwrap();
        assert_eq!((by_claim.id(), open.id()), (0, 1));
        assert_not_taken(by_claim.ack(), 0);
        open.ack().unwrap();
        assert_not_taken(case.tube.claimed(1).and_then(tubewell::Claim::ack), 1);
        assert_eq!(case.tasks(), counts([("done", 2)]));
        assert_eq!(case.calls().get("ack"), Some(&2));
        let acked = |id| (id, tubewell::EventKind::Ack, TaskState::Done);
        assert!(log.read().ends_with(&[acked(0), acked(1)]));
        for state in [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried] {
            assert_eq!(case.tube.query().list(state, None, 10).unwrap().items, []);
        }
    });
}

/// T040
/// Difference: a task without a claim is ready, delayed or buried; this case is about ready ones.
#[test]
fn ready_taken_and_done_have_three_transitions() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        // From ready: neither to ready nor to done.
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));

        // From taken: to ready, and not to taken.
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(case.state(0), Some(TaskState::Ready));

        // From taken: to done.
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );

        // From done: nowhere.
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::release), 0);
        assert_eq!(case.tube.kick(0), Err(Error::NotFound { id: 0 }));
        assert_eq!(case.take(), None);
        assert_eq!(case.calls(), counts([("put", 1), ("take", 2), ("release", 1), ("ack", 1)]));
    });
}
