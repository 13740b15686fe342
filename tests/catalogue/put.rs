//! Group A: put and task ids.

use std::collections::BTreeSet;
use std::thread;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::{Bytes, Put, TaskState, TubeOptions};

use super::support::*;

/// A01, A02, A18
#[test]
fn put_returns_ready_task_with_consecutive_id() {
    for_each_driver(ALL, |case| {
        for id in 0..3 {
            let receipt = case.tube.put(case.draft("x")).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, TaskState::Ready));
            assert_eq!(case.state(id), Some(TaskState::Ready));
        }
    });
}

/// A03
#[test]
fn put_does_not_reuse_id_of_deleted_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        case.tube.delete(1).unwrap();
        assert_eq!(case.put("e"), 4);
    });
}

/// A04, A05, A06
/// Difference: an id is never reused, not even the highest.
#[test]
fn put_does_not_reuse_highest_id() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.delete(1).unwrap();
        assert_eq!(case.put("after a delete"), 2);
        case.tube.delete(2).unwrap();
        case.tube.delete(0).unwrap();
        assert_eq!(case.put("after the last delete"), 3);
        assert_eq!(case.take(), Some(3));
        case.tube.claimed(3).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.put("after an ack"), 4);
    });
}

/// A07
/// Difference: a truncate does not reset the ids.
#[test]
fn truncate_does_not_reset_ids() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.tasks(), counts([]));
        assert_eq!(case.put("c"), 2);
    });
}

/// A02
/// Difference: all tubes of a store share one sequence of ids.
#[test]
fn ids_are_unique_across_tubes() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        assert_eq!(case.put("a"), 0);
        assert_eq!(other.put(case.draft("b")).unwrap().id, 1);
        assert_eq!(case.put("c"), 2);
        assert_eq!(state(&other, 0), None);
        assert_eq!(case.state(1), None);
    });
}

/// A08, A09, A18
#[test]
fn peek_and_take_return_body_unchanged() {
    for_each_driver(ALL, |case| {
        let every_byte: Vec<u8> = (0..=255).collect();
        let long: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        for body in [Vec::new(), vec![0], "text, \u{1F347}".as_bytes().to_vec(), every_byte, long] {
            let id = case.add(Put::new(body.clone()));
            let peeked = case.tube.query().task(id).unwrap();
            assert!(peeked.body == body, "peek changed a body of {} bytes", body.len());
            assert_eq!(peeked.info.size, body.len() as u64);
            let claim = case.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.id(), id);
            assert!(claim.body() == body, "take changed a body of {} bytes", body.len());
            claim.ack().unwrap();
        }
    });
}

/// A14
#[test]
fn put_without_options_uses_tube_options() {
    for_each_driver(ALL, |case| {
        let by_text = case.add("x");
        let by_builder = case.add(Put::new("x"));
        let info = |id| {
            let info = case.info(id);
            (info.state, info.priority, info.sub_queue, info.ttl_left, info.ttr, info.size)
        };
        assert_eq!(info(by_text), info(by_builder));
        assert_eq!(
            info(by_text),
            (TaskState::Ready, tubewell::DEFAULT_PRIORITY, None, None, None, 1)
        );
    });
}

/// A12, A13
/// Difference: an option that the driver does not support is rejected, and nothing is stored.
#[test]
fn put_rejects_option_unsupported_by_driver() {
    let assert_rejected = |case: &Case, put: Put| {
        assert_unsupported(case.tube.put(put), case.driver);
        assert_eq!(case.tasks(), counts([]));
        assert_eq!(case.calls(), counts([]));
    };
    for_each_driver(UNTIMED, |case| {
        assert_rejected(case, Put::new("x".into()).priority(5));
        assert_rejected(case, Put::new("x".into()).ttl(secs(60)));
        assert_rejected(case, Put::new("x".into()).ttr(secs(60)));
        assert_rejected(case, Put::new("x".into()).delay(secs(100)));
    });
    for_each_driver(&[FIFO, FIFOTTL, LIMFIFOTTL], |case| {
        assert_rejected(case, Put::new("x".into()).sub_queue("q"));
    });
}

/// Q23, A15
/// Difference: a rejected put leaves no open transaction, so the next put is durable.
#[test]
fn put_after_rejected_put_survives_restart() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", TubeOptions::default().driver(driver)).unwrap();
        let timed = TIMED.contains(driver);
        let rejected = if timed {
            Put::new("x").sub_queue("n".repeat(256))
        } else {
            Put::new("x").priority(1)
        };
        assert!(tube.put(rejected.clone()).is_err());
        tube.put("after it").unwrap();
        assert!(tube.put_many([Put::new("x"), rejected]).is_err());
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.try_take().unwrap().unwrap().body(), b"after it");
        assert_eq!(tasks(&tube), counts([("ready", 1), ("total", 1)]));
        assert_sound(&store);
    }
}

/// A17
#[test]
fn concurrent_puts_get_unique_ids() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
    let ids: BTreeSet<u64> = thread::scope(|scope| {
        let putting: Vec<_> = (0..50)
            .map(|n| {
                scope.spawn({
                    let tube = &tube;
                    move || tube.put(format!("task {n}")).unwrap().id
                })
            })
            .collect();
        putting.into_iter().map(|put| put.join().unwrap()).collect()
    });
    assert_eq!(ids, (0..50).collect());
    let bodies: BTreeSet<Bytes> =
        ids.iter().map(|id| tube.query().task(*id).unwrap().body).collect();
    assert_eq!(bodies, (0..50).map(|n| format!("task {n}").into()).collect());
    assert_sound(&store);
}
