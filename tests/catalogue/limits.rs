//! Group M: capacity and other limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};
use tubewell::{Error, Filter, Put, Receipt, Result, Store, TubeOptions};

use super::support::*;
use crate::stores::{self, ManualClock};

fn with_capacity(capacity: u64, case: impl Fn(&Case)) {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::default().capacity(capacity), case);
}

fn assert_full<T>(answer: Result<T>, capacity: u64) {
    assert_eq!(answer.err(), Some(Error::Full { tube: "case".to_owned(), capacity }));
}

/// M01
#[test]
fn put_into_full_tube_fails_immediately() {
    with_capacity(2, |case| {
        case.put_all([0, 1]);
        assert_full(case.tube.put("c"), 2);
        assert_full(case.tube.put_timeout("c", ZERO), 2);
        assert_eq!(case.take_all(), [0, 1]);
    });
}

/// M01
#[test]
fn put_many_over_capacity_stores_none() {
    with_capacity(3, |case| {
        case.put_all([0]);
        assert_full(case.tube.put_many(["b", "c", "d"]), 3);
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
        case.tube.put_many(["b", "c"]).unwrap();
        assert_full(case.tube.put("d"), 3);
    });
}

/// Calls `put_timeout` on a thread while the clock advances. Returns its answer, and how far the clock
/// had advanced by then.
fn put_wait_while_clock_advances(case: &Case, timeout: Duration) -> (Result<Receipt>, Duration) {
    let begun = case.clock.now();
    thread::scope(|scope| {
        let putting = scope.spawn(|| case.tube.put_timeout("late", timeout));
        while !putting.is_finished() {
            case.advance(1);
            thread::yield_now();
        }
        (putting.join().unwrap(), case.clock.now().saturating_sub(begun))
    })
}

/// M02
#[test]
fn put_wait_fails_when_timeout_elapses() {
    with_capacity(3, |case| {
        case.put_all([0, 1, 2]);
        let (answer, passed) = put_wait_while_clock_advances(case, ms(100));
        assert_full(answer, 3);
        assert!(passed >= ms(100), "put_timeout failed after {passed:?}");
        assert_eq!(case.calls(), counts([("put", 3)]));
        // The put that timed out is not stored later.
        case.tube.delete(0).unwrap();
        assert_eq!(case.take_all(), [1, 2]);
    });
}

/// Calls `put_timeout` on a thread, then frees space in the tube. The thread usually waits by then;
/// the outcome is the same if it does not.
fn put_wait_then_free(case: &Case, free: impl FnOnce()) {
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        let putting = scope.spawn(|| {
            begun.store(true, Ordering::SeqCst);
            case.tube.put_timeout("b", secs(1))
        });
        while !begun.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        for _ in 0..1000 {
            thread::yield_now();
        }
        free();
        // The put has succeeded by now, or its timeout elapses.
        while !putting.is_finished() {
            case.advance(1000);
            thread::yield_now();
        }
        putting.join().unwrap().unwrap();
    });
}

/// M03
#[test]
fn waiting_put_succeeds_after_ack() {
    with_capacity(1, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_full(case.tube.put("c"), 1);
        put_wait_then_free(case, || {
            assert_eq!(case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().id, 0);
        });
        assert_full(case.tube.put("c"), 1);
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1), ("done", 1)]));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.body(), b"b");
        claim.ack().unwrap();
    });
}

/// M03, M05
#[test]
fn waiting_put_succeeds_after_delete_or_truncate() {
    with_capacity(2, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(1, None).unwrap();
        put_wait_then_free(case, || assert_eq!(case.tube.delete(1).unwrap().id, 1));
        assert_full(case.tube.put("c"), 2);
        put_wait_then_free(case, || case.tube.admin().truncate().unwrap());
        assert_eq!(case.take_all(), [3]);
    });
}

/// M03
#[test]
fn waiting_puts_succeed_one_at_a_time() {
    with_capacity(1, |case| {
        case.put("first");
        let mut totals = Vec::new();
        thread::scope(|scope| {
            let putting: Vec<_> =
                (0..4).map(|_| scope.spawn(|| case.tube.put_timeout("x", secs(1)))).collect();
            for _ in 0..5 {
                let claim = (0..1_000_000).find_map(|_| {
                    thread::yield_now();
                    case.tube.try_take().unwrap()
                });
                if claim.is_none() {
                    // The remaining puts are stuck: let their timeouts elapse, then fail.
                    case.advance(1000);
                }
                let claim = claim.unwrap();
                totals.push(case.tasks()["total"]);
                claim.ack().unwrap();
            }
            for put in putting {
                put.join().unwrap().unwrap();
            }
        });
        assert_eq!(totals, [1; 5]);
        assert_eq!(case.tasks(), counts([("done", 5)]));
    });
}

