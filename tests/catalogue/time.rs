//! Group E: ttl, ttr and delay.

use std::time::Duration;

use tubewell::{Filter, TaskState, TubeOptions};

use super::support::*;

/// E01
#[test]
fn task_is_removed_when_ttl_elapses() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)));
        case.advance(199);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// E02
#[test]
fn take_never_returns_expired_task() {
    for_each_driver(TIMED, |case| {
        for _ in 0..20 {
            case.add(case.draft("x").ttl(ms(100)));
            case.advance(100);
            let waiting = WaitingTake::begin(case.tube.to_async().take_timeout(ms(100)));
            case.advance(100);
            assert_eq!(waiting.id(), None);
        }
    });
}

/// E03, E04
/// Difference: the API has no negative ttl.
#[test]
fn put_with_zero_ttl_expires_immediately() {
    for_each_driver(TIMED, |case| {
        assert_eq!(case.tube.put(case.draft("x").ttl(ZERO)).unwrap().state, TaskState::Ready);
        assert_eq!(case.take(), None);
        case.advance(0);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// E05, E06
#[test]
fn task_is_ready_again_when_ttr_elapses() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(99);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.state(0), None);
    });
}

/// E05
#[test]
fn ack_just_before_ttr_elapses_succeeds() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(99);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.advance(1000);
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("ack", 1)]));
    });
}

/// E07
#[test]
fn claim_with_zero_ttr_expires_immediately() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ZERO));
        assert_eq!(case.take(), Some(0));
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
    });
}

/// E08, E36
/// Difference: the ttl also removes taken tasks of utubettl tubes.
#[test]
fn ttl_elapses_while_task_is_taken() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)));
        assert_eq!(case.take(), Some(0));
        case.advance(299);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
    });
}

/// E09
#[test]
fn claim_ends_when_ttl_elapses_before_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)).ttr(secs(10)));
        assert_eq!(case.take(), Some(0));
        case.advance(300);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.take(), None);
    });
}

/// E10
#[test]
fn delay_ttr_and_ttl_elapse_in_sequence() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").delay(ms(100)).ttl(ms(100)).ttr(ms(10)));
        let too_early = WaitingTake::begin(case.tube.to_async().take_timeout(ms(10)));
        case.advance(10);
        assert_eq!(too_early.id(), None);
        let first = WaitingTake::begin(case.tube.to_async().take_timeout(ms(150)));
        case.advance(90);
        assert_eq!(first.id(), Some(0));
        let second = WaitingTake::begin(case.tube.to_async().take_timeout(ms(50)));
        case.advance(10);
        assert_eq!(second.id(), Some(0));
        case.advance(89);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        let calls =
            counts([("put", 1), ("take", 2), ("delay", 1), ("ttr", 2), ("ttl", 1), ("delete", 1)]);
        assert_eq!(case.calls(), calls);
    });
}

/// E11
#[test]
fn delayed_task_is_taken_when_delay_elapses() {
    for_each_driver(TIMED, |case| {
        assert_eq!(
            case.tube.put(case.draft("x").delay(ms(150))).unwrap().state,
            TaskState::Delayed
        );
        assert_eq!(case.take(), None);
        let mut waiting = WaitingTake::begin(case.tube.to_async().take_timeout(secs(1)));
        case.advance(149);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// E12
#[test]
fn delay_extends_ttl() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").delay(ms(150)).ttl(ms(200)));
        assert_eq!(case.info(0).ttl_left, Some(ms(350)));
        case.advance(349);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E13
#[test]
fn put_with_zero_delay_is_ready() {
    for_each_driver(TIMED, |case| {
        assert_eq!(case.tube.put(case.draft("x").delay(ZERO)).unwrap().state, TaskState::Ready);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1)]));
    });
}

/// E14
#[test]
fn task_with_very_long_delay_stays_delayed() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("long").delay(secs(10_000_000_000)));
        case.add(case.draft("longest").delay(Duration::MAX));
        case.clock.advance(HUNDRED_YEARS);
        assert_eq!(case.state(0), Some(TaskState::Delayed));
        assert_eq!(case.state(1), Some(TaskState::Delayed));
        assert_eq!(case.take(), None);
    });
}

/// E15
#[test]
fn release_with_delay_extends_ttl_and_keeps_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(20)));
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(|claim| claim.release_in(secs(5))).unwrap().state,
            TaskState::Delayed
        );
        let info = case.info(0);
        assert_eq!(info.state, TaskState::Delayed);
        assert_eq!((info.ttl_left, info.ttr), (Some(secs(15)), Some(secs(20))));
        assert_eq!(info.due_in, Some(secs(5)));
    });
}

