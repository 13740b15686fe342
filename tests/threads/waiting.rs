//! Takes that wait for a task: they are served in order of arrival, and each wait ends.

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use tubewell::{Error, FIFO, FIFOTTL, Filter, LIMFIFOTTL, Put, Tube, TubeOptions, UTUBE, UTUBETTL};

use super::support::{
    ALL_DRIVERS, FileStore, HANGS_AFTER, NO_TIMEOUT, block_on, blocking, eventually, ms, task,
    waiting_take,
};
use crate::stores;

#[test]
fn waiting_takers_are_served_in_order_of_arrival() {
    const WAITERS: usize = 6;
    for driver in ALL_DRIVERS {
        let file = FileStore::new();
        let tube = file.tube(driver);
        thread::scope(|scope| {
            let waiters: Vec<_> = (0..WAITERS)
                .map(|n| {
                    let tube = &tube;
                    let waiter = scope.spawn(move || {
                        let claim = match n % 3 {
                            0 => tube.take_timeout(NO_TIMEOUT),
                            1 => tube.take_timeout(HANGS_AFTER),
                            _ => blocking(tube.to_async().take_timeout(HANGS_AFTER)),
                        };
                        claim.unwrap().unwrap().detach().info.id
                    });
                    eventually("the taker waits", || file.waiting(tube) == n as u64 + 1);
                    waiter
                })
                .collect();
            let ids: Vec<u64> =
                (0..WAITERS).map(|n| tube.put(task(&tube, "", n)).unwrap().id).collect();
            assert!(tube.try_take().unwrap().is_none(), "a task was left for a later take");
            let served: Vec<u64> = waiters.into_iter().map(|one| one.join().unwrap()).collect();
            assert_eq!(served, ids, "{driver}");
        });
    }
}

/// The next waiting taker gets the task of a dropped future, whenever the future is dropped.
#[test]
fn dropped_take_future_passes_its_task_to_next_waiting_taker() {
    let file = FileStore::new();
    let temporary = TubeOptions::new().temporary(true);
    let tubes = [
        (file.tube(FIFO), 40),
        (file.tube(UTUBE), 40),
        (file.store.create_tube("memory", temporary.driver(FIFO)).unwrap(), 300),
    ];
    for (tube, rounds) in &tubes {
        for _ in 0..*rounds {
            let (first, second) = (waiting_take(tube, NO_TIMEOUT), waiting_take(tube, HANGS_AFTER));
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
            claim.ack().wait().unwrap();
        }
        assert_eq!(tube.statistics().unwrap().tasks.total, 0);
    }
}

#[test]
fn task_put_as_a_wait_times_out_is_taken_or_stays_ready() {
    let file = FileStore::new();
    let temporary = TubeOptions::new().temporary(true);
    let tube = file.store.create_tube("memory", temporary.driver(UTUBETTL)).unwrap();
    let mut taken = 0;
    let mut spins = 100_u64;
    for _ in 0..300 {
        let late = tube.to_async().take_timeout(Duration::from_micros(200));
        let start = Barrier::new(2);
        let (id, claim) = thread::scope(|scope| {
            let putter = scope.spawn(|| {
                start.wait();
                (0..spins).for_each(|_| std::hint::spin_loop());
                tube.put("x").unwrap().id
            });
            start.wait();
            let claim = blocking(late).unwrap();
            (putter.join().unwrap(), claim)
        });
        // Approaches the timeout from both sides.
        spins = if claim.is_some() { spins + spins / 4 + 1 } else { spins - spins / 5 };
        let claim = claim.or_else(|| tube.try_take().unwrap()).expect("the task is lost");
        assert_eq!(claim.id(), id);
        claim.ack().unwrap();
        taken += 1;
    }
    assert_eq!(tube.statistics().unwrap().calls.take, taken, "a task was taken twice");
}

#[test]
fn take_any_takes_from_each_of_its_tubes() {
    const EACH: usize = 30;
    let file = FileStore::new();
    let tubes = [FIFO, UTUBE, FIFOTTL].map(|driver| file.tube(driver));
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
            let (file, tubes, taken) = (&file, &tubes, &taken);
            scope.spawn(move || {
                let mut wanted: Vec<&Tube> = tubes.iter().collect();
                wanted.rotate_left(consumer);
                loop {
                    let claim = if consumer == 0 {
                        blocking(file.store.to_async().take_any(&wanted, HANGS_AFTER))
                    } else {
                        file.store.take_any(&wanted, HANGS_AFTER)
                    };
                    let claim = match claim {
                        Ok(claim) => claim.unwrap(),
                        Err(error) => return assert!(stores::is_closed(&error)),
                    };
                    let tube = claim.tube().to_owned();
                    claim.ack().unwrap();
                    *taken.lock().unwrap().entry(tube).or_default() += 1;
                }
            });
        }
        let count = || taken.lock().unwrap().values().sum::<usize>();
        eventually("all tasks are taken", || count() >= EACH * tubes.len());
        eventually("all consumers wait in each tube", || {
            tubes.iter().all(|tube| file.waiting(tube) == 3)
        });
        stores::close(&file.store);
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken, tubes.iter().map(|tube| (tube.name().to_owned(), EACH)).collect());
}

