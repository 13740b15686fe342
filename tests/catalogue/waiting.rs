//! Group G: waiting takes.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tubewell::driver::FIFO;
use tubewell::{Error, Filter, Outcome, TaskState, TubeOptions};

use super::support::*;
use crate::stores;

/// G01
#[test]
fn take_returns_none_when_timeout_elapses() {
    for_each_driver(ALL, |case| {
        let mut waiting = WaitingTake::begin(case.tube.to_async().take_timeout(ms(100)));
        case.advance(99);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), None);
        case.put_all([0]);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.calls(), counts([("put", 1)]));
    });
}

/// G02, G03
#[test]
fn put_task_is_given_to_waiting_taker() {
    for_each_driver(ALL, |case| {
        let with_a_limit = WaitingTake::begin(case.tube.to_async().take_timeout(secs(1)));
        let without_limit = case.begin_take();
        case.put_all([0, 1]);
        assert_eq!(with_a_limit.id(), Some(0));
        assert_eq!(without_limit.id(), Some(1));
        assert_eq!(case.tasks(), counts([("taken", 2), ("total", 2)]));
    });
}

/// G02, G03
#[test]
fn blocked_thread_gets_put_task() {
    for_each_driver(ALL, |case| {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take_by_thread(case));
            case.put_all([0]);
            assert_eq!(waiting.join().unwrap(), 0);
        });
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

fn take_by_thread(case: &Case) -> u64 {
    keep(case.tube.take_timeout(NO_TIMEOUT).unwrap().unwrap())
}

/// G04
#[test]
fn released_task_is_given_to_waiting_taker() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let holder = case.tube_in_new_session();
        assert_eq!(take(&holder), Some(0));
        let waiting = WaitingTake::begin(case.tube.to_async().take_timeout(secs(1)));
        holder.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(waiting.id(), Some(0));
        assert_not_taken(holder.claimed(0).and_then(tubewell::Claim::ack), 0);
    });
}

/// G05
#[test]
fn one_put_serves_one_waiting_taker() {
    for_each_driver(ALL, |case| {
        let mut waiting = [case.begin_take(), case.begin_take(), case.begin_take()];
        case.put_all([0]);
        waiting[0].wait();
        assert_eq!(waiting.each_mut().map(WaitingTake::is_pending), [false, true, true]);
        assert_eq!(case.tasks(), counts([("taken", 1), ("total", 1)]));
    });
}

/// G06
#[test]
fn put_many_serves_several_waiting_takers() {
    for_each_driver(ALL, |case| {
        let waiting = [case.begin_take(), case.begin_take()];
        case.tube.put_many([case.draft("a"), case.draft("b")]).unwrap();
        assert_eq!(waiting.map(WaitingTake::id), [Some(0), Some(1)]);
    });
}

/// G07
#[test]
fn kick_of_two_serves_two_waiting_takers() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        for id in 0..3 {
            case.tube.admin().bury(id, None).unwrap();
        }
        let mut waiting = [case.begin_take(), case.begin_take(), case.begin_take()];
        assert_eq!(case.tube.admin().kick(Filter::new().limit(2)).unwrap(), 2);
        waiting[..2].iter_mut().for_each(WaitingTake::wait);
        assert_eq!(waiting.each_mut().map(WaitingTake::is_pending), [false, false, true]);
    });
}

/// G08, Q21
/// Difference: waiting takers are served first come, first served, regardless of their timeouts.
#[test]
fn waiting_takers_are_served_in_arrival_order() {
    for_each_driver(ALL, |case| {
        let timeouts = [ms(10_000), NO_TIMEOUT, ms(9_990), ms(1_000)];
        let waiting =
            timeouts.map(|timeout| WaitingTake::begin(case.tube.to_async().take_timeout(timeout)));
        case.put_all([0, 1, 2, 3]);
        assert_eq!(waiting.map(WaitingTake::id), [Some(0), Some(1), Some(2), Some(3)]);
    });
}

