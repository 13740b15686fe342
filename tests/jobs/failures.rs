//! Failures: what is recorded of an attempt that has failed, and how long it is known.

use tubewell::driver::FIFO;
use tubewell::{Error, EventKind, Failure, Filter, TaskState, TubeOptions};

use super::files::{attempts, failure, group_of_buried, groups};
use super::support::*;

/// Q158
#[test]
fn failure_of_the_last_attempt_buries_the_task_in_its_group() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let log = case.event_log();
        let session = case.store.session("w").unwrap();
        let id = case.put("x");
        let claim = session.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        let receipt = claim.fail(Failure::new("group", "message")).unwrap();
        assert_eq!((receipt.id, receipt.state), (id, TaskState::Buried));
        assert_eq!(attempts(&case.tube, id), (1, Some(0)));
        let failure = case.info(id).failure.unwrap();
        assert_eq!((failure.group.as_str(), failure.message.as_str()), ("group", "message"));
        assert_eq!((failure.attempt, failure.ago), (1, ZERO));
        assert_eq!(failure.owner.as_deref(), Some("w"));
        assert_eq!(log.read().last(), Some(&(id, EventKind::Fail, TaskState::Buried)));
        assert_eq!(case.tube.statistics().unwrap().calls.fail, 1);
        assert_eq!(groups(&case.tube), [("group".into(), 1)]);
    });
}

/// Q159
#[test]
fn release_of_the_last_attempt_buries_the_task_with_a_cause() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release().unwrap().state, TaskState::Buried);
        let cause = "its worker released it in attempt 1, the last one";
        assert_eq!(failure(&case.tube, id), Some(("released".into(), cause.into(), 1)));
        assert_eq!(groups(&case.tube), [("released".into(), 1)]);
    });
}

/// Q160
/// Difference: a failure has the message that was given, also an empty one. A group is needed.
#[test]
fn failure_has_a_group_and_may_have_no_message() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let id = case.put("x");
        assert_eq!(case.take(), Some(id));
        let refused =
            case.tube.claimed(id).and_then(|claim| claim.fail(Failure::new("", "message")));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(case.state(id), Some(TaskState::Taken));
        case.tube.claimed(id).and_then(|claim| claim.fail(Failure::new("group", ""))).unwrap();
        assert_eq!(failure(&case.tube, id), Some(("group".into(), String::new(), 1)));
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
}

/// Q161
#[test]
fn failure_with_attempts_left_is_kept_and_the_task_is_ready() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(6), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.fail(Failure::new("group", "message")).unwrap().state, TaskState::Ready);
        assert_eq!(attempts(&case.tube, id), (1, Some(5)));
        assert_eq!(failure(&case.tube, id), Some(("group".into(), "message".into(), 1)));
        assert_eq!(groups(&case.tube), []);
        let listed = case.tube.query().list(TaskState::Ready, None, 10).unwrap().items;
        assert_eq!(listed[0].failure, case.info(id).failure);
        // It is known until the task ends.
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(failure(&case.tube, id).unwrap().0, "group");
        claim.ack().unwrap();
    });
}

/// Q162
/// Difference: the group says how the last attempt ended, and the message also has the failure that
/// was reported before.
#[test]
fn reported_failure_is_known_after_the_last_attempt_was_lost() {
    let options = TubeOptions::new().max_attempts(2).ttr(secs(60));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.fail(Failure::new("parser", "row 7 has no end")).unwrap();
        assert_eq!(case.take(), Some(id));
        case.advance(60_000);
        let message = "its ttr elapsed in attempt 2, the last one; attempt 1 failed with parser: \
                       row 7 has no end";
        assert_eq!(failure(&case.tube, id), Some(("expired".into(), message.into(), 2)));
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(2), |case| {
        for _ in 0..3 {
            let id = case.put("x");
            let claim = case.tube.claim(id).unwrap();
            claim.fail(Failure::new("parser", "é".repeat(5000))).unwrap();
            drop(case.tube.claim(id).unwrap());
            let (group, message, attempt) = failure(&case.tube, id).unwrap();
            assert_eq!((group.as_str(), attempt), ("released", 2));
            assert!(message.contains("parser: ééé") && message.len() <= 10_000);
            // The failures of attempts that were forgiven are not added again and again.
            case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            drop(case.tube.claim(id).unwrap());
            drop(case.tube.claim(id).unwrap());
            let cause = "its worker released it in attempt 2, the last one";
            assert_eq!(failure(&case.tube, id), Some(("released".into(), cause.into(), 2)));
            case.tube.delete(id).unwrap();
        }
    });
}

