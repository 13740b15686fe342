//! Group E: touch, and renew beside it.

use std::time::Duration;

use tubewell::State;

use crate::support::*;

/// E21, E22
#[test]
fn a_touch_prolongs_the_hold_the_ttl_and_the_ttr() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
        assert_eq!(case.take(), Some(0));
        let receipt = case.tube.touch(0, secs(3)).unwrap().unwrap();
        assert_eq!((receipt.id, receipt.state), (0, State::Taken));
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(secs(13)), Some(secs(5))));
        case.tube.touch(0, ms(500)).unwrap().unwrap();
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(ms(13_500)), Some(ms(5_500))));

        case.advance(5_499);
        assert_eq!(case.state(0), Some(State::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));

        // The next take has the longer ttr from the beginning.
        assert_eq!(case.take(), Some(0));
        case.advance(5_499);
        assert_eq!(case.state(0), Some(State::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(2_499);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E23
#[test]
fn a_touched_task_can_be_acked_after_its_first_deadline() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)).ttr(ms(100)));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.touch(ms(300)).unwrap().unwrap().state, State::Taken);
        case.advance(300);
        assert_eq!(claim.ack().unwrap().state, State::Done);
        assert_eq!(case.state(0), None);
    });
}

/// E24
#[test]
fn a_touch_prolongs_a_life_that_is_shorter_than_the_hold() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)).ttr(secs(10)));
        assert_eq!(case.take(), Some(0));
        case.tube.touch(0, secs(1)).unwrap().unwrap();
        case.advance(500);
        assert_eq!(case.info(0).state, State::Taken);
        assert_eq!(case.info(0).ttl_left, Some(ms(800)));
        case.advance(800);
        assert_eq!(case.state(0), None);
    });
}

/// E25
#[test]
fn a_touch_by_nothing_does_nothing() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        for id in [0, 1, 99] {
            assert!(case.tube.touch(id, ZERO).unwrap().is_none());
        }
        assert_eq!(record.read(), []);
        assert_eq!(case.calls(), counts([("put", 2), ("take", 1)]));
        assert_eq!(case.state(0), Some(State::Taken));
    });
}

/// E27, Q12, Q13
/// Here: any length is accepted, and one that is too long to count means without end.
#[test]
fn a_touch_by_any_length_prolongs() {
    for by in [ms(3_153_600), HUNDRED_YEARS, HUNDRED_YEARS * 2, Duration::MAX] {
        each(TIMED, |case| {
            case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
            assert_eq!(case.take(), Some(0));
            case.tube.touch(0, by).unwrap().unwrap();
            case.clock.advance(by.min(HUNDRED_YEARS));
            case.advance(1_999);
            assert_eq!(case.state(0), Some(State::Taken));
            assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("touch", 1)]));
            case.tube.ack(0).unwrap();
        });
    }
}

/// E28, E29
#[test]
fn a_driver_without_times_refuses_touch_and_renew() {
    each(UNTIMED, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_unsupported(claim.touch(secs(1)), case.driver);
        assert_unsupported(claim.renew(secs(1)), case.driver);
        assert_unsupported(case.tube.touch(0, secs(1)), case.driver);
        assert_unsupported(case.tube.renew(0, secs(1)), case.driver);
        claim.ack().unwrap();
        assert_eq!(case.calls().get("touch"), None);
    });
}

/// E21
/// Here: `renew` sets the hold anew from now on, and nothing else.
#[test]
fn a_renewed_claim_is_held_from_now_on() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(2)));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(1_000);
        claim.renew(secs(3)).unwrap();
        case.advance(2_999);
        assert_eq!(case.state(0), Some(State::Taken));
        let info = case.info(0);
        assert_eq!((info.ttl_left, info.ttr), (Some(ms(6_001)), Some(secs(2))));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_not_taken(claim.ack(), 0);

        // It shortens a hold as well, and does not outlive the task.
        assert_eq!(case.take(), Some(0));
        case.tube.renew(0, secs(1)).unwrap();
        case.advance(1_000);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
        case.tube.renew(0, secs(60)).unwrap();
        case.advance(5_000);
        assert_eq!(case.state(0), None);
        assert_eq!(case.calls().get("touch"), None);
    });
}
