//! Budgets: how many attempts a task has, what uses them up, and what gives them back.

use tubewell::{
    Backoff, Claim, Error, EventKind, Failure, Filter, Outcome, Put, TaskState, Tube, TubeOptions,
};

use tubewell::driver::FIFO;

use super::files::{attempts, group_of_buried, groups};
use super::rng::Rng;
use super::support::*;

/// Q004
/// Difference: a budget counts attempts, the first one included: two retries are three attempts.
#[test]
fn put_sets_the_attempts_of_its_task() {
    for_each_driver(ALL, |case| {
        let limited = case.add(case.draft("limited").max_attempts(3));
        let plain = case.put("plain");
        assert_eq!(attempts(&case.tube, limited), (0, Some(3)));
        assert_eq!(attempts(&case.tube, plain), (0, None));
        let claim = case.tube.claim(limited).unwrap();
        assert_eq!((claim.attempt(), claim.attempts_left()), (1, Some(2)));
        assert_eq!(attempts(&case.tube, limited), (1, Some(2)));
        let claim = case.tube.claim(plain).unwrap();
        assert_eq!((claim.attempt(), claim.attempts_left()), (1, None));
    });
}

#[test]
fn put_overrides_the_attempts_of_its_tube() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(3), |case| {
        let ids = [case.put("3"), case.add(case.draft("1").max_attempts(1))];
        assert_eq!(ids.map(|id| attempts(&case.tube, id).1), [Some(3), Some(1)]);
        drop(case.tube.take_many(2, ZERO).unwrap());
        assert_eq!(ids.map(|id| case.state(id)), [Some(TaskState::Ready), Some(TaskState::Buried)]);
    });
}

/// Q117
#[test]
fn last_attempt_that_expires_buries_the_task() {
    for_each_driver_with(TIMED, TubeOptions::new().ttr(secs(60)).max_attempts(1), |case| {
        let log = case.event_log();
        let id = case.put("x");
        assert_eq!(case.take(), Some(id));
        case.advance(60_000);
        assert_eq!(case.take(), None);
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("expired"));
        assert_eq!(groups(&case.tube), [("expired".into(), 1)]);
        let kinds = log.read().into_iter().map(|(_, kind, state)| (kind, state));
        assert!(kinds.eq([
            (EventKind::Put, TaskState::Ready),
            (EventKind::Take, TaskState::Taken),
            (EventKind::Ttr, TaskState::Buried),
        ]));
    });
}

/// Q131
#[test]
fn expired_claim_uses_an_attempt_and_the_next_taker_gets_the_task() {
    for_each_driver_with(TIMED, TubeOptions::new().ttr(secs(60)).max_attempts(6), |case| {
        let log = case.event_log();
        let (first, second) = (case.tube_in_new_session(), case.tube_in_new_session());
        let id = case.put("x");
        case.advance(1000);
        let old = first.try_take().unwrap().unwrap();
        case.advance(1000);
        assert_eq!(take(&second), None);
        case.advance(69_000);
        let claim = second.try_take().unwrap().unwrap();
        assert_eq!((claim.attempts_left(), claim.expires_in().unwrap()), (Some(4), Some(secs(60))));
        assert_not_taken(old.renew(secs(60)), id);
        let expected = [
            (id, EventKind::Put, TaskState::Ready),
            (id, EventKind::Take, TaskState::Taken),
            (id, EventKind::Ttr, TaskState::Ready),
            (id, EventKind::Take, TaskState::Taken),
        ];
        assert_eq!(log.read(), expected);
        claim.ack().unwrap();
    });
}

/// Q150
#[test]
fn claims_that_are_over_at_once_use_attempts() {
    for_each_driver_with(TIMED, TubeOptions::new().ttr(ZERO).max_attempts(6), |case| {
        let id = case.put("x");
        let (first, second) = (case.tube_in_new_session(), case.tube_in_new_session());
        assert_eq!(first.try_take().unwrap().unwrap().attempts_left(), Some(5));
        assert_eq!(second.try_take().unwrap().unwrap().attempts_left(), Some(4));
        assert_eq!(attempts(&case.tube, id), (2, Some(4)));
    });
}

/// Q151
/// Difference: a buried task is kicked, and not put again.
#[test]
fn kick_gives_a_spent_task_its_whole_budget_again() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let id = case.put("x");
        for round in 1..=3 {
            drop(case.tube.try_take().unwrap().unwrap());
            assert_eq!((case.state(id), case.take()), (Some(TaskState::Buried), None));
            assert_eq!(case.tube.kick(id).unwrap().state, TaskState::Ready);
            assert_eq!(attempts(&case.tube, id), (0, Some(1)));
            assert_eq!(case.info(id).takes, round);
        }
    });
}

/// Q152
/// Difference: a task that is done has ended, and the next one is a put of its own.
#[test]
fn next_task_has_its_whole_budget() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(6), |case| {
        case.put("first");
        drop(case.tube.try_take().unwrap().unwrap());
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.attempts_left(), Some(4));
        claim.ack().unwrap();
        let next = case.put("next");
        assert_eq!(attempts(&case.tube, next), (0, Some(6)));
    });
}

/// Q153
#[test]
fn bury_and_kick_forgive_the_attempts_of_a_task() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(6), |case| {
        let id = case.put("x");
        drop(case.tube.try_take().unwrap().unwrap());
        assert_eq!(attempts(&case.tube, id), (1, Some(5)));
        case.tube.admin().bury(id, None).unwrap();
        assert_eq!(attempts(&case.tube, id), (1, Some(5)));
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(attempts(&case.tube, id), (0, Some(6)));
    });
}

