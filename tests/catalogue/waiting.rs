//! Group G: takes that wait.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::thread;

use tubewell::driver::FIFO;
use tubewell::{Error, State, TubeOptions};

use crate::support::*;

/// G01
#[test]
fn a_take_gives_up_when_its_time_is_over() {
    each(ALL, |case| {
        let mut waiting = Waiting::begin(case.tube.take_async(ms(100)));
        case.advance(99);
        assert!(waiting.waits());
        case.advance(1);
        assert_eq!(waiting.id(), None);
        case.put_all([0]);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.calls(), counts([("put", 1)]));
    });
}

/// G02, G03
#[test]
fn a_put_goes_to_one_who_waits() {
    each(ALL, |case| {
        let with_a_limit = Waiting::begin(case.tube.take_async(secs(1)));
        let for_ever = case.wait();
        case.put_all([0, 1]);
        assert_eq!(with_a_limit.id(), Some(0));
        assert_eq!(for_ever.id(), Some(1));
        assert_eq!(case.tasks(), counts([("taken", 2), ("total", 2)]));
    });
}

/// G02, G03
#[test]
fn a_thread_that_waits_gets_what_is_put() {
    each(ALL, |case| {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| take_by_thread(case));
            case.put_all([0]);
            assert_eq!(waiting.join().unwrap(), 0);
        });
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.ack(0).unwrap();
    });
}

fn take_by_thread(case: &Case) -> u64 {
    keep(case.tube.take(FOR_EVER).unwrap().unwrap())
}

/// G04
#[test]
fn a_released_task_goes_to_one_who_waits() {
    each(ALL, |case| {
        case.put_all([0]);
        let holder = case.stranger();
        assert_eq!(take(&holder), Some(0));
        let waiting = Waiting::begin(case.tube.take_async(secs(1)));
        holder.release(0, ZERO).unwrap();
        assert_eq!(waiting.id(), Some(0));
        assert_not_taken(holder.ack(0), 0);
    });
}

/// G05
#[test]
fn one_task_serves_one_of_those_who_wait() {
    each(ALL, |case| {
        let mut waiting = [case.wait(), case.wait(), case.wait()];
        case.put_all([0]);
        assert_eq!(waiting.each_mut().map(Waiting::waits), [false, true, true]);
        assert_eq!(case.tasks(), counts([("taken", 1), ("total", 1)]));
    });
}

/// G06
#[test]
fn two_tasks_serve_two_of_those_who_wait() {
    each(ALL, |case| {
        let waiting = [case.wait(), case.wait()];
        case.tube.put_many([case.draft("a"), case.draft("b")]).unwrap();
        assert_eq!(waiting.map(Waiting::id), [Some(0), Some(1)]);
    });
}

/// G07
#[test]
fn a_kick_of_two_serves_two_of_those_who_wait() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        for id in 0..3 {
            case.tube.bury(id).unwrap();
        }
        let mut waiting = [case.wait(), case.wait(), case.wait()];
        assert_eq!(case.tube.kick(2).unwrap(), 2);
        assert_eq!(waiting.each_mut().map(Waiting::waits), [false, false, true]);
    });
}

/// G08, Q21
/// Here: the order is that of arrival, whatever the timeouts.
#[test]
fn those_who_wait_are_served_in_the_order_of_their_arrival() {
    each(ALL, |case| {
        let timeouts = [Some(ms(10_000)), None, Some(ms(9_990)), Some(ms(1_000))];
        let waiting = timeouts.map(|timeout| Waiting::begin(case.tube.take_async(timeout)));
        case.put_all([0, 1, 2, 3]);
        assert_eq!(waiting.map(Waiting::id), [Some(0), Some(1), Some(2), Some(3)]);
    });
}