#[test]
fn ended_session_wakes_only_its_own_waiting_takers() {
    let file = FileStore::new();
    let tube = file.tube(FIFO);
    let ends = file.store.session("").unwrap();
    let its = ends.tube(&tube).unwrap();
    thread::scope(|scope| {
        let ended: Vec<_> = (0..3)
            .map(|n| {
                let its = &its;
                scope.spawn(move || {
                    if n == 0 {
                        blocking(its.to_async().take_timeout(NO_TIMEOUT))
                    } else {
                        its.take_timeout(NO_TIMEOUT)
                    }
                })
            })
            .collect();
        eventually("three takers of the session wait", || file.waiting(&tube) == 3);
        let other = scope.spawn(|| tube.take_timeout(HANGS_AFTER));
        eventually("the other taker waits", || file.waiting(&tube) == 4);
        ends.end().unwrap();
        for thread in ended {
            assert_eq!(thread.join().unwrap().map(drop), Err(Error::SessionEnded));
        }
        assert_eq!(file.waiting(&tube), 1);
        let id = tube.put("for the other").unwrap().id;
        assert_eq!(other.join().unwrap().unwrap().unwrap().id(), id);
    });
}

#[test]
fn close_wakes_every_waiter() {
    let file = FileStore::new();
    let (a, b) = (file.tube(FIFO), file.tube(UTUBETTL));
    let full = TubeOptions::new().capacity(1);
    let full = file.store.create_tube("full", full.driver(LIMFIFOTTL)).unwrap();
    full.put("fills the tube").unwrap();
    let held = full.try_take().unwrap().unwrap();
    let events = file.store.events(Filter::new(), 10).unwrap();
    thread::scope(|scope| {
        let takes: Vec<_> = (0..4)
            .map(|n| {
                let (a, b, store) = (&a, &b, &file.store);
                scope.spawn(move || match n {
                    0 => a.take_timeout(NO_TIMEOUT),
                    1 => blocking(a.to_async().take_timeout(NO_TIMEOUT)),
                    2 => store.take_any(&[a, b], NO_TIMEOUT),
                    _ => blocking(store.to_async().take_any(&[b, a], NO_TIMEOUT)),
                })
            })
            .collect();
        let putter = scope.spawn(|| full.put_timeout("no space", NO_TIMEOUT));
        let subscriber = scope.spawn(|| events.recv());
        eventually("all waiters wait", || {
            file.waiting(&a) == 4 && file.waiting(&b) == 2 && file.waiting_puts(&full) == 1
        });
        let closing = stores::begin_close(&file.store);
        for take in takes {
            assert!(stores::is_closed(&take.join().unwrap().unwrap_err()));
        }
        assert!(stores::is_closed(&putter.join().unwrap().unwrap_err()));
        drop(closing);
        assert_eq!(subscriber.join().unwrap(), None);
    });
    // The file is free although handles exist, and the handles return `Closed`.
    let again = stores::open(file.folder.path().join("store.tubewell"));
    assert_eq!(again.tubes().unwrap().len(), 3);
    assert_eq!(file.store.close(), Ok(()));
    assert_eq!(a.put("x").map(drop), Err(Error::Closed));
    assert_eq!(a.try_take().map(drop), Err(Error::Closed));
    let deferred = a.to_async().put("x").wait();
    assert_eq!(deferred.map(drop), Err(Error::Closed));
    assert_eq!(held.ack().map(drop), Err(Error::Closed));
}

/// The sweeper thread processes due tasks without any call.
#[test]
fn delay_ttr_and_ttl_elapse_without_a_call() {
    for driver in [FIFOTTL, LIMFIFOTTL, UTUBETTL] {
        let file = FileStore::new();
        let tube = file.tube(driver);
        let id = tube.put(Put::new("later").delay(ms(30)).ttr(ms(30))).unwrap().id;
        let first = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        let second = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
        assert_eq!((first.id(), second.id(), second.takes()), (id, id, 2));
        assert_eq!(first.ack().map(drop), Err(Error::NotTaken { id }));
        // The second claim may expire at any time too.
        tube.delete(id).unwrap();
        tube.put(Put::new("short").ttl(ms(30))).unwrap();
        eventually("its ttl elapses", || tube.statistics().unwrap().tasks.total == 0);
        assert!(tube.take_timeout(ms(10)).unwrap().is_none());
        let calls = tube.statistics().unwrap().calls;
        assert_eq!((calls.delay, calls.ttl), (1, 1));
        assert!(calls.ttr >= 1);
    }
}

/// With the clocks of the machine: the sweeper wakes at the moment.
#[test]
#[expect(clippy::disallowed_methods, reason = "the moment is one of the machine's clock")]
fn waiting_taker_gets_a_task_at_its_moment() {
    let file = FileStore::new();
    let tube = file.tube(FIFOTTL);
    for wait in [ms(0), ms(1), ms(60)] {
        let moment = SystemTime::now() + wait;
        let id = tube.put(Put::new("x").not_before(moment)).unwrap().id;
        let claim = tube.take_timeout(NO_TIMEOUT).unwrap().unwrap();
        assert_eq!(claim.id(), id);
        assert!(SystemTime::now() >= moment);
        claim.ack().unwrap();
    }
}