/// Regression: a waiting put whose ttl was zero was stored twice, the second time when its first
/// task was removed.
#[test]
fn waiting_put_with_zero_ttl_is_stored_once() {
    let clock = ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let options = TubeOptions::default().capacity(1).temporary(true);
    let tube = store.create_tube("case", options.driver(LIMFIFOTTL)).unwrap();
    let id = tube.put("there").unwrap().id;
    let there = tube.try_take().unwrap().unwrap();
    thread::scope(|scope| {
        let taker = scope.spawn(|| tube.take_timeout(Duration::MAX).unwrap_err());
        let putter = scope
            .spawn(|| tube.put_timeout(Put::new("zero ttl").ttl(ZERO), Duration::MAX).unwrap());
        let (mut takes, mut puts) = (0, 0);
        while (takes, puts) != (1, 1) {
            let info = &store.tubes().unwrap()[0];
            (takes, puts) = (info.waiting, info.waiting_puts);
            thread::yield_now();
        }
        there.ack().unwrap();
        assert_eq!(putter.join().unwrap().id, id + 1);
        let statistics = tube.statistics().unwrap();
        assert_eq!((statistics.calls.put, statistics.calls.ttl), (2, 1));
        stores::close(&store);
        assert!(stores::is_closed(&taker.join().unwrap()));
    });
}

/// M04
#[test]
fn capacity_counts_tasks_in_every_state() {
    with_capacity(4, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        case.add(Put::new("late").delay(secs(10)));
        assert_full(case.tube.put("e"), 4);
    });
}

/// M05
#[test]
fn deleted_and_expired_tasks_free_capacity() {
    with_capacity(2, |case| {
        case.put_all([0]);
        case.add(Put::new("short").ttl(ms(100)));
        assert_full(case.tube.put("c"), 2);
        case.tube.delete(0).unwrap();
        case.put("c");
        assert_full(case.tube.put("d"), 2);
        case.advance(100);
        case.put("d");
        assert_full(case.tube.put("e"), 2);
        case.tube.admin().truncate().unwrap();
        case.put("e");
    });
}

/// M05
#[test]
fn waiting_put_succeeds_when_task_expires() {
    with_capacity(1, |case| {
        case.add(Put::new("short").ttl(ms(100)));
        let (answer, passed) = put_wait_while_clock_advances(case, secs(10));
        assert_eq!(answer.unwrap().id, 1);
        assert!(passed >= ms(100), "put_timeout succeeded after {passed:?}");
        assert_eq!(case.take_all(), [1]);
    });
}

/// M06
#[test]
fn zero_capacity_means_no_limit() {
    let fill = |case: &Case| {
        case.tube.put_many((0..200).map(|_| case.draft("x"))).unwrap();
        assert_eq!(case.tasks(), counts([("ready", 200), ("total", 200)]));
    };
    with_capacity(0, fill);
    for_each_driver(&[LIMFIFOTTL], fill);
}

/// M10
#[test]
fn release_and_kick_succeed_in_full_tube() {
    with_capacity(1, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.release_in(secs(1))).unwrap();
        case.advance(1_000);
        assert_eq!(case.take(), Some(0));
        assert_full(case.tube.put("b"), 1);
    });
}

/// M06, A12
/// Difference: a tube option that the driver does not support is rejected.
#[test]
fn create_tube_rejects_option_unsupported_by_driver() {
    let store = store_in_memory();
    let assert_rejected = |driver: &str, options: TubeOptions| {
        assert_unsupported(store.create_tube("case", options.driver(driver)), driver);
    };
    for driver in [FIFO, FIFOTTL, UTUBE, UTUBETTL] {
        assert_rejected(driver, TubeOptions::default().capacity(5));
    }
    for driver in [FIFO, UTUBE] {
        assert_rejected(driver, TubeOptions::default().ttl(secs(5)));
        assert_rejected(driver, TubeOptions::default().ttr(secs(5)));
        assert_rejected(driver, TubeOptions::default().priority(5));
    }
    assert!(store.tubes().unwrap().is_empty());
    assert_sound(&store);
}

/// A08
#[test]
fn put_rejects_body_over_max_body() {
    for driver in ALL {
        println!("driver {driver}");
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock).max_body(1000));
        let tube = store.create_tube("case", TubeOptions::default().driver(driver)).unwrap();
        let id = tube.put(vec![7; 1000]).unwrap().id;
        let refused = tube.put(vec![7; 1001]).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(tasks(&tube), counts([("ready", 1), ("total", 1)]));
        assert_eq!(tube.query().task(id).unwrap().body, vec![7; 1000]);
        assert_sound(&store);
    }
}

/// A12, A15
#[test]
fn put_many_with_one_invalid_task_stores_none() {
    for_each_driver(ALL, |case| {
        let bad = if case.timed() {
            Put::new("x".into()).sub_queue("n".repeat(256))
        } else {
            Put::new("x".into()).priority(1)
        };
        let refused = case.tube.put_many([case.draft("a"), bad, case.draft("c")]).err();
        assert!(
            matches!(refused, Some(Error::Unsupported { .. } | Error::Invalid { .. })),
            "{refused:?}"
        );
        assert_eq!(case.tasks(), counts([]));
        assert_eq!(case.calls(), counts([]));
        assert_eq!(case.tube.put_many(Vec::<Put>::new()).unwrap().len(), 0);
    });
}

/// F02
#[test]
fn put_rejects_sub_queue_name_over_255_bytes() {
    for_each_driver(SUB_QUEUED, |case| {
        let longest = "n".repeat(255);
        let id = case.add(Put::new("x").sub_queue(longest.clone()));
        assert_eq!(case.info(id).sub_queue, Some(longest));
        let refused = case.tube.put(Put::new("x").sub_queue("n".repeat(256))).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
    });
}