/// G09
#[test]
fn a_delayed_task_serves_nobody() {
    each(TIMED, |case| {
        let mut waiting = case.wait();
        case.add(case.draft("late").delay(secs(50)));
        assert!(waiting.waits());
        case.advance(49_999);
        assert!(waiting.waits());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// G10
#[test]
fn a_delay_that_ends_serves_one_who_waits() {
    each(TIMED, |case| {
        case.put_all([0]);
        let holder = case.stranger();
        assert_eq!(take(&holder), Some(0));
        let mut waiting = case.wait();
        holder.release(0, ms(200)).unwrap();
        assert!(waiting.waits());
        case.advance(200);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// G11
/// Here: the task is handed to the one who waits, and nobody overtakes.
#[test]
fn a_take_cannot_overtake_one_who_waits() {
    each(ALL, |case| {
        let hasty = case.stranger();
        let waiting = case.wait();
        case.put_all([0]);
        assert_eq!(take(&hasty), None);
        assert_eq!(waiting.id(), Some(0));
        case.put_all([1]);
        assert_eq!(take(&hasty), Some(1));
    });
}

/// G12
#[test]
fn each_of_several_threads_gets_a_task() {
    each(ALL, |case| {
        let taken: BTreeSet<u64> = thread::scope(|scope| {
            let waiting: Vec<_> = (0..5).map(|_| scope.spawn(|| take_by_thread(case))).collect();
            for _ in 0..5 {
                case.put("x");
                thread::yield_now();
            }
            waiting.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(taken, (0..5).collect());
        assert_eq!(case.tasks(), counts([("taken", 5), ("total", 5)]));
    });
}

/// G13
/// Here: ids go on after a truncate.
#[test]
fn a_truncate_does_not_end_a_wait() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.bury(0).unwrap();
        assert_eq!(case.take(), Some(1));
        let mut waiting = case.wait();
        case.tube.truncate().unwrap();
        assert!(waiting.waits());
        assert_eq!(case.put("x"), 2);
        assert_eq!(waiting.id(), Some(2));
    });
}

/// G14
#[test]
fn a_tube_that_somebody_waits_at_is_not_dropped() {
    each(ALL, |case| {
        let waiting = Waiting::begin(case.tube.take_async(ms(100)));
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
fn the_wait_of_an_ended_session_takes_nothing() {
    each(ALL, |case| {
        let session = case.store.session();
        let waiting = Waiting::begin(session.tube("case").unwrap().take_async(FOR_EVER));
        session.end().unwrap();
        assert_eq!(waiting.answer().err(), Some(Error::SessionEnded));
        case.put_all([0]);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
    });
}

/// G15, G16
#[test]
fn a_wait_that_is_given_up_takes_nothing() {
    each(ALL, |case| {
        drop(case.wait());
        case.put_all([0]);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
        drop(case.wait());
        case.store.drop_tube("case").unwrap();
    });
}

/// G15
#[test]
fn a_task_handed_to_one_who_does_not_look_goes_back() {
    each(ALL, |case| {
        let careless = case.wait();
        case.put_all([0]);
        assert_eq!(case.state(0), Some(State::Taken));
        let next = Waiting::begin(case.stranger().take_async(FOR_EVER));
        drop(careless);
        assert_eq!(next.id(), Some(0));
    });
}

/// G17
#[test]
fn every_task_is_delivered_once() {
    const TASKS: u64 = 200;
    each(ALL, |case| {
        let delivered = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let tube = case.stranger();
                    loop {
                        let claim = tube.take(FOR_EVER).unwrap().unwrap();
                        let last = claim.data() == b"stop";
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
fn takes_at_the_same_time_get_different_tasks() {
    let disk = Disk::new();
    let store = disk.open();
    let tube = store.create_tube("case", FIFO, TubeOptions::default()).unwrap();
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
fn a_take_of_many_waits_for_the_first_only() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        let claims = case.tube.take_many(2, FOR_EVER).unwrap();
        assert_eq!(claims.into_iter().map(keep).collect::<Vec<_>>(), [0, 1]);
        let claims = case.tube.take_many(10, FOR_EVER).unwrap();
        assert_eq!(claims.into_iter().map(keep).collect::<Vec<_>>(), [2]);
        assert!(case.tube.take_many(10, ZERO).unwrap().is_empty());
    });
}

/// G02
/// Here: one take can wait at several tubes.
#[test]
fn one_may_wait_at_several_tubes() {
    each(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, TubeOptions::default()).unwrap();
        let first = Waiting::begin(case.store.take_any_async(&[&case.tube, &other], FOR_EVER));
        let second = Waiting::begin(case.store.take_any_async(&[&case.tube, &other], FOR_EVER));
        let third = Waiting::begin(case.store.take_any_async(&[&case.tube, &other], secs(1)));
        other.put("for one").unwrap();
        case.put("for the other");
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
/// Here: a session can wait at several tubes, and what it gets is its own.
#[test]
fn a_session_may_wait_at_several_tubes() {
    each(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, TubeOptions::default()).unwrap();
        let session = case.store.session();
        assert!(session.take_any(&[&case.tube, &other], ZERO).unwrap().is_none());
        let waiting = Waiting::begin(session.take_any_async(&[&case.tube, &other], FOR_EVER));
        let id = other.put(case.draft("x")).unwrap().id;
        assert_eq!(waiting.id(), Some(id));
        assert_not_taken(other.ack(id), id);
        session.tube("other").unwrap().release(id, ZERO).unwrap();
        let claim = session.take_any(&[&case.tube, &other], FOR_EVER).unwrap().unwrap();
        assert_eq!((claim.tube().to_owned(), keep(claim)), ("other".to_owned(), id));
        let waiting = Waiting::begin(session.take_any_async(&[&case.tube], FOR_EVER));
        session.end().unwrap();
        assert_eq!(waiting.answer().err(), Some(Error::SessionEnded));
        assert_eq!(take(&other), Some(id));
    });
}

#[test]
fn a_take_from_no_tube_or_from_tubes_of_two_stores_is_refused() {
    let [one, two] = [store_in_memory(), store_in_memory()];
    let [a, b] =
        [&one, &two].map(|store| store.create_tube("t", FIFO, TubeOptions::new()).unwrap());
    for tubes in [&[][..], &[&a, &b], &[&b]] {
        let refused = one.take_any(tubes, ZERO).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        let refused = one.session().take_any(tubes, ZERO).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
    }
}

/// G03
#[test]
fn closing_the_store_ends_every_wait() {
    each(ALL, |case| {
        let clock = tubewell::ManualClock::new();
        let store = tubewell::Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", case.driver, TubeOptions::default()).unwrap();
        let waiting = Waiting::begin(tube.take_async(FOR_EVER));
        store.close().unwrap();
        assert_eq!(waiting.answer().err(), Some(Error::Closed));
    });
}

/// What became visible at once was handed out tube by tube, not waiter by waiter: who waited in
/// two tubes got the task of the one he had named last.
#[test]
fn who_waits_in_two_tubes_gets_the_task_of_the_first_that_he_named() {
    let store = tubewell::Store::in_memory().unwrap();
    let [first, last] = ["first", "last"]
        .map(|name| store.create_tube(name, tubewell::UTUBE, TubeOptions::new()).unwrap());
    let held: Vec<_> = [&last, &first]
        .map(|tube| {
            tube.put("held").unwrap();
            tube.put("next").unwrap();
            tube.try_take().unwrap().unwrap()
        })
        .into();
    let mut waiting = Waiting::begin(store.take_any_async(&[&first, &last], None));
    assert!(waiting.waits());
    // One commit frees both sub-queues, that of `last` first.
    let acked = tubewell::Claim::ack_many(held).unwrap();
    assert!(acked.iter().all(Result::is_ok), "{acked:?}");
    assert_eq!(waiting.id(), Some(3), "the task of the tube named first");
}
