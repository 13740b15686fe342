//! Paused tubes.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::{Error, Filter, Put, Session, Store, TaskState, TubeOptions};

use super::files::{after_a_kill, claim_of, create_with, draft};
use super::support::*;
use crate::options::only;
use crate::stores::{self, ManualClock};

/// Q052
#[test]
fn paused_tube_gives_no_task_until_it_is_unpaused() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        case.tube.admin().pause().unwrap();
        assert_eq!(case.tube.take_many(10, ZERO).unwrap().len(), 0);
        let info = case.tube.info().unwrap();
        assert_eq!((info.paused, info.resumes_in), (true, None));
        assert_eq!(case.tasks(), counts([("ready", 10), ("total", 10)]));
        case.tube.admin().unpause().unwrap();
        assert!(!case.tube.info().unwrap().paused);
        assert_eq!(case.tube.take_many(10, ZERO).unwrap().len(), 10);
    });
}

/// A moment of the wall clock is converted at the call: a clock that is set later changes nothing.
#[test]
fn pause_until_a_moment_ends_after_the_time_that_was_left() {
    let start = secs(1_767_225_600);
    let (clock, hour) = (ManualClock::at(start), secs(3600));
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().driver("fifo")).unwrap();
    tube.put("x").unwrap();
    tube.admin().pause_until(UNIX_EPOCH + start + hour).unwrap();
    assert_eq!(tube.info().unwrap().resumes_in, Some(hour));
    clock.set_wall(start + 2 * hour);
    let micro = Duration::from_micros(1);
    clock.advance(hour.saturating_sub(micro));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(micro);
    assert!(tube.try_take().unwrap().is_some());
}

#[test]
fn pause_until_a_moment_that_has_come_ends_the_pause_and_one_that_never_comes_does_not_end() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver("fifo")).unwrap();
    let never = UNIX_EPOCH + Duration::from_micros(u64::MAX);
    for (moment, paused) in
        [(never, true), (UNIX_EPOCH, false), (never, true), (UNIX_EPOCH - secs(9), false)]
    {
        tube.admin().pause_until(moment).unwrap();
        let info = tube.info().unwrap();
        assert_eq!((info.paused, info.resumes_in), (paused, None));
    }
}

/// Q053
#[test]
fn other_verbs_work_in_a_paused_tube() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(9), |case| {
        case.put_all([0, 1, 2, 3]);
        let claims = case.tube.take_many(3, ZERO).unwrap();
        case.tube.admin().pause().unwrap();
        case.put("put");
        assert_eq!(case.tube.query().list(TaskState::Ready, None, 9).unwrap().items.len(), 2);
        assert_eq!(case.tube.query().task(3).unwrap().body, b"task 3");
        let [acked, renewed, released] = claims.try_into().unwrap();
        acked.ack().unwrap();
        if case.timed() {
            renewed.renew(secs(60)).unwrap();
            assert_eq!(renewed.touch(secs(1)).unwrap().unwrap().state, TaskState::Taken);
        }
        released.release().unwrap();
        case.tube.admin().bury(3, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(9)).unwrap(), 1);
        case.tube.delete(3).unwrap();
        assert_eq!(case.take(), None);
        assert_eq!(case.tasks(), counts([("ready", 2), ("taken", 1), ("total", 3), ("done", 2)]));
        assert_eq!(renewed.ack().unwrap().id, 1);
    });
}

/// Q054
/// Difference: a tube exists before it is paused, so there is no handle to pause an unknown one with.
#[test]
fn dropped_tube_cannot_be_paused() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver("fifo")).unwrap();
    store.drop_tube("case").unwrap();
    let dropped = Error::TubeDropped { name: "case".into() };
    for answer in [
        tube.admin().pause(),
        tube.admin().pause_for(secs(1)),
        tube.admin().unpause(),
        tube.info().map(drop),
    ] {
        assert_eq!(answer, Err(dropped.clone()));
    }
}

/// I10
#[test]
fn waiting_take_of_a_paused_tube_waits_until_it_is_unpaused() {
    for_each_driver(ALL, |case| {
        let [mut first, mut second] = [case.begin_take(), case.begin_take()];
        case.tube.admin().pause().unwrap();
        case.put_all([0, 1]);
        let mut third = case.begin_take();
        case.advance(HUNDRED_YEARS.as_millis().try_into().unwrap());
        assert!(first.is_pending() && second.is_pending() && third.is_pending());
        assert_eq!(case.tube.info().unwrap().waiting, 3);
        assert_sound(&case.store);
        case.tube.admin().unpause().unwrap();
        assert_eq!((first.id(), second.id()), (Some(0), Some(1)));
        assert!(third.is_pending());
        case.put("third");
        assert_eq!(third.id(), Some(2));
    });
}

