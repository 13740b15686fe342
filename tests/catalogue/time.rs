//! Group E: ttl, ttr and delay.

use std::time::Duration;

use tubewell::{State, TubeOptions};

use crate::support::*;

/// E01
#[test]
fn a_task_is_gone_when_its_ttl_is_over_and_not_before() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)));
        case.advance(199);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// E02
#[test]
fn a_task_whose_ttl_is_over_is_never_handed_out() {
    each(TIMED, |case| {
        for _ in 0..20 {
            case.add(case.draft("x").ttl(ms(100)));
            case.advance(100);
            let waiting = Waiting::begin(case.tube.take_async(ms(100)));
            case.advance(100);
            assert_eq!(waiting.id(), None);
        }
    });
}

/// E03, E04
/// Here: a ttl below zero cannot be given.
#[test]
fn a_task_with_a_ttl_of_nothing_is_accepted_and_gone() {
    each(TIMED, |case| {
        assert_eq!(case.tube.put(case.draft("x").ttl(ZERO)).unwrap().state, State::Ready);
        assert_eq!(case.take(), None);
        case.advance(0);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// E05, E06
#[test]
fn a_task_held_for_longer_than_its_ttr_is_ready_again() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(99);
        assert_eq!(case.state(0), Some(State::Taken));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
        assert_eq!(case.state(0), None);
    });
}

/// E05
#[test]
fn an_ack_just_before_the_deadline_holds() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(99);
        case.tube.ack(0).unwrap();
        case.advance(1000);
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("ack", 1)]));
    });
}

/// E07
#[test]
fn a_task_with_a_ttr_of_nothing_is_taken_and_given_back() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ZERO));
        assert_eq!(case.take(), Some(0));
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
    });
}

/// E08, E36
/// Here: in utubettl too, a ttl ends a task that is taken.
#[test]
fn a_ttl_runs_while_the_task_is_taken() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)));
        assert_eq!(case.take(), Some(0));
        case.advance(299);
        assert_eq!(case.state(0), Some(State::Taken));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.ack(0), 0);
    });
}

/// E09
#[test]
fn a_hold_ends_with_the_life_of_its_task() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(300)).ttr(secs(10)));
        assert_eq!(case.take(), Some(0));
        case.advance(300);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.ack(0), 0);
        assert_eq!(case.take(), None);
    });
}

/// E10
#[test]
fn delay_ttr_and_ttl_follow_each_other() {
    each(TIMED, |case| {
        case.add(case.draft("x").delay(ms(100)).ttl(ms(100)).ttr(ms(10)));
        let too_early = Waiting::begin(case.tube.take_async(ms(10)));
        case.advance(10);
        assert_eq!(too_early.id(), None);
        let first = Waiting::begin(case.tube.take_async(ms(150)));
        case.advance(90);
        assert_eq!(first.id(), Some(0));
        let second = Waiting::begin(case.tube.take_async(ms(50)));
        case.advance(10);
        assert_eq!(second.id(), Some(0));
        case.advance(89);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_not_taken(case.tube.ack(0), 0);
        let calls =
            counts([("put", 1), ("take", 2), ("delay", 1), ("ttr", 2), ("ttl", 1), ("delete", 1)]);
        assert_eq!(case.calls(), calls);
    });
}

/// E11
#[test]
fn a_delayed_task_is_taken_when_its_delay_is_over() {
    each(TIMED, |case| {
        assert_eq!(case.tube.put(case.draft("x").delay(ms(150))).unwrap().state, State::Delayed);
        assert_eq!(case.take(), None);
        let mut waiting = Waiting::begin(case.tube.take_async(secs(1)));
        case.advance(149);
        assert!(waiting.waits());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// E12
#[test]
fn a_delay_is_added_to_the_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").delay(ms(150)).ttl(ms(200)));
        assert_eq!(case.info(0).ttl_left, Some(ms(350)));
        case.advance(349);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E13
#[test]
fn a_delay_of_nothing_is_none() {
    each(TIMED, |case| {
        assert_eq!(case.tube.put(case.draft("x").delay(ZERO)).unwrap().state, State::Ready);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1)]));
    });
}

/// E14
#[test]
fn a_very_long_delay_stays() {
    each(TIMED, |case| {
        case.add(case.draft("long").delay(secs(10_000_000_000)));
        case.add(case.draft("longest").delay(Duration::MAX));
        case.clock.advance(HUNDRED_YEARS);
        assert_eq!(case.state(0), Some(State::Delayed));
        assert_eq!(case.state(1), Some(State::Delayed));
        assert_eq!(case.take(), None);
    });
}

/// E15
#[test]
fn a_release_with_a_delay_adds_it_to_the_ttl_and_keeps_the_ttr() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(10)).ttr(secs(20)));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.tube.release(0, secs(5)).unwrap().state, State::Delayed);
        let info = case.info(0);
        assert_eq!(info.state, State::Delayed);
        assert_eq!((info.ttl_left, info.ttr), (Some(secs(15)), Some(secs(20))));
        assert_eq!(info.due_in, Some(secs(5)));
    });
}

