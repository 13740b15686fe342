//! Delivery: no task is lost, and none is acked twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::{Claim, Durability, Error, FIFO, Outcome, TaskState, UTUBETTL};

use super::support::{
    ALL_DRIVERS, FileStore, HANGS_AFTER, SUB_QUEUE_DRIVERS, all_durabilities, blocking, body,
    drain, eventually, task,
};
use crate::stores;

/// Consumers release every third task the first time. Each task is still acked once, and none is
/// left.
#[test]
fn every_task_is_acked_exactly_once() {
    const PRODUCERS: usize = 2;
    const EACH: usize = 40;
    let durabilities = all_durabilities().into_iter();
    for (durability, driver) in durabilities.flat_map(|one| ALL_DRIVERS.map(|driver| (one, driver)))
    {
        let mut file = FileStore::with_durability(durability);
        let tube = file.tube(driver);
        let acked = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let tube = tube.clone();
                scope.spawn(move || {
                    for n in 0..EACH {
                        tube.put(task(&tube, &format!("{producer}.{n}"), n % 5)).unwrap();
                    }
                });
            }
            for consumer in 0..3 {
                let tube = file.store.session("").unwrap().tube(&tube).unwrap();
                let acked = &acked;
                scope.spawn(move || {
                    loop {
                        let taken = if consumer == 0 {
                            blocking(tube.to_async().take_timeout(HANGS_AFTER))
                        } else {
                            tube.take_timeout(HANGS_AFTER)
                        };
                        let claim = match taken {
                            Ok(claim) => claim.expect("take timed out"),
                            Err(error) => return assert!(stores::is_closed(&error)),
                        };
                        if claim.id().is_multiple_of(3) && claim.takes() == 1 {
                            drop(claim);
                            continue;
                        }
                        let body = body(&claim);
                        claim.ack().unwrap();
                        acked.lock().unwrap().push(body);
                    }
                });
            }
            eventually("all tasks are acked", || acked.lock().unwrap().len() >= PRODUCERS * EACH);
            file.assert_verified();
            stores::close(&file.store);
        });
        let mut acked = acked.into_inner().unwrap();
        acked.sort();
        let all = (0..PRODUCERS).flat_map(|p| (0..EACH).map(move |n| format!("{p}.{n}")));
        assert_eq!(
            acked,
            all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(),
            "{driver}, {durability}"
        );
        file.reopen();
        assert_eq!(file.store.find_tube(driver).unwrap().statistics().unwrap().tasks.total, 0);
    }
}

