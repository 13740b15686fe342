//! The reclaim delay: an expired claim whose holder may still end or renew it.

use tubewell::{Error, EventKind, Failure, Outcome, TaskState, TubeOptions};

use super::files::{attempts, claim_of, group_of_buried};
use super::support::*;

/// A ttr of 60 s and a reclaim delay of 10 s.
fn options() -> TubeOptions {
    TubeOptions::new().ttr(secs(60)).reclaim_delay(secs(10)).max_attempts(20)
}

fn overdue(case: &Case) -> u64 {
    case.tube.statistics().unwrap().tasks.overdue
}

/// Q137
/// Difference: an expired claim can be renewed and acked within the reclaim delay only. Without one
/// it has ended, whether the task was taken again or not.
#[test]
fn expired_claim_can_be_renewed_and_acked_within_the_reclaim_delay_only() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(69_999);
        claim.renew(secs(60)).unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(60)));
        case.advance(65_000);
        assert_eq!(claim.ack().unwrap().id, id);
        let id = case.put("y");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(70_000);
        assert_not_taken(claim.renew(secs(60)), id);
        assert_not_taken(claim.ack(), id);
    });
    for_each_driver_with(TIMED, TubeOptions::new().ttr(secs(60)), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(60_000);
        assert_not_taken(claim.renew(secs(60)), id);
        assert_not_taken(claim.ack(), id);
    });
}

/// Q138 Q139
#[test]
fn each_expired_claim_is_held_until_its_reclaim_delay_has_elapsed() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        for round in 1..=10 {
            let tube = case.tube_in_new_session();
            assert_eq!(take(&tube), Some(id));
            let mut waiting = case.begin_take();
            for millis in [59_999, 1, 9_999] {
                case.advance(millis);
                assert!(waiting.is_pending());
                assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Taken)));
            }
            case.advance(1);
            let claim = claim_of(waiting);
            assert_eq!(claim.attempts_left(), Some(20 - round - 1));
            claim.end(Outcome::snooze(ZERO)).unwrap();
            assert_eq!(attempts(&case.tube, id), (round, Some(20 - round)));
        }
    });
}

/// Q140
#[test]
fn failure_within_the_reclaim_delay_is_accepted() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(60_000);
        assert_eq!(take(&case.tube_in_new_session()), None);
        case.advance(5_000);
        claim.bury(Failure::new("group", "message")).unwrap();
        case.advance(5_000);
        assert_eq!(take(&case.tube_in_new_session()), None);
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("group"));
        assert_eq!(case.calls().get("ttr"), None);
    });
}

/// Q141
/// Difference: without a reclaim delay, an ack after the ttr is refused.
#[test]
fn ack_within_the_reclaim_delay_is_accepted() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(69_999);
        claim.ack().unwrap();
        assert_eq!(case.state(id), None);
        case.advance(1);
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("ack", 1)]));
    });
}

/// Q142
/// Difference: the loss is an event and a counter of its own; there is no state for it.
#[test]
fn overdue_task_counts_as_taken_and_its_loss_is_reported_once() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let log = case.event_log();
        let claim = case.tube.try_take().unwrap().unwrap();
        for millis in [60_000, 1, 5_000] {
            case.advance(millis);
            assert_eq!(case.tasks(), counts([("taken", 1), ("total", 1)]));
            assert_eq!((overdue(case), case.tube.statistics().unwrap().calls.lost), (1, 1));
            assert_eq!(attempts(&case.tube, id), (1, Some(19)));
        }
        case.advance(5_000);
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
        let taken = TaskState::Taken;
        let expected = [
            (id, EventKind::Take, taken),
            (id, EventKind::Lost, taken),
            (id, EventKind::Ttr, TaskState::Ready),
        ];
        assert_eq!(log.read(), expected);
        assert!(!claim.is_current().unwrap());
    });
}

/// Q143
#[test]
fn renewed_claim_has_the_whole_reclaim_delay_again() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        for lost in 1..=4 {
            case.advance(60_000);
            case.advance(9_999);
            assert_eq!(case.tube.statistics().unwrap().calls.lost, lost);
            assert_eq!(take(&case.tube_in_new_session()), None);
            claim.renew(secs(60)).unwrap();
        }
        case.advance(69_999);
        assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Taken)));
        case.advance(1);
        assert_eq!(case.take(), Some(id));
        assert_not_taken(claim.ack(), id);
    });
}

/// Q144
#[test]
fn overdue_task_is_shown_as_taken_as_long_as_no_take_gets_it() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        for (millis, state) in
            [(60_000, TaskState::Taken), (9_999, TaskState::Taken), (1, TaskState::Ready)]
        {
            case.advance(millis);
            assert_eq!(case.state(id), Some(state));
            assert_eq!(case.tube.query().list(state, None, 10).unwrap().items[0].id, id);
            assert_eq!(case.tube.query().owner(id).unwrap().is_some(), state == TaskState::Taken);
            let taken = case.tube.claim(id);
            assert_eq!(taken.is_ok(), state == TaskState::Ready, "{taken:?}");
        }
        assert_not_taken(claim.ack(), id);
    });
}

