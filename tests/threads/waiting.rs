//! Those who wait for tasks: in order of arrival, and none for ever.

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tubewell::{
    Error, FIFO, FIFOTTL, LIMFIFOTTL, Put, Store, Tube, TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

use crate::support::{ALL, Disk, FOR_EVER, PATIENCE, block_on, eventually, in_line, ms, task};

#[test]
fn threads_that_wait_are_served_in_the_order_of_their_arrival() {
    const WAITERS: usize = 6;
    for driver in ALL {
        let disk = Disk::new();
        let tube = disk.tube(driver);
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..WAITERS)
                .map(|n| {
                    let tube = &tube;
                    let waiter = scope.spawn(move || {
                        let claim = match n % 3 {
                            0 => tube.take(FOR_EVER),
                            1 => tube.take(PATIENCE),
                            _ => block_on(tube.take_async(PATIENCE)),
                        };
                        claim.unwrap().unwrap().detach().info.id
                    });
                    eventually("he waits", || disk.waiting(tube) == n as u64 + 1);
                    waiter
                })
                .collect();
            let ids: Vec<u64> =
                (0..WAITERS).map(|n| tube.put(task(&tube, "", n)).unwrap().id).collect();
            assert!(tube.try_take().unwrap().is_none(), "somebody was overtaken");
            let served: Vec<u64> = waiters.into_iter().map(|one| one.join().unwrap()).collect();
            assert_eq!(served, ids, "{driver}");
        });
    }
}

/// Whoever stands behind a dropped future gets its task, at whatever moment it is dropped.
#[test]
fn a_future_that_is_dropped_hands_its_task_on() {
    let disk = Disk::new();
    let temporary = TubeOptions::new().temporary(true);
    let tubes = [
        (disk.tube(FIFO), 40),
        (disk.tube(UTUBE), 40),
        (disk.store.create_tube("memory", FIFO, temporary).unwrap(), 300),
    ];
    for (tube, rounds) in &tubes {
        for _ in 0..*rounds {
            let (first, second) = (in_line(tube, FOR_EVER), in_line(tube, PATIENCE));
            let start = Barrier::new(3);
            let (id, overtaker) = thread::scope(|scope| {
                let putter = scope.spawn(|| {
                    start.wait();
                    tube.put(task(tube, "", 0)).unwrap().id
                });
                let overtaker = scope.spawn(|| {
                    start.wait();
                    tube.try_take().unwrap().map(|claim| claim.id())
                });
                start.wait();
                drop(first);
                (putter.join().unwrap(), overtaker.join().unwrap())
            });
            assert_eq!(overtaker, None);
            let claim = block_on(second).unwrap().expect("the task is lost");
            assert_eq!(claim.id(), id);
            claim.ack().unwrap();
        }
        assert_eq!(tube.statistics().unwrap().tasks.total, 0);
    }
}

#[test]
fn a_task_that_comes_as_a_wait_ends_is_taken_or_stays() {
    let disk = Disk::new();
    let temporary = TubeOptions::new().temporary(true);
    let tube = disk.store.create_tube("memory", UTUBETTL, temporary).unwrap();
    let mut taken = 0;
    let mut spins = 100_u64;
    for _ in 0..300 {
        let late = tube.take_async(Duration::from_micros(200));
        let start = Barrier::new(2);
        let (id, claim) = thread::scope(|scope| {
            let putter = scope.spawn(|| {
                start.wait();
                (0..spins).for_each(|_| std::hint::spin_loop());
                tube.put("x").unwrap().id
            });
            start.wait();
            let claim = block_on(late).unwrap();
            (putter.join().unwrap(), claim)
        });
        // Nearer and nearer to the end of the wait, from both sides.
        spins = if claim.is_some() { spins + spins / 4 + 1 } else { spins - spins / 5 };
        let claim = claim.or_else(|| tube.try_take().unwrap()).expect("the task is lost");
        assert_eq!(claim.id(), id);
        claim.ack().unwrap();
        taken += 1;
    }
    assert_eq!(tube.statistics().unwrap().calls.take, taken, "some task was taken twice");
}