#[test]
fn waiting_take_of_a_paused_tube_times_out() {
    for_each_driver(ALL, |case| {
        case.put("x");
        case.tube.admin().pause_for(secs(20)).unwrap();
        let mut take = WaitingTake::begin(case.tube.to_async().take_timeout(secs(10)));
        case.advance(9_999);
        assert!(take.is_pending());
        case.advance(1);
        assert_eq!(take.id(), None);
    });
}

#[test]
fn pause_with_a_time_ends_by_itself() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        case.tube.admin().pause_for(secs(10)).unwrap();
        let [mut first, second] = [case.begin_take(), case.begin_take()];
        case.advance(9_999);
        assert!(first.is_pending());
        assert_eq!(case.tube.info().unwrap().resumes_in, Some(ms(1)));
        assert_sound(&case.store);
        case.advance(1);
        assert_eq!((first.id(), second.id(), case.take()), (Some(0), Some(1), Some(2)));
        let info = case.tube.info().unwrap();
        assert_eq!((info.paused, info.resumes_in), (false, None));
    });
}

#[test]
fn pause_ends_while_the_machine_is_suspended() {
    for_each_driver(ALL, |case| {
        case.put("x");
        case.tube.admin().pause_for(secs(3600)).unwrap();
        let mut take = case.begin_take();
        case.clock.suspend(secs(3599));
        assert!(take.is_pending());
        case.clock.suspend(secs(1));
        assert_eq!(take.id(), Some(0));
    });
}

#[test]
fn last_pause_replaces_the_one_before() {
    for_each_driver(ALL, |case| {
        let left = || {
            let info = case.tube.info().unwrap();
            (info.paused, info.resumes_in)
        };
        let mut take = case.begin_take();
        case.tube.admin().pause_for(secs(10)).unwrap();
        case.put("x");
        case.advance(1_000);
        assert_eq!(left(), (true, Some(secs(9))));
        case.tube.admin().pause_for(secs(20)).unwrap();
        case.advance(19_999);
        assert_eq!(left(), (true, Some(ms(1))));
        case.tube.admin().pause().unwrap();
        case.advance(10_000);
        assert_eq!(left(), (true, None));
        case.tube.admin().pause_for(secs(1)).unwrap();
        assert!(take.is_pending());
        case.advance(1_000);
        assert_eq!((left(), take.id()), ((false, None), Some(0)));
        case.tube.admin().pause().unwrap();
        case.tube.admin().pause_for(ZERO).unwrap();
        assert_eq!(left(), (false, None));
    });
}

/// A timer of the sweeper for a tube in which no take waits would wake it in vain.
#[test]
fn pauses_are_sound_when_takes_come_and_go() {
    for_each_driver(ALL, |case| {
        case.tube.admin().pause_for(secs(10)).unwrap();
        for _ in 0..3 {
            let take = case.begin_take();
            assert_sound(&case.store);
            drop(take);
            assert_sound(&case.store);
        }
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        let take = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        drop(tube);
        session.end().unwrap();
        assert_eq!(take.answer().err(), Some(Error::SessionEnded));
        assert_sound(&case.store);
        let take = case.begin_take();
        case.tube.admin().truncate().unwrap();
        assert_sound(&case.store);
        drop(take);
        case.store.drop_tube("case").unwrap();
    });
}

#[test]
fn times_of_tasks_go_on_in_a_paused_tube() {
    for_each_driver(TIMED, |case| {
        let expiring = case.add(case.draft("a").ttl(secs(10)));
        let delayed = case.add(case.draft("b").delay(secs(10)));
        let taken = case.add(case.draft("c").ttr(secs(10)).ttl(secs(60)).priority(0));
        keep(case.tube.claim(taken).unwrap());
        case.tube.admin().pause().unwrap();
        case.advance(10_000);
        assert_eq!(case.state(expiring), None);
        assert_eq!(case.state(delayed), Some(TaskState::Ready));
        assert_eq!(case.state(taken), Some(TaskState::Ready));
        assert_eq!(case.take(), None);
    });
}

#[test]
fn chosen_task_of_a_paused_tube_is_not_ready() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let why = |time: Option<_>| {
            match time {
                Some(time) => case.tube.admin().pause_for(time).unwrap(),
                None => case.tube.admin().pause().unwrap(),
            }
            match case.tube.claim(id).unwrap_err() {
                Error::NotReady { id: 0, state: TaskState::Ready, why } => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(why(None), "its tube is paused");
        assert_eq!(why(Some(secs(90))), "its tube is paused for 90s");
        case.advance(90_000);
        assert_eq!(case.tube.claim(id).unwrap().id(), id);
    });
}