#[test]
fn last_reported_failure_replaces_the_one_before() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(3), |case| {
        let id = case.put("x");
        for (attempt, group) in [(1, "first"), (2, "second"), (3, "third")] {
            let claim = case.tube.try_take().unwrap().unwrap();
            claim.fail(Failure::new(group, group)).unwrap();
            assert_eq!(failure(&case.tube, id), Some((group.into(), group.into(), attempt)));
        }
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("third"));
    });
}

#[test]
fn bury_with_buries_in_its_group_whatever_attempts_are_left() {
    for options in [TubeOptions::new(), TubeOptions::new().max_attempts(9)] {
        for_each_driver_with(ALL, options, |case| {
            let id = case.put("x");
            let claim = case.tube.try_take().unwrap().unwrap();
            let receipt = claim.bury(Failure::new("format", "no header")).unwrap();
            assert_eq!((receipt.state, case.take()), (TaskState::Buried, None));
            assert_eq!(failure(&case.tube, id), Some(("format".into(), "no header".into(), 1)));
            case.tube.kick(id).unwrap();
            assert_eq!(failure(&case.tube, id).unwrap().0, "format");
            case.tube.claim(id).unwrap().ack().unwrap();
        });
    }
}

#[test]
fn failures_survive_a_reopen_in_all_states() {
    let file = StoreFile::new();
    let store = file.open();
    let options = TubeOptions::new().max_attempts(2);
    let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
    tube.put_many(["retried", "buried"]).unwrap();
    for id in [0, 1, 1] {
        tube.claim(id).unwrap().fail(Failure::new("group", format!("{id}"))).unwrap();
    }
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(failure(&tube, 0), Some(("group".into(), "0".into(), 1)));
    assert_eq!(failure(&tube, 1), Some(("group".into(), "1".into(), 2)));
    assert_eq!([0, 1].map(|id| attempts(&tube, id)), [(1, Some(1)), (2, Some(0))]);
    assert_sound(&store);
}

/// A ttr is named only if the task has one.
#[test]
fn expired_claim_names_the_time_that_elapsed() {
    let options = || TubeOptions::new().max_attempts(1);
    let message = |case: &Case| {
        let failure = case.info(0).failure.unwrap();
        assert_eq!((case.state(0), &*failure.group), (Some(TaskState::Buried), "expired"));
        failure.message.strip_suffix(" elapsed in attempt 1, the last one").unwrap().to_owned()
    };
    for (options, name) in [
        (options().ttr(secs(5)), "its ttr"),
        (options().max_runtime(secs(5)), "its max_runtime"),
        (options().max_runtime(secs(5)).ttr(secs(50)), "its max_runtime"),
        (options().max_runtime(secs(50)).ttr(secs(5)), "its ttr"),
    ] {
        for_each_driver_with(TIMED, options, |case| {
            case.put_all([0]);
            keep(case.tube.try_take().unwrap().unwrap());
            case.advance(5_000);
            assert_eq!(message(case), name);
        });
    }
    for_each_driver_with(TIMED, options(), |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.renew(secs(5)).unwrap();
        case.advance(5_000);
        assert_eq!(message(case), "the time of its claim");
    });
    for_each_driver_with(ALL, options(), |case| {
        case.put_all([0]);
        case.tube.try_take().unwrap().unwrap().park(secs(5)).unwrap();
        case.advance(5_000);
        assert_eq!(message(case), "the time of its parked claim");
    });
}