/// E16
#[test]
fn release_with_delay_makes_task_delayed_then_ready() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)));
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(|claim| claim.release_in(ms(300))).unwrap().state,
            TaskState::Delayed
        );
        assert_eq!(case.take(), None);
        case.advance(299);
        assert_eq!(case.state(0), Some(TaskState::Delayed));
        case.advance(101);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
    });
}

/// E17
#[test]
fn release_with_delay_longer_than_ttl_left_does_not_expire_task() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)));
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.release_in(ms(500))).unwrap();
        case.advance(499);
        assert_eq!(case.state(0), Some(TaskState::Delayed));
        case.advance(1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(199);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E18
#[test]
fn buried_task_expires_by_ttl_but_not_by_ttr() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)).ttr(ms(200)));
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(0, None).unwrap();
        case.advance(999);
        assert_eq!(case.state(0), Some(TaskState::Buried));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.calls().get("ttr"), None);
    });
}

/// E19
#[test]
fn kick_does_not_renew_ttl() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(400)));
        case.tube.admin().bury(0, None).unwrap();
        case.advance(200);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        case.advance(199);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E20
#[test]
fn buried_delayed_task_keeps_extended_ttl_after_kick() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)).delay(ms(300)));
        case.tube.admin().bury(0, None).unwrap();
        case.advance(400);
        assert_eq!(case.info(0).state, TaskState::Buried);
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        assert_eq!(case.info(0).state, TaskState::Ready);
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
        assert_eq!(case.take(), Some(0));
        case.advance(900);
        assert_eq!(case.state(0), None);
    });
}

/// E30
#[test]
fn missing_put_options_default_to_tube_options() {
    let options = TubeOptions::default().ttl(secs(20)).ttr(secs(3)).priority(7);
    for_each_driver_with(TIMED, options, |case| {
        let plain = case.put("a");
        let urgent = case.add(case.draft("b").priority(0));
        let short = case.add(case.draft("c").ttl(secs(5)));
        let info = |id| {
            let info = case.info(id);
            (info.priority, info.ttl_left, info.ttr)
        };
        assert_eq!(info(plain), (7, Some(secs(20)), Some(secs(3))));
        assert_eq!(info(urgent), (0, Some(secs(20)), Some(secs(3))));
        assert_eq!(info(short), (7, Some(secs(5)), Some(secs(3))));
        assert_eq!(case.take_all(), [urgent, plain, short]);
        case.advance(2_999);
        assert_eq!(case.state(plain), Some(TaskState::Taken));
        case.advance(1);
        assert_eq!(case.state(plain), Some(TaskState::Ready));
    });
}

/// E31
#[test]
fn tube_ttr_defaults_to_tube_ttl() {
    for_each_driver_with(TIMED, TubeOptions::default().ttl(ms(200)), |case| {
        case.put_all([0]);
        assert_eq!(case.info(0).ttr, Some(ms(200)));
        let long = case.add(case.draft("long").ttl(secs(10)));
        assert_eq!(case.info(long).ttr, Some(ms(200)));
        assert_eq!(case.take_all(), [0, long]);
        case.advance(200);
        assert_eq!(case.state(0), None);
        assert_eq!(case.state(long), Some(TaskState::Ready));
    });
}

/// E32
/// Difference: a task without a ttl never expires, not even after a hundred years.
#[test]
fn task_without_ttl_never_expires() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(3)), |case| {
        case.put_all([0]);
        assert_eq!(case.info(0).ttl_left, None);
        assert_eq!(case.info(0).ttr, Some(secs(3)));
        case.clock.advance(HUNDRED_YEARS * 2);
        assert_eq!(case.take(), Some(0));
    });
}

/// E32
#[test]
fn duration_max_means_no_limit() {
    for_each_driver_with(TIMED, TubeOptions::default().ttl(secs(5)).ttr(secs(5)), |case| {
        case.add(case.draft("x").ttl(Duration::MAX).ttr(Duration::MAX));
        assert_eq!(case.info(0).ttl_left, None);
        assert_eq!(case.info(0).ttr, None);
        assert_eq!(case.take(), Some(0));
        case.clock.advance(HUNDRED_YEARS * 2);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// E15
#[test]
fn claim_release_with_delay_makes_task_delayed() {
    for_each_driver(TIMED, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release_in(ms(300)).unwrap().state, TaskState::Delayed);
        assert_eq!(case.take(), None);
        case.advance(300);
        assert_eq!(case.take(), Some(0));
    });
}

/// Q09, Q10
#[test]
fn release_without_delay_keeps_ttl_deadline() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(500)).ttr(secs(5)));
        assert_eq!(case.take(), Some(0));
        case.advance(100);
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.info(0).ttl_left, Some(ms(400)));
        case.advance(399);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}