#[test]
fn take_of_several_tubes_skips_the_paused_ones() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.put("paused");
        other.put(case.draft("other")).unwrap();
        case.tube.admin().pause().unwrap();
        let session: Session = case.store.session("").unwrap();
        let tubes = [&case.tube, &other].map(|tube| session.tube(tube).unwrap());
        let taken = session.take_any(&[&tubes[0], &tubes[1]], ZERO).unwrap().unwrap();
        assert_eq!((taken.tube(), taken.id()), ("other", 1));
        let any = session.to_async().take_any(&[&tubes[0], &tubes[1]], NO_TIMEOUT);
        let take = WaitingTake::begin(any);
        case.tube.admin().unpause().unwrap();
        assert_eq!(take.answer().unwrap().unwrap().tube(), "case");
    });
}

#[test]
fn take_of_several_tubes_gets_a_task_of_the_first_one_if_their_pauses_end_together() {
    for_each_driver(ALL, |case| {
        let second =
            case.store.create_tube("second", TubeOptions::new().driver(case.driver)).unwrap();
        second.put(case.draft("2")).unwrap();
        let id = case.put("1");
        for tube in [&case.tube, &second] {
            tube.admin().pause_for(secs(1)).unwrap();
        }
        for (tubes, wanted) in [([&second, &case.tube], id - 1), ([&case.tube, &second], id)] {
            let take = WaitingTake::begin(case.store.to_async().take_any(&tubes, NO_TIMEOUT));
            case.advance(1_000);
            assert_eq!(claim_of(take).id(), wanted);
            for tube in [&case.tube, &second] {
                tube.admin().pause_for(secs(1)).unwrap();
            }
        }
    });
}

#[test]
fn pause_and_claims_do_not_touch_each_other() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().pause().unwrap();
        assert!(claim.is_current().unwrap());
        assert_eq!(case.tube.admin().revoke(Filter::new()).unwrap(), 1);
        assert_eq!((case.state(0), case.take()), (Some(TaskState::Ready), None));
        assert_not_taken(claim.ack(), 0);
    });
}

#[test]
fn pause_outlives_the_process() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::default());
        let ends = store.create_tube("ends", TubeOptions::default().driver(driver)).unwrap();
        tube.put(draft(driver, "x")).unwrap();
        ends.put(draft(driver, "x")).unwrap();
        tube.admin().pause().unwrap();
        ends.admin().pause_for(secs(60)).unwrap();
        let (killed, copy) = after_a_kill(&file);
        assert_eq!(pauses(&copy), [(true, None), (true, Some(secs(60)))]);
        drop((copy, killed));
        drop((tube, ends));
        let store = file.reopen_after(store, secs(59));
        assert_eq!(pauses(&store), [(true, None), (true, Some(secs(1)))]);
        let ends = store.find_tube("ends").unwrap();
        let mut waiting = WaitingTake::begin(ends.to_async().take_timeout(NO_TIMEOUT));
        assert_sound(&store);
        file.clock.advance(ms(999));
        assert!(waiting.is_pending());
        file.tick();
        assert!(waiting.id().is_some());
        drop(ends);
        let store = file.reopen_after(store, secs(1));
        assert_eq!(pauses(&store), [(true, None), (false, None)]);
        store.find_tube("case").unwrap().admin().unpause().unwrap();
        let (_killed, copy) = after_a_kill(&file);
        assert_eq!(pauses(&copy), [(false, None), (false, None)]);
        assert_eq!(take(&copy.find_tube("case").unwrap()), Some(0));
    }
}

/// Whether the tubes are paused, and for how long.
fn pauses(store: &Store) -> Vec<(bool, Option<std::time::Duration>)> {
    store.tubes().unwrap().into_iter().map(|info| (info.paused, info.resumes_in)).collect()
}

#[test]
fn truncate_and_alter_leave_the_pause() {
    for_each_driver(ALL, |case| {
        case.tube.admin().pause_for(secs(10)).unwrap();
        let take = case.begin_take();
        case.tube.admin().truncate().unwrap();
        case.put("x");
        case.tube.admin().alter(only(TubeOptions::new().max_taken(5))).unwrap();
        assert_eq!(case.tube.info().unwrap().resumes_in, Some(secs(10)));
        assert_sound(&case.store);
        case.advance(10_000);
        assert_eq!(take.id(), Some(0));
    });
}

#[test]
fn sub_queues_are_in_order_after_a_pause() {
    for_each_driver(SUB_QUEUED, |case| {
        for body in ["a1", "a2", "b1"] {
            case.add(Put::new(body).sub_queue(&body[..1]));
        }
        let first = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().pause().unwrap();
        let [mut waiting, mut later] = [case.begin_take(), case.begin_take()];
        first.ack().unwrap();
        assert!(waiting.is_pending() && later.is_pending());
        case.tube.admin().unpause().unwrap();
        assert_eq!((waiting.id(), later.id()), (Some(1), Some(2)));
    });
}