/// G09
#[test]
fn delayed_task_is_given_to_waiting_taker_when_delay_elapses() {
    for_each_driver(TIMED, |case| {
        let mut waiting = case.begin_take();
        case.add(case.draft("late").delay(secs(50)));
        assert!(waiting.is_pending());
        case.advance(49_999);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// G10
#[test]
fn task_released_with_delay_is_given_to_waiting_taker_when_delay_elapses() {
    for_each_driver(TIMED, |case| {
        case.put_all([0]);
        let holder = case.tube_in_new_session();
        assert_eq!(take(&holder), Some(0));
        let mut waiting = case.begin_take();
        holder.claimed(0).and_then(|claim| claim.release_in(ms(200))).unwrap();
        assert!(waiting.is_pending());
        case.advance(200);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// G11
/// Difference: the task is given to the waiting taker; a later take cannot get it.
#[test]
fn take_cannot_overtake_waiting_taker() {
    for_each_driver(ALL, |case| {
        let later = case.tube_in_new_session();
        let waiting = case.begin_take();
        case.put_all([0]);
        assert_eq!(take(&later), None);
        assert_eq!(waiting.id(), Some(0));
        case.put_all([1]);
        assert_eq!(take(&later), Some(1));
    });
}

/// G12
#[test]
fn each_blocked_thread_gets_one_task() {
    for_each_driver(ALL, |case| {
        let taken: BTreeSet<u64> = thread::scope(|scope| {
            let waiting: Vec<_> = (0..5).map(|_| scope.spawn(|| take_by_thread(case))).collect();
            for _ in 0..5 {
                case.put("x");
                thread::yield_now();
            }
            waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(taken, (0..5).collect());
        assert_eq!(case.tasks(), counts([("taken", 5), ("total", 5)]));
    });
}

/// G13
/// Difference: a truncate does not reset the ids.
#[test]
fn truncate_does_not_end_waiting_take() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.take(), Some(1));
        let mut waiting = case.begin_take();
        case.tube.admin().truncate().unwrap();
        assert!(waiting.is_pending());
        assert_eq!(case.put("x"), 2);
        assert_eq!(waiting.id(), Some(2));
    });
}

/// G14
#[test]
fn drop_tube_with_waiting_taker_returns_tube_busy() {
    for_each_driver(ALL, |case| {
        let waiting = WaitingTake::begin(case.tube.to_async().take_timeout(ms(100)));
        match case.store.drop_tube("case") {
            Err(Error::TubeBusy { name, .. }) => assert_eq!(name, "case"),
            other => panic!("not refused: {other:?}"),
        }
        case.advance(100);
        assert_eq!(waiting.id(), None);
        case.store.drop_tube("case").unwrap();
    });
}

/// G15, G16, H05
#[test]
fn waiting_take_of_ended_session_returns_session_ended() {
    for_each_driver(ALL, |case| {
        let session = case.store.session("").unwrap();
        let waiting = WaitingTake::begin(
            session.tube(&case.tube).unwrap().to_async().take_timeout(NO_TIMEOUT),
        );
        session.end().unwrap();
        assert_eq!(waiting.answer().err(), Some(Error::SessionEnded));
        case.put_all([0]);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
    });
}

/// G15, G16
#[test]
fn dropped_take_future_takes_nothing() {
    for_each_driver(ALL, |case| {
        drop(case.begin_take());
        case.put_all([0]);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        drop(case.begin_take());
        case.store.drop_tube("case").unwrap();
    });
}

/// G15
#[test]
fn dropped_take_future_releases_assigned_task() {
    for_each_driver(ALL, |case| {
        let dropped = case.begin_take();
        case.put_all([0]);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        let next =
            WaitingTake::begin(case.tube_in_new_session().to_async().take_timeout(NO_TIMEOUT));
        drop(dropped);
        assert_eq!(next.id(), Some(0));
    });
}

/// G17
#[test]
fn concurrent_takers_receive_every_task_once() {
    const TASKS: u64 = 200;
    for_each_driver(ALL, |case| {
        let delivered = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let tube = case.tube_in_new_session();
                    loop {
                        let claim = tube.take_timeout(NO_TIMEOUT).unwrap().unwrap();
                        let last = claim.body() == b"stop";
                        let id = claim.id();
                        claim.ack().unwrap();
                        if last {
                            return;
                        }
                        delivered.lock().unwrap().push(id);
                    }
                });
            }
            for _ in 0..TASKS {
                case.put("x");
            }
            for _ in 0..20 {
                case.put("stop");
            }
        });
        let mut delivered = delivered.into_inner().unwrap();
        delivered.sort_unstable();
        assert_eq!(delivered, (0..TASKS).collect::<Vec<u64>>());
        assert_eq!(case.tasks(), counts([("done", TASKS + 20)]));
    });
}

/// G18
#[test]
fn concurrent_takes_get_different_tasks() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
    tube.put_many((0..51).map(|n| format!("task {n}"))).unwrap();
    let start = Barrier::new(60);
    let taken: Vec<Option<u64>> = thread::scope(|scope| {
        let takes: Vec<_> = (0..60)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    take(&tube)
                })
            })
            .collect();
        takes.into_iter().map(|take| take.join().unwrap()).collect()
    });
    let different: BTreeSet<u64> = taken.iter().flatten().copied().collect();
    assert_eq!(different, (0..51).collect());
    assert_eq!(taken.iter().flatten().count(), 51);
    assert_sound(&store);
}