#[test]
fn sub_queue_has_one_holder_at_a_time_in_fifo_order() {
    const SUB_QUEUES: usize = 4;
    const TASKS: usize = 100;
    for driver in SUB_QUEUE_DRIVERS {
        let file = FileStore::new();
        let tube = file.tube(driver);
        let held: [AtomicBool; SUB_QUEUES] = Default::default();
        let last: [AtomicU64; SUB_QUEUES] = Default::default();
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..6 {
                let (tube, held, last, done) = (tube.clone(), &held, &last, &done);
                scope.spawn(move || {
                    loop {
                        let claim = match tube.take_timeout(HANGS_AFTER) {
                            Ok(claim) => claim.unwrap(),
                            Err(error) => return assert!(stores::is_closed(&error)),
                        };
                        let sub_queue: usize = claim.sub_queue().unwrap().parse().unwrap();
                        let twice = held[sub_queue].swap(true, Ordering::SeqCst);
                        assert!(!twice, "two tasks of sub-queue {sub_queue} are taken");
                        let before = last[sub_queue].swap(claim.id() + 1, Ordering::SeqCst);
                        assert!(before <= claim.id(), "task {} is taken out of order", claim.id());
                        thread::yield_now();
                        held[sub_queue].store(false, Ordering::SeqCst);
                        claim.ack().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for n in 0..TASKS {
                let receipt = tube.to_async().put(task(&tube, "", n % SUB_QUEUES));
                drop(receipt);
            }
            eventually("all tasks are done", || done.load(Ordering::SeqCst) >= TASKS);
            assert_eq!(tube.statistics().unwrap().tasks.total, 0);
            stores::close(&file.store);
        });
        assert_eq!(done.into_inner(), TASKS);
    }
}

/// After a close under load, the store has every task that was put and not acked. A call that
/// returned `Closed` has changed nothing.
#[test]
fn close_under_load_loses_no_acknowledged_call() {
    all_durabilities().into_iter().for_each(close_under_load);
}

fn close_under_load(durability: Durability) {
    let mut file = FileStore::with_durability(durability);
    let tube = file.tube(UTUBETTL);
    let (put, acked) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for producer in 0..2 {
            let (tube, put) = (&tube, &put);
            scope.spawn(move || {
                for n in 0.. {
                    let body = format!("{producer}.{n}");
                    match tube.put(task(tube, &body, n % 7)) {
                        Ok(_) => put.lock().unwrap().push(body),
                        Err(error) => return assert_eq!(error, Error::Closed),
                    }
                }
            });
        }
        for _ in 0..2 {
            let (tube, acked) = (&tube, &acked);
            scope.spawn(move || {
                loop {
                    let claim = match tube.take_timeout(HANGS_AFTER) {
                        Ok(claim) => claim.unwrap(),
                        Err(error) => return assert_eq!(error, Error::Closed),
                    };
                    let body = body(&claim);
                    match claim.ack() {
                        Ok(_) => acked.lock().unwrap().push(body),
                        Err(error) => return assert_eq!(error, Error::Closed),
                    }
                }
            });
        }
        eventually("some tasks are acked", || acked.lock().unwrap().len() >= 30);
        stores::close(&file.store);
    });
    let (put, acked) = (put.into_inner().unwrap(), acked.into_inner().unwrap());
    let mut left: BTreeSet<String> = put.iter().cloned().collect();
    for body in &acked {
        assert!(left.remove(body), "{body} is acked twice, or before it was put");
    }
    file.reopen();
    file.assert_verified();
    let found = drain(&file.store.find_tube(UTUBETTL).unwrap());
    assert_eq!(found.len(), left.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), left);
}

#[test]
fn panicking_consumer_releases_its_task() {
    let file = FileStore::new();
    let tube = file.tube(FIFO);
    let id = tube.put("hard").unwrap().id;
    let panics = thread::spawn({
        let tube = tube.clone();
        move || {
            let claim = tube.try_take().unwrap().unwrap();
            std::panic::resume_unwind(Box::new(claim.id()));
        }
    });
    assert_eq!(*panics.join().unwrap_err().downcast::<u64>().unwrap(), id);
    let again = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
    assert_eq!((again.id(), again.takes()), (id, 2));
}

#[test]
fn ack_many_acks_current_claims_and_refuses_stale_ones() {
    for driver in ALL_DRIVERS {
        let file = FileStore::new();
        let tube = file.tube(driver);
        let ids: Vec<u64> = (0..9).map(|n| tube.put(task(&tube, "", n)).unwrap().id).collect();
        let claims = tube.take_many(9, Duration::ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), ids);
        // Other threads bury one task and delete one, which needs no claim.
        thread::scope(|scope| {
            scope.spawn(|| tube.admin().bury(ids[2], None).unwrap());
            scope.spawn(|| tube.delete(ids[5]).unwrap());
        });
        let answers = Claim::end_many(claims, |_| Outcome::done()).unwrap();
        let mut commits = BTreeSet::new();
        for (answer, id) in answers.iter().zip(&ids) {
            match answer {
                Ok(receipt) => {
                    assert_eq!((receipt.id, receipt.state), (*id, TaskState::Done));
                    commits.insert(receipt.commit);
                }
                Err(error) => {
                    assert_eq!(*error, Error::NotTaken { id: *id });
                    assert!([ids[2], ids[5]].contains(id));
                }
            }
        }
        assert_eq!((answers.len(), commits.len()), (9, 1), "all acks must share one commit");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 7);
        assert_eq!(tube.query().task(ids[2]).unwrap().info.state, TaskState::Buried);
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
    }
}
