//! Nothing is lost, nothing is done twice.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::{Claim, Error, FIFO, State, UTUBETTL, WhenFull};

use crate::support::{ALL, Disk, PATIENCE, SUB_QUEUED, block_on, body, drain, eventually, task};

/// Consumers that let every third task go the first time: each task is acked once all the same,
/// and none is left.
#[test]
fn every_task_is_acked_exactly_once() {
    const PRODUCERS: usize = 2;
    const EACH: usize = 40;
    for driver in ALL {
        let mut disk = Disk::new();
        let tube = disk.tube(driver);
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
                let tube = disk.store.session().tube(tube.name()).unwrap();
                let acked = &acked;
                scope.spawn(move || {
                    loop {
                        let taken = if consumer == 0 {
                            block_on(tube.take_async(PATIENCE))
                        } else {
                            tube.take(PATIENCE)
                        };
                        let claim = match taken {
                            Ok(claim) => claim.expect("there was nothing to take for too long"),
                            Err(error) => return assert_eq!(error, Error::Closed),
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
            eventually("all is acked", || acked.lock().unwrap().len() >= PRODUCERS * EACH);
            disk.assert_sound();
            disk.store.close().unwrap();
        });
        let mut acked = acked.into_inner().unwrap();
        acked.sort();
        let all = (0..PRODUCERS).flat_map(|p| (0..EACH).map(move |n| format!("{p}.{n}")));
        assert_eq!(acked, all.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), "{driver}");
        disk.reopen();
        assert_eq!(disk.store.tube(driver).unwrap().statistics().unwrap().tasks.total, 0);
    }
}

#[test]
fn a_sub_queue_has_one_holder_at_a_time_and_keeps_its_order() {
    const SUB_QUEUES: usize = 4;
    const TASKS: usize = 100;
    for driver in SUB_QUEUED {
        let disk = Disk::new();
        let tube = disk.tube(driver);
        let held: [AtomicBool; SUB_QUEUES] = Default::default();
        let last: [AtomicU64; SUB_QUEUES] = Default::default();
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..6 {
                let (tube, held, last, done) = (tube.clone(), &held, &last, &done);
                scope.spawn(move || {
                    loop {
                        let claim = match tube.take(PATIENCE) {
                            Ok(claim) => claim.unwrap(),
                            Err(error) => return assert_eq!(error, Error::Closed),
                        };
                        let sub_queue: usize = claim.sub_queue().unwrap().parse().unwrap();
                        let twice = held[sub_queue].swap(true, Ordering::SeqCst);
                        assert!(!twice, "two tasks of sub-queue {sub_queue} are taken");
                        let before = last[sub_queue].swap(claim.id() + 1, Ordering::SeqCst);
                        assert!(before <= claim.id(), "{} is taken too late", claim.id());
                        thread::yield_now();
                        held[sub_queue].store(false, Ordering::SeqCst);
                        claim.ack().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            for n in 0..TASKS {
                let receipt = tube.deferred(WhenFull::Block).put(task(&tube, "", n % SUB_QUEUES));
                drop(receipt.unwrap());
            }
            eventually("all is done", || done.load(Ordering::SeqCst) >= TASKS);
            assert_eq!(tube.statistics().unwrap().tasks.total, 0);
            disk.store.close().unwrap();
        });
        assert_eq!(done.into_inner(), TASKS);
    }
}

/// The store is closed in the midst of it: what was put and not acked is there afterwards, and a
/// call that was told that the store is closed has done nothing.
#[test]
fn a_close_in_the_midst_of_everything_loses_nothing() {
    let mut disk = Disk::new();
    let tube = disk.tube(UTUBETTL);
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
                    let claim = match tube.take(PATIENCE) {
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
        eventually("some are acked", || acked.lock().unwrap().len() >= 30);
        disk.store.close().unwrap();
    });
    let (put, acked) = (put.into_inner().unwrap(), acked.into_inner().unwrap());
    let mut left: BTreeSet<String> = put.iter().cloned().collect();
    for body in &acked {
        assert!(left.remove(body), "{body} is acked twice, or before it was put");
    }
    disk.reopen();
    disk.assert_sound();
    let there = drain(&disk.store.tube(UTUBETTL).unwrap());
    assert_eq!(there.len(), left.len());
    assert_eq!(there.into_iter().collect::<BTreeSet<_>>(), left);
}

#[test]
fn a_consumer_that_panics_gives_its_task_back() {
    let disk = Disk::new();
    let tube = disk.tube(FIFO);
    let id = tube.put("hard").unwrap().id;
    let panics = thread::spawn({
        let tube = tube.clone();
        move || {
            let claim = tube.try_take().unwrap().unwrap();
            std::panic::resume_unwind(Box::new(claim.id()));
        }
    });
    assert_eq!(*panics.join().unwrap_err().downcast::<u64>().unwrap(), id);
    let again = tube.take(PATIENCE).unwrap().unwrap();
    assert_eq!((again.id(), again.takes()), (id, 2));
}

#[test]
fn one_stale_claim_does_not_bring_the_others_back() {
    for driver in ALL {
        let disk = Disk::new();
        let tube = disk.tube(driver);
        let ids: Vec<u64> = (0..9).map(|n| tube.put(task(&tube, "", n)).unwrap().id).collect();
        let claims = tube.take_many(9, Duration::ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), ids);
        // Somebody else buries one and deletes one, which needs no claim.
        thread::scope(|scope| {
            scope.spawn(|| tube.bury(ids[2]).unwrap());
            scope.spawn(|| tube.delete(ids[5]).unwrap());
        });
        let answers = Claim::ack_many(claims).unwrap();
        let mut commits = BTreeSet::new();
        for (answer, id) in answers.iter().zip(&ids) {
            match answer {
                Ok(receipt) => {
                    assert_eq!((receipt.id, receipt.state), (*id, State::Done));
                    commits.insert(receipt.commit);
                }
                Err(error) => {
                    assert_eq!(*error, Error::NotTaken { id: *id });
                    assert!([ids[2], ids[5]].contains(id));
                }
            }
        }
        assert_eq!((answers.len(), commits.len()), (9, 1), "one commit holds them all");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 7);
        assert_eq!(tube.peek(ids[2]).unwrap().info.state, State::Buried);
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
    }
}