/// G03
#[test]
fn take_many_waits_for_first_task_only() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        let claims = case.tube.take_many(2, NO_TIMEOUT).unwrap();
        assert_eq!(claims.into_iter().map(keep).collect::<Vec<_>>(), [0, 1]);
        let claims = case.tube.take_many(10, NO_TIMEOUT).unwrap();
        assert_eq!(claims.into_iter().map(keep).collect::<Vec<_>>(), [2]);
        assert!(case.tube.take_many(10, ZERO).unwrap().is_empty());
    });
}

/// G02
/// Difference: `take_any` waits at several tubes.
#[test]
fn take_any_waits_at_several_tubes() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        let first =
            WaitingTake::begin(case.store.to_async().take_any(&[&case.tube, &other], NO_TIMEOUT));
        let second =
            WaitingTake::begin(case.store.to_async().take_any(&[&case.tube, &other], NO_TIMEOUT));
        let third =
            WaitingTake::begin(case.store.to_async().take_any(&[&case.tube, &other], secs(1)));
        other.put("for the first").unwrap();
        case.put("for the second");
        let (first, second) = (first.answer().unwrap().unwrap(), second.answer().unwrap().unwrap());
        assert_eq!((first.tube(), first.id()), ("other", 0));
        assert_eq!((second.tube(), second.id()), ("case", 1));
        case.advance(1000);
        assert_eq!(third.id(), None);
        first.ack().unwrap();
        second.ack().unwrap();
    });
}

/// G02, H05
/// Difference: `take_any` of a session claims the task for that session.
#[test]
fn session_take_any_waits_at_several_tubes() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        let session = case.store.session("").unwrap();
        assert!(session.take_any(&[&case.tube, &other], ZERO).unwrap().is_none());
        let waiting =
            WaitingTake::begin(session.to_async().take_any(&[&case.tube, &other], NO_TIMEOUT));
        let id = other.put(case.draft("x")).unwrap().id;
        assert_eq!(waiting.id(), Some(id));
        assert_not_taken(other.claimed(id).and_then(tubewell::Claim::ack), id);
        session
            .tube(&case.store.find_tube("other").unwrap())
            .unwrap()
            .claimed(id)
            .and_then(tubewell::Claim::release)
            .unwrap();
        let claim = session.take_any(&[&case.tube, &other], NO_TIMEOUT).unwrap().unwrap();
        assert_eq!((claim.tube().to_owned(), keep(claim)), ("other".to_owned(), id));
        let waiting = WaitingTake::begin(session.to_async().take_any(&[&case.tube], NO_TIMEOUT));
        session.end().unwrap();
        assert_eq!(waiting.answer().err(), Some(Error::SessionEnded));
        assert_eq!(take(&other), Some(id));
    });
}

#[test]
fn take_any_rejects_no_tubes_and_tubes_of_other_store() {
    let [one, two] = [store_in_memory(), store_in_memory()];
    let [a, b] =
        [&one, &two].map(|store| store.create_tube("t", TubeOptions::new().driver(FIFO)).unwrap());
    for tubes in [&[][..], &[&a, &b], &[&b]] {
        let refused = one.take_any(tubes, ZERO).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        let refused = one.session("").unwrap().take_any(tubes, ZERO).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
    }
}

/// G03
#[test]
fn close_ends_waiting_take() {
    for_each_driver(ALL, |case| {
        let clock = stores::ManualClock::new();
        let store = stores::in_memory_with(tubewell::Store::options().clock(&clock));
        let tube = store.create_tube("case", TubeOptions::default().driver(case.driver)).unwrap();
        let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        stores::close(&store);
        assert!(stores::is_closed(&waiting.answer().unwrap_err()));
    });
}

/// Regression: tasks that became visible in one commit were assigned by tube instead of by waiter,
/// so that a taker waiting at two tubes got the task of the tube named last.
#[test]
fn take_any_gets_task_of_first_named_tube() {
    let store = stores::in_memory();
    let [first, last] = ["first", "last"]
        .map(|name| store.create_tube(name, TubeOptions::new().driver(tubewell::UTUBE)).unwrap());
    let claims: Vec<_> = [&last, &first]
        .map(|tube| {
            tube.put("taken").unwrap();
            tube.put("next").unwrap();
            tube.try_take().unwrap().unwrap()
        })
        .into();
    let mut waiting =
        WaitingTake::begin(store.to_async().take_any(&[&first, &last], Duration::MAX));
    assert!(waiting.is_pending());
    // One commit frees both sub-queues, the one of `last` first.
    let acked = tubewell::Claim::end_many(claims, |_| Outcome::done()).unwrap();
    assert!(acked.iter().all(Result::is_ok), "{acked:?}");
    assert_eq!(waiting.id(), Some(3), "take_any must get the task of the tube named first");
}