#[test]
fn a_take_from_any_of_several_tubes_serves_all_of_them() {
    const EACH: usize = 30;
    let disk = Disk::new();
    let tubes = [FIFO, UTUBE, FIFOTTL].map(|driver| disk.tube(driver));
    let taken = Mutex::new(BTreeMap::<String, usize>::new());
    thread::scope(|scope| {
        for tube in &tubes {
            scope.spawn(move || {
                for n in 0..EACH {
                    tube.put(task(tube, "", n)).unwrap();
                }
            });
        }
        for consumer in 0..3 {
            let (disk, tubes, taken) = (&disk, &tubes, &taken);
            scope.spawn(move || {
                let mut wanted: Vec<&Tube> = tubes.iter().collect();
                wanted.rotate_left(consumer);
                loop {
                    let claim = if consumer == 0 {
                        block_on(disk.store.take_any_async(&wanted, PATIENCE))
                    } else {
                        disk.store.take_any(&wanted, PATIENCE)
                    };
                    let claim = match claim {
                        Ok(claim) => claim.unwrap(),
                        Err(error) => return assert_eq!(error, Error::Closed),
                    };
                    let tube = claim.tube().to_owned();
                    claim.ack().unwrap();
                    *taken.lock().unwrap().entry(tube).or_default() += 1;
                }
            });
        }
        let count = || taken.lock().unwrap().values().sum::<usize>();
        eventually("all is taken", || count() >= EACH * tubes.len());
        eventually("all consumers wait in each tube", || {
            tubes.iter().all(|tube| disk.waiting(tube) == 3)
        });
        disk.store.close().unwrap();
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken, tubes.iter().map(|tube| (tube.name().to_owned(), EACH)).collect());
}

#[test]
fn the_end_of_a_session_wakes_its_threads_and_no_others() {
    let disk = Disk::new();
    let tube = disk.tube(FIFO);
    let ends = disk.store.session();
    let its = ends.tube(tube.name()).unwrap();
    thread::scope(|scope| {
        let ended: Vec<_> = (0..3)
            .map(|n| {
                let its = &its;
                scope.spawn(move || {
                    if n == 0 { block_on(its.take_async(FOR_EVER)) } else { its.take(FOR_EVER) }
                })
            })
            .collect();
        eventually("its three wait", || disk.waiting(&tube) == 3);
        let other = scope.spawn(|| tube.take(PATIENCE));
        eventually("one more waits", || disk.waiting(&tube) == 4);
        ends.end().unwrap();
        for thread in ended {
            assert_eq!(thread.join().unwrap().map(drop), Err(Error::SessionEnded));
        }
        assert_eq!(disk.waiting(&tube), 1);
        let id = tube.put("for the other").unwrap().id;
        assert_eq!(other.join().unwrap().unwrap().unwrap().id(), id);
    });
}

#[test]
fn close_wakes_everyone() {
    let disk = Disk::new();
    let (a, b) = (disk.tube(FIFO), disk.tube(UTUBETTL));
    let full = TubeOptions::new().capacity(1);
    let full = disk.store.create_tube("full", LIMFIFOTTL, full).unwrap();
    full.put("all there is room for").unwrap();
    let held = full.try_take().unwrap().unwrap();
    let events = disk.store.subscribe(10);
    thread::scope(|scope| {
        let takes: Vec<_> = (0..4)
            .map(|n| {
                let (a, b, store) = (&a, &b, &disk.store);
                scope.spawn(move || match n {
                    0 => a.take(FOR_EVER),
                    1 => block_on(a.take_async(FOR_EVER)),
                    2 => store.take_any(&[a, b], FOR_EVER),
                    _ => block_on(store.take_any_async(&[b, a], FOR_EVER)),
                })
            })
            .collect();
        let putter = scope.spawn(|| full.put_wait("no room", FOR_EVER));
        let listener = scope.spawn(|| events.recv());
        eventually("all wait", || {
            disk.waiting(&a) == 4 && disk.waiting(&b) == 2 && disk.waiting_puts(&full) == 1
        });
        disk.store.close().unwrap();
        for take in takes {
            assert_eq!(take.join().unwrap().map(drop), Err(Error::Closed));
        }
        assert_eq!(putter.join().unwrap().map(drop), Err(Error::Closed));
        assert_eq!(listener.join().unwrap(), None);
    });
    // The file is free, whoever still has a handle; and the handles say what they are.
    let again = Store::open(disk.folder.path().join("store.tubewell")).unwrap();
    assert_eq!(again.tubes().len(), 3);
    assert_eq!(disk.store.close(), Ok(()));
    assert_eq!(a.put("x").map(drop), Err(Error::Closed));
    assert_eq!(a.try_take().map(drop), Err(Error::Closed));
    assert_eq!(a.deferred(WhenFull::Block).put("x").map(drop), Err(Error::Closed));
    assert_eq!(held.ack().map(drop), Err(Error::Closed));
}

/// Nobody calls the store meanwhile: its own thread sees to it.
#[test]
fn delays_holds_and_lives_end_by_themselves() {
    for driver in [FIFOTTL, LIMFIFOTTL, UTUBETTL] {
        let disk = Disk::new();
        let tube = disk.tube(driver);
        let id = tube.put(Put::new("later").delay(ms(30)).ttr(ms(30))).unwrap().id;
        let first = tube.take(PATIENCE).unwrap().unwrap();
        let second = tube.take(PATIENCE).unwrap().unwrap();
        assert_eq!((first.id(), second.id(), second.takes()), (id, id, 2));
        assert_eq!(first.ack().map(drop), Err(Error::NotTaken { id }));
        // The second hold may end at any moment too.
        tube.delete(id).unwrap();
        tube.put(Put::new("short").ttl(ms(30))).unwrap();
        eventually("it is gone", || tube.statistics().unwrap().tasks.total == 0);
        assert!(tube.take(ms(10)).unwrap().is_none());
        let calls = tube.statistics().unwrap().calls;
        assert_eq!((calls.delay, calls.ttl), (1, 1));
        assert!(calls.ttr >= 1);
    }
}