/// Ends a claim in one of the ways that use up an attempt.
fn end_attempt(case: &Case, claim: Claim, rng: &mut Rng) {
    match rng.below(5) {
        0 => drop(claim),
        1 => drop(claim.release().unwrap()),
        2 => drop(claim.fail(Failure::new("group", "message")).unwrap()),
        3 if case.timed() => {
            let id = claim.id();
            claim.renew(secs(1)).unwrap();
            case.advance(1000);
            assert_not_taken(claim.ack(), id);
        }
        _ => {
            // A claim of another session, which ends.
            claim.end(Outcome::snooze(ZERO)).unwrap();
            let session = case.store.session("").unwrap();
            assert!(take(&session.tube(&case.tube).unwrap()).is_some());
            session.end().unwrap();
        }
    }
}

/// Q166 Q167
/// Difference: a budget of zero attempts is refused.
#[test]
fn task_is_attempted_as_often_as_its_budget_says() {
    let mut rng = Rng::new(166);
    for limit in 1..=6 {
        for backoff in [Backoff::none(), Backoff::exponential(ms(10))] {
            let timed = backoff != Backoff::none();
            let drivers = if timed { TIMED } else { ALL };
            let options = TubeOptions::new().max_attempts(limit).backoff(backoff);
            let rng = std::cell::RefCell::new(&mut rng);
            for_each_driver_with(drivers, options, |case| {
                let id = case.put("x");
                for attempt in 1..=limit {
                    let claim = case.tube.try_take().unwrap().unwrap();
                    assert_eq!(
                        (claim.attempt(), claim.attempts_left()),
                        (attempt, Some(limit - attempt))
                    );
                    end_attempt(case, claim, &mut rng.borrow_mut());
                    case.advance(1000);
                }
                assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Buried)));
                assert_eq!(attempts(&case.tube, id), (limit, Some(0)));
            });
        }
    }
    let store = store_in_memory();
    let refused = store.create_tube("zero", TubeOptions::new().max_attempts(0).driver(FIFO));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let tube: Tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let refused = tube.put(Put::new("x").max_attempts(0));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(tasks(&tube), counts([]));
    assert_sound(&store);
}

#[test]
fn snooze_and_revoke_use_no_attempt() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let id = case.put("x");
        for _ in 0..5 {
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!((claim.attempt(), claim.attempts_left()), (1, Some(0)));
            assert_eq!(claim.end(Outcome::snooze(ZERO)).unwrap().state, TaskState::Ready);
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(case.tube.admin().revoke(id), Ok(1));
            assert_eq!(case.state(id), Some(TaskState::Ready));
            assert_not_taken(claim.fail(Failure::new("late", "")), id);
        }
        assert_eq!((attempts(&case.tube, id), case.info(id).takes), ((0, Some(1)), 10));
        assert_eq!(case.info(id).failure, None);
        drop(case.tube.try_take().unwrap());
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
}

#[test]
fn backoff_follows_failure_expiry_and_end_of_session_but_not_release() {
    let options = TubeOptions::new().ttr(secs(60)).backoff(Backoff::constant(secs(10)));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        let delayed = |case: &Case| {
            assert_eq!((case.state(id), case.take()), (Some(TaskState::Delayed), None));
            assert_eq!(case.info(id).due_in, Some(secs(10)));
            case.advance(10_000);
            assert_eq!(case.state(id), Some(TaskState::Ready));
        };
        drop(case.tube.try_take().unwrap().unwrap());
        case.tube.try_take().unwrap().unwrap().release().unwrap();
        case.tube.try_take().unwrap().unwrap().end(Outcome::snooze(ZERO)).unwrap();
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        assert_eq!((case.state(id), claim.is_current().unwrap()), (Some(TaskState::Ready), false));
        case.tube.try_take().unwrap().unwrap().fail(Failure::new("g", "m")).unwrap();
        delayed(case);
        assert_eq!(case.take(), Some(id));
        case.advance(60_000);
        delayed(case);
        let session = case.store.session("").unwrap();
        assert_eq!(take(&session.tube(&case.tube).unwrap()), Some(id));
        session.end().unwrap();
        delayed(case);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.end(Outcome::fail_in(secs(3), Failure::new("g", "m"))).unwrap();
        assert_eq!(case.info(id).due_in, Some(secs(3)));
    });
}

/// The claim is over at once, and the chosen take ends it before the sweeper does.
#[test]
fn chosen_take_does_not_get_a_task_whose_expired_claim_was_its_last_attempt() {
    for_each_driver_with(TIMED, TubeOptions::new().ttr(ZERO).max_attempts(1), |case| {
        let id = case.put("x");
        let claim = case.tube.claim(id).unwrap();
        let refused = case.tube.claim(id).unwrap_err();
        assert!(matches!(refused, Error::NotReady { state: TaskState::Buried, .. }), "{refused:?}");
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("expired"));
        drop(claim);
    });
    let options = TubeOptions::new().ttr(ZERO).backoff(Backoff::constant(secs(1)));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        let claim = case.tube.claim(id).unwrap();
        let refused = case.tube.claim(id).unwrap_err();
        assert!(
            matches!(refused, Error::NotReady { state: TaskState::Delayed, .. }),
            "{refused:?}"
        );
        case.advance(1000);
        assert!(case.tube.claim(id).is_ok() && !claim.is_current().unwrap());
    });
}

/// Three snoozes that are refused are no three attempts.
#[test]
fn refused_snooze_forgives_the_attempt() {
    for_each_driver_with(UNTIMED, TubeOptions::new().max_attempts(2), |case| {
        let id = case.put("x");
        for _ in 0..3 {
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_unsupported(claim.end(Outcome::snooze(secs(60))), case.driver);
            let info = case.info(id);
            assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(2)));
        }
    });
}
