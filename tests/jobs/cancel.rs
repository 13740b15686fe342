//! Deletes that depend on the state of the task: cancel, and deletes in chosen states.

use tubewell::{Error, Filter, Keep, Outcome, TaskState, TubeOptions};

use super::support::*;

/// The tasks 0 to 3, or 4 with times: ready, taken, buried, done and delayed.
fn with_each_state(check: impl Fn(&Case, &[(u64, TaskState)])) {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        case.put_all([0, 1, 2, 3]);
        case.tube.admin().bury(2, None).unwrap();
        case.tube.claim(3).unwrap().end(Outcome::result("result")).unwrap();
        assert_eq!(keep(case.tube.claim(1).unwrap()), 1);
        let mut states = vec![
            (0, TaskState::Ready),
            (1, TaskState::Taken),
            (2, TaskState::Buried),
            (3, TaskState::Done),
        ];
        if case.timed() {
            states.push((case.add(case.draft("x").delay(secs(10))), TaskState::Delayed));
        }
        check(case, &states);
    });
}

/// Q090, Q099
/// Difference: a task that is taken is not cancelled, and neither is one that is done and kept.
#[test]
fn cancel_deletes_tasks_that_have_not_begun() {
    with_each_state(|case, states| {
        for (id, state) in states {
            let cancelled = case.tube.cancel(*id);
            if [TaskState::Taken, TaskState::Done].contains(state) {
                let refused = cancelled.unwrap_err();
                assert!(
                    matches!(&refused, Error::NotReady { id: named, state: its, why }
                        if (named, its) == (id, state) && !why.is_empty()),
                    "{refused}"
                );
                let deferred = case.tube.to_async().cancel(*id).wait();
                assert_eq!(deferred.err(), Some(refused));
                assert_eq!(case.state(*id), Some(*state));
            } else {
                assert_eq!(cancelled.unwrap().state, TaskState::Done);
                assert_eq!(case.state(*id), None);
            }
        }
        assert_eq!(case.calls()["delete"], states.len() as u64 - 2);
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert!(case.tube.ending(3).unwrap().is_some());
    });
}

/// Q092
/// Difference: a task that does not exist cannot be cancelled: its caller learns that its work may
/// have been done.
#[test]
fn cancel_of_unknown_task_is_not_found() {
    for_each_driver(ALL, |case| {
        assert_not_found(case.tube.cancel(0), 0);
        case.put("x");
        case.tube.cancel(0).unwrap();
        assert_not_found(case.tube.cancel(0), 0);
        case.put("x");
        case.tube.claimed(case.take().unwrap()).and_then(tubewell::Claim::ack).unwrap();
        assert_not_found(case.tube.cancel(1), 1);
    });
}

/// The claim has ended by then, although nothing has swept it.
#[test]
fn cancel_of_task_whose_claim_has_expired_succeeds() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").ttr(ZERO));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.cancel(id).unwrap();
        assert_not_taken(claim.ack(), id);
        assert_eq!(case.state(id), None);
    });
}

/// B009, B010
/// Difference: the tube of a task is the one through which it is deleted.
#[test]
fn delete_by_id_and_state_deletes_only_in_this_state() {
    with_each_state(|case, states| {
        for (id, state) in states {
            let in_state = |state| case.tube.admin().delete(Filter::from(*id).state(state));
            for (_, other) in states.iter().filter(|(_, other)| other != state) {
                assert_eq!(in_state(*other), Ok(0));
            }
            assert_eq!(case.state(*id), Some(*state));
            assert_eq!(in_state(*state), Ok(1));
            assert_eq!(case.state(*id), None);
            assert_eq!(in_state(*state), Ok(0));
        }
        assert_not_taken(case.tube.claimed(1).and_then(tubewell::Claim::ack), 1);
    });
}