/// I11
#[test]
fn renew_within_the_reclaim_delay_keeps_the_claim_and_a_later_take_ends_it() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(65_000);
        assert!(claim.is_current().unwrap());
        claim.renew(secs(5)).unwrap();
        case.advance(14_999);
        assert!(claim.is_current().unwrap());
        case.advance(1);
        let second = case.tube.try_take().unwrap().unwrap();
        assert_eq!((second.id(), claim.is_current().unwrap()), (id, false));
        assert_not_taken(claim.renew(secs(60)), id);
        assert_not_taken(claim.fail(Failure::new("late", "")), id);
        assert_eq!(second.attempt(), 2);
        second.ack().unwrap();
    });
}

#[test]
fn overdue_claim_ends_at_once_with_its_handle_or_its_session() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(60_000);
        drop(claim);
        let session = case.store.session("").unwrap();
        assert_eq!(take(&session.tube(&case.tube).unwrap()), Some(id));
        case.advance(60_000);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        session.end().unwrap();
        assert_eq!(
            (case.state(id), attempts(&case.tube, id)),
            (Some(TaskState::Ready), (2, Some(18)))
        );
        case.advance(10_000);
        assert_eq!((case.state(id), case.tasks().get("taken")), (Some(TaskState::Ready), None));
    });
}

#[test]
fn overdue_task_blocks_its_sub_queue() {
    for_each_driver_with(&[tubewell::driver::UTUBETTL], options(), |case| {
        for data in ["first", "second"] {
            case.add(tubewell::Put::new(data).sub_queue("s"));
        }
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(65_000);
        assert_eq!(case.take(), None);
        claim.ack().unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

#[test]
fn overdue_claim_may_be_touched_checkpointed_snoozed_released_revoked_and_parked() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let overdue = || {
            let claim = case.tube.claim(id).unwrap();
            case.clock.advance(claim.expires_in().unwrap().unwrap() + secs(5));
            assert_eq!(claim.expires_in().unwrap(), Some(ZERO));
            claim
        };
        let mut claim = overdue();
        claim.touch(secs(10)).unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(5)));
        case.advance(5_000);
        claim.checkpoint("y").unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(70)));
        claim.release().unwrap();
        overdue().end(Outcome::snooze(secs(1))).unwrap();
        case.advance(1000);
        let claim = overdue();
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        drop(claim);
        let token = overdue().park(secs(100)).unwrap();
        case.advance(99_999);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        let claim = case.store.resume_claim(&token).unwrap();
        case.advance(10_000);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        assert_not_taken(claim.ack(), id);
        assert_eq!(attempts(&case.tube, id), (2, Some(18)));
    });
}

#[test]
fn last_attempt_is_buried_after_its_reclaim_delay() {
    let options = TubeOptions::new().ttr(secs(60)).reclaim_delay(secs(10)).max_attempts(1);
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        assert_eq!(case.take(), Some(id));
        case.advance(69_999);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("expired"));
    });
}

#[test]
fn reclaim_delay_and_backoff_need_a_timed_driver() {
    let store = store_in_memory();
    for driver in UNTIMED {
        let backoff = tubewell::Backoff::constant(secs(1));
        for options in
            [TubeOptions::new().reclaim_delay(secs(1)), TubeOptions::new().backoff(backoff)]
        {
            let refused = store.create_tube("case", options.driver(driver));
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
        }
    }
    assert_eq!(store.tubes().unwrap().len(), 0);
}

#[test]
fn overdue_tasks_are_counted_until_they_are_renewed_or_end() {
    for_each_driver_with(TIMED, options(), |case| {
        let claims: Vec<_> =
            (0..7).map(|id| case.tube.claim(case.put(&id.to_string())).unwrap()).collect();
        let [renewed, acked, failed, dropped, revoked, deleted, kept] = claims.try_into().unwrap();
        assert_eq!(overdue(case), 0);
        case.advance(60_000);
        assert_eq!(overdue(case), 7);
        renewed.renew(secs(60)).unwrap();
        assert_eq!(overdue(case), 6);
        acked.ack().unwrap();
        failed.fail(Failure::new("g", "m")).unwrap();
        drop(dropped);
        case.tube.admin().revoke(revoked.id()).unwrap();
        case.tube.admin().delete(deleted.id()).unwrap();
        assert_eq!((overdue(case), case.tube.statistics().unwrap().tasks.taken), (1, 2));
        case.advance(9_999);
        assert_eq!(overdue(case), 1);
        case.advance(1);
        assert_eq!((overdue(case), kept.is_current()), (0, Ok(false)));
        case.advance(50_000);
        assert_eq!(overdue(case), 1);
        case.tube.admin().truncate().unwrap();
        assert_eq!(overdue(case), 0);
    });
}

#[test]
fn parked_claim_is_not_overdue() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = case.put("x");
        let claim = case.tube.claim(id).unwrap();
        case.advance(60_000);
        assert_eq!(overdue(case), 1);
        let token = claim.park(secs(600)).unwrap();
        assert_eq!((overdue(case), case.info(id).reclaimed_in), (0, None));
        case.store.resume_claim(&token).unwrap().ack().unwrap();
    });
}
