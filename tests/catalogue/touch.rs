//! Group E: touch and renew.

use std::time::Duration;

use tubewell::{Error, TaskState};

use super::support::*;

/// E21, E22
#[test]
fn touch_extends_claim_ttl_and_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.claimed(0).and_then(|claim| claim.touch(secs(3))).unwrap().unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Taken));
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(secs(13)), Some(secs(5))));
        case.tube.claimed(0).and_then(|claim| claim.touch(ms(500))).unwrap().unwrap();
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(ms(13_500)), Some(ms(5_500))));

        case.advance(5_499);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));

        // The next take starts with the extended ttr.
        assert_eq!(case.take(), Some(0));
        case.advance(5_499);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(2_499);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E23
#[test]
fn touched_task_can_be_acked_after_original_deadline() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)).ttr(ms(100)));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.touch(ms(300)).unwrap().unwrap().state, TaskState::Taken);
        case.advance(300);
        assert_eq!(claim.ack().unwrap().state, TaskState::Done);
        assert_eq!(case.state(0), None);
    });
}

/// E24
#[test]
fn touch_extends_ttl_shorter_than_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)).ttr(secs(10)));
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.touch(secs(1))).unwrap().unwrap();
        case.advance(500);
        assert_eq!(case.info(0).state, TaskState::Taken);
        assert_eq!(case.info(0).ttl_left, Some(ms(800)));
        case.advance(800);
        assert_eq!(case.state(0), None);
    });
}

/// E25. Difference: a task that the session has not taken has no claim to touch.
#[test]
fn touch_by_zero_does_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        assert!(case.tube.claimed(0).unwrap().touch(ZERO).unwrap().is_none());
        for id in [1, 99] {
            assert_eq!(case.tube.claimed(id).unwrap_err(), Error::NotTaken { id });
        }
        assert_eq!(log.read(), []);
        assert_eq!(case.calls(), counts([("put", 2), ("take", 1)]));
        assert_eq!(case.state(0), Some(TaskState::Taken));
    });
}

/// E27, Q12, Q13
/// Difference: any duration is accepted, and one that overflows means no limit.
#[test]
fn touch_accepts_any_duration() {
    for by in [ms(3_153_600), HUNDRED_YEARS, HUNDRED_YEARS * 2, Duration::MAX] {
        for_each_driver(TIMED, |case| {
            case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
            assert_eq!(case.take(), Some(0));
            case.tube.claimed(0).and_then(|claim| claim.touch(by)).unwrap().unwrap();
            case.clock.advance(by.min(HUNDRED_YEARS));
            case.advance(1_999);
            assert_eq!(case.state(0), Some(TaskState::Taken));
            assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("touch", 1)]));
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        });
    }
}

/// E28, E29
#[test]
fn touch_and_renew_are_rejected_by_untimed_driver() {
    for_each_driver(UNTIMED, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_unsupported(claim.touch(secs(1)), case.driver);
        assert_unsupported(claim.renew(secs(1)), case.driver);
        assert_unsupported(
            case.tube.claimed(0).and_then(|claim| claim.touch(secs(1))),
            case.driver,
        );
        assert_unsupported(
            case.tube.claimed(0).and_then(|claim| claim.renew(secs(1))),
            case.driver,
        );
        claim.ack().unwrap();
        assert_eq!(case.calls().get("touch"), None);
    });
}

/// E21
/// Difference: `renew` sets the deadline of the claim to now plus the given time, and nothing else.
#[test]
fn renew_restarts_claim_and_keeps_ttl_and_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(1_000);
        claim.renew(secs(3)).unwrap();
        case.advance(2_999);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(ms(6_001)), Some(secs(2))));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_not_taken(claim.ack(), 0);

        // `renew` can shorten a claim, and a claim never outlasts the ttl.
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.renew(secs(1))).unwrap();
        case.advance(1_000);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.renew(secs(60))).unwrap();
        case.advance(5_000);
        assert_eq!(case.state(0), None);
        assert_eq!(case.calls().get("touch"), None);
    });
}