/// E16
#[test]
fn a_task_released_with_a_delay_sleeps_before_it_is_ready() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.tube.release(0, ms(300)).unwrap().state, State::Delayed);
        assert_eq!(case.take(), None);
        case.advance(299);
        assert_eq!(case.state(0), Some(State::Delayed));
        case.advance(101);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
    });
}

/// E17
#[test]
fn a_delay_at_release_outlasts_what_was_left_of_the_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(200)));
        assert_eq!(case.take(), Some(0));
        case.tube.release(0, ms(500)).unwrap();
        case.advance(499);
        assert_eq!(case.state(0), Some(State::Delayed));
        case.advance(1);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(199);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E18
#[test]
fn a_buried_task_is_past_its_ttr_but_not_past_its_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)).ttr(ms(200)));
        assert_eq!(case.take(), Some(0));
        case.tube.bury(0).unwrap();
        case.advance(999);
        assert_eq!(case.state(0), Some(State::Buried));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.calls().get("ttr"), None);
    });
}

/// E19
#[test]
fn a_kick_does_not_renew_the_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(400)));
        case.tube.bury(0).unwrap();
        case.advance(200);
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        case.advance(199);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
    });
}

/// E20
#[test]
fn a_delayed_task_that_is_buried_and_kicked_keeps_its_longer_life() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(secs(1)).delay(ms(300)));
        case.tube.bury(0).unwrap();
        case.advance(400);
        assert_eq!(case.info(0).state, State::Buried);
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
        case.tube.kick(1).unwrap();
        assert_eq!(case.info(0).state, State::Ready);
        assert_eq!(case.info(0).ttl_left, Some(ms(900)));
        assert_eq!(case.take(), Some(0));
        case.advance(900);
        assert_eq!(case.state(0), None);
    });
}

/// E30
#[test]
fn a_tube_gives_its_tasks_what_the_put_leaves_out() {
    let options = TubeOptions::default().ttl(secs(20)).ttr(secs(3)).pri(7);
    each_with(TIMED, options, |case| {
        let plain = case.put("a");
        let urgent = case.add(case.draft("b").pri(0));
        let short = case.add(case.draft("c").ttl(secs(5)));
        let info = |id| {
            let info = case.info(id);
            (info.pri, info.ttl_left, info.ttr)
        };
        assert_eq!(info(plain), (7, Some(secs(20)), Some(secs(3))));
        assert_eq!(info(urgent), (0, Some(secs(20)), Some(secs(3))));
        assert_eq!(info(short), (7, Some(secs(5)), Some(secs(3))));
        assert_eq!(case.take_all(), [urgent, plain, short]);
        case.advance(2_999);
        assert_eq!(case.state(plain), Some(State::Taken));
        case.advance(1);
        assert_eq!(case.state(plain), Some(State::Ready));
    });
}

/// E31
#[test]
fn the_ttl_of_a_tube_is_its_ttr_unless_it_has_one() {
    each_with(TIMED, TubeOptions::default().ttl(ms(200)), |case| {
        case.put_all([0]);
        assert_eq!(case.info(0).ttr, Some(ms(200)));
        let long = case.add(case.draft("long").ttl(secs(10)));
        assert_eq!(case.info(long).ttr, Some(ms(200)));
        assert_eq!(case.take_all(), [0, long]);
        case.advance(200);
        assert_eq!(case.state(0), None);
        assert_eq!(case.state(long), Some(State::Ready));
    });
}

/// E32
/// Here: without a ttl a task lives for ever, not a hundred years.
#[test]
fn a_tube_without_a_ttl_keeps_its_tasks_for_ever() {
    each_with(TIMED, TubeOptions::default().ttr(secs(3)), |case| {
        case.put_all([0]);
        assert_eq!(case.info(0).ttl_left, None);
        assert_eq!(case.info(0).ttr, Some(secs(3)));
        case.clock.advance(HUNDRED_YEARS * 2);
        assert_eq!(case.take(), Some(0));
    });
}

/// E32
#[test]
fn the_longest_time_is_for_ever() {
    each_with(TIMED, TubeOptions::default().ttl(secs(5)).ttr(secs(5)), |case| {
        case.add(case.draft("x").ttl(Duration::MAX).ttr(Duration::MAX));
        assert_eq!(case.info(0).ttl_left, None);
        assert_eq!(case.info(0).ttr, None);
        assert_eq!(case.take(), Some(0));
        case.clock.advance(HUNDRED_YEARS * 2);
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.ack(0).unwrap();
    });
}

/// E15
#[test]
fn a_claim_finishes_its_task_with_a_delay() {
    each(TIMED, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release(ms(300)).unwrap().state, State::Delayed);
        assert_eq!(case.take(), None);
        case.advance(300);
        assert_eq!(case.take(), Some(0));
    });
}

/// Q09, Q10
#[test]
fn a_plain_release_keeps_the_end_of_the_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(500)).ttr(secs(5)));
        assert_eq!(case.take(), Some(0));
        case.advance(100);
        case.tube.release(0, ZERO).unwrap();
        assert_eq!(case.info(0).ttl_left, Some(ms(400)));
        case.advance(399);
        assert_eq!(case.state(0), Some(State::Ready));
        case.advance(1);
        assert_eq!(case.state(0), None);
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}
