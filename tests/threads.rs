//! Real threads, nearly always on a real file: nothing is lost, nothing is done twice, nobody
//! overtakes, nobody waits for ever.
//!
//! Nothing here sleeps. A test waits for a state that it can see ([`eventually`]), or in a call
//! with a time limit that is never reached ([`PATIENCE`]), so that what would hang fails instead.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tubewell::{
    Claim, Error, FIFO, FIFOTTL, LIMFIFOTTL, Put, State, Storage, Store, TakeFuture, Tube,
    TubeInfo, TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

const ALL: [&str; 5] = [FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];
const SUB_QUEUED: [&str; 2] = [UTUBE, UTUBETTL];

const FOR_EVER: Option<Duration> = None;

/// Far longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits until it is so.
#[expect(clippy::disallowed_methods, reason = "only to fail instead of waiting for ever")]
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::yield_now();
    }
}

/// A store in a file of its own.
struct Disk {
    folder: TempDir,
    store: Store,
}

impl Disk {
    fn new() -> Disk {
        let folder = TempDir::new().unwrap();
        let store = Store::open(folder.path().join("store.tubewell")).unwrap();
        Disk { folder, store }
    }

    fn tube(&self, driver: &str) -> Tube {
        self.store.create_tube(driver, driver, TubeOptions::new()).unwrap()
    }

    /// How many takes wait in this tube.
    fn waiting(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting
    }

    /// How many puts wait for room in it.
    fn waiting_puts(&self, tube: &Tube) -> u64 {
        self.info(tube).waiting_puts
    }

    fn info(&self, tube: &Tube) -> TubeInfo {
        self.store.tubes().into_iter().find(|info| info.name == tube.name()).unwrap()
    }

    /// Closes the store for all and opens it again.
    fn reopen(&mut self) {
        self.store.close().unwrap();
        self.store = Store::open(self.folder.path().join("store.tubewell")).unwrap();
    }

    fn assert_sound(&self) {
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
    }
}

/// A task in one of so many sub-queues, if the tube has such.
fn task(tube: &Tube, body: &str, sub_queue: usize) -> Put {
    let put = Put::new(body);
    if SUB_QUEUED.contains(&tube.driver()) { put.sub_queue(sub_queue.to_string()) } else { put }
}

fn body(claim: &Claim) -> String {
    String::from_utf8(claim.data().to_vec()).unwrap()
}

/// What is ready in the tube.
fn drain(tube: &Tube) -> Vec<String> {
    std::iter::from_fn(|| {
        let claim = tube.try_take().unwrap()?;
        let body = body(&claim);
        claim.ack().unwrap();
        Some(body)
    })
    .collect()
}

// ---- a very small executor

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

/// A take that stands in line already.
fn in_line(tube: &Tube, timeout: impl Into<Option<Duration>>) -> Pin<Box<TakeFuture>> {
    let mut future = Box::pin(tube.take_async(timeout));
    let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending(), "there was something to take");
    future
}

// ---- nothing is lost, nothing is done twice

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

// ---- those who wait

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

// ---- room

#[test]
fn a_bounded_tube_is_never_over_its_capacity_and_nobody_waits_for_room_in_vain() {
    const CAPACITY: u64 = 3;
    const EACH: usize = 25;
    let disk = Disk::new();
    let bounded = TubeOptions::new().capacity(CAPACITY);
    let tube = disk.store.create_tube("bounded", LIMFIFOTTL, bounded).unwrap();
    let most = AtomicU64::new(0);
    let look = || {
        let tasks = tube.statistics().unwrap().tasks;
        most.fetch_max(tasks.total, Ordering::SeqCst);
    };
    let mut done = Vec::new();
    thread::scope(|scope| {
        for producer in 0..4 {
            let (tube, look) = (&tube, &look);
            scope.spawn(move || {
                for n in 0..EACH {
                    tube.put_wait(format!("{producer}.{n:02}"), PATIENCE).unwrap();
                    look();
                }
            });
        }
        eventually("it is full", || tube.statistics().unwrap().tasks.total == CAPACITY);
        while done.len() < 4 * EACH {
            let claim = tube.take(PATIENCE).unwrap().unwrap();
            done.push(body(&claim));
            claim.ack().unwrap();
            look();
        }
    });
    assert_eq!(most.into_inner(), CAPACITY);
    for producer in 0..4 {
        let prefix = format!("{producer}.");
        let its: Vec<_> = done.iter().filter(|body| body.starts_with(&prefix)).collect();
        assert!(its.len() == EACH && its.is_sorted(), "{its:?}");
    }
}

#[test]
fn puts_that_wait_for_room_get_it_in_the_order_of_their_arrival() {
    let disk = Disk::new();
    let bounded = TubeOptions::new().capacity(1);
    let tube = disk.store.create_tube("bounded", LIMFIFOTTL, bounded).unwrap();
    tube.put("first").unwrap();
    thread::scope(|scope| {
        let putters: Vec<_> = (0..6_u32)
            .map(|n| {
                // The most urgent come last; it is arrival that counts.
                let (tube, put) = (&tube, Put::new(n.to_string()).pri(9 - n));
                let putter = scope.spawn(move || tube.put_wait(put, PATIENCE).unwrap().id);
                eventually("it waits", || disk.waiting_puts(tube) == u64::from(n) + 1);
                putter
            })
            .collect();
        let full = Error::Full { tube: "bounded".into(), capacity: 1 };
        assert_eq!(tube.put("x"), Err(full.clone()));
        assert_eq!(tube.put_wait("x", ms(1)), Err(full));
        let mut served = Vec::new();
        for _ in 0..7 {
            let claim = tube.take(PATIENCE).unwrap().unwrap();
            served.push(body(&claim));
            claim.ack().unwrap();
        }
        assert_eq!(served, ["first", "0", "1", "2", "3", "4", "5"]);
        let ids = putters.into_iter().map(|putter| putter.join().unwrap());
        assert!(ids.collect::<Vec<_>>().is_sorted());
    });
}

// ---- deferred calls

#[test]
fn one_thread_keeps_hundreds_of_calls_in_flight() {
    const CALLS: usize = 500;
    for driver in ALL {
        let disk = Disk::new();
        let tube = disk.tube(driver);
        let deferred = tube.deferred(WhenFull::Block);
        let puts: Vec<_> = (0..CALLS).map(|n| deferred.put(task(&tube, "", n)).unwrap()).collect();
        let mut commits = HashMap::<u64, usize>::new();
        let mut ids = Vec::new();
        for (n, ticket) in puts.into_iter().enumerate() {
            let receipt = if n % 2 == 0 { ticket.wait() } else { block_on(ticket) }.unwrap();
            assert_eq!(receipt.state, State::Ready);
            ids.push(receipt.id);
            *commits.entry(receipt.commit).or_default() += 1;
        }
        assert!(ids.is_sorted_by(|one, next| one < next));
        assert!(commits.len() < CALLS / 2, "{} commits for {CALLS} calls", commits.len());

        let claims = tube.take_many(CALLS, Duration::ZERO).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), ids);
        let acks: Vec<_> =
            claims.into_iter().map(|claim| deferred.ack_claim(claim).unwrap()).collect();
        // Nobody fetches every third answer; the call happens all the same.
        let kept: Vec<_> =
            acks.into_iter().enumerate().filter(|(n, _)| n % 3 > 0).map(|(_, ack)| ack).collect();
        let commit = disk.store.flush().unwrap();
        for ticket in kept {
            assert!(ticket.is_done());
            let receipt = ticket.wait().unwrap();
            assert!(receipt.state == State::Done && receipt.commit <= commit);
        }
        let numbers = tube.statistics().unwrap();
        assert_eq!((numbers.tasks.total, numbers.calls.ack), (0, CALLS as u64));
        disk.assert_sound();
    }
}

/// Bytes in memory whose flushes can be held up.
#[derive(Debug, Default)]
struct Gate {
    bytes: Mutex<Vec<u8>>,
    shut: Mutex<bool>,
    opened: Condvar,
    /// How many flushes are held up.
    held: AtomicUsize,
}

#[derive(Debug)]
struct Gated(Arc<Gate>);

impl Gate {
    fn open_store(self: &Arc<Gate>, rows: usize) -> Store {
        let storage = Box::new(Gated(Arc::clone(self)));
        Store::options().max_pending(rows, 1 << 20).open_on(storage).unwrap()
    }

    fn shut(&self) {
        *self.shut.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

fn range(offset: u64, len: usize) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + len
}

impl Storage for Gated {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        let found = bytes.get(range(offset, out.len())).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.held.fetch_add(1, Ordering::SeqCst);
        let shut = self.0.shut.lock().unwrap();
        drop(self.0.opened.wait_while(shut, |shut| *shut).unwrap());
        self.0.held.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.bytes.lock().unwrap()[range(offset, data.len())].copy_from_slice(data);
        Ok(())
    }
}

/// What comes while a flush is under way goes into the next one together; takes and peeks do not
/// wait for it.
#[test]
fn callers_share_the_next_flush_and_takes_wait_for_none() {
    let gate = Arc::new(Gate::default());
    let store = gate.open_store(10_000);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let there = tube.put("there").unwrap().id;
    let deferred = tube.deferred(WhenFull::Block);
    gate.shut();
    let first = deferred.put("first").unwrap();
    eventually("its flush is held up", || gate.held.load(Ordering::SeqCst) == 1);
    let others: Vec<_> = (0..100).map(|n| deferred.put(format!("{n}")).unwrap()).collect();

    let (sender, answers) = mpsc::channel();
    let taker = thread::spawn({
        let tube = tube.clone();
        move || {
            let claim = tube.take(PATIENCE).unwrap().unwrap();
            sender.send(claim.id()).unwrap();
            claim.release(Duration::ZERO).unwrap();
            let claim = tube.take(PATIENCE).unwrap().unwrap();
            sender.send(claim.detach().info.id).unwrap();
            sender.send(tube.statistics().unwrap().tasks.total).unwrap();
        }
    });
    let answers = [(); 3].map(|()| answers.recv_timeout(PATIENCE));
    let early = first.is_done() || others.iter().any(tubewell::Ticket::is_done);
    gate.open();
    taker.join().unwrap();
    assert_eq!(answers, [Ok(there), Ok(there), Ok(1)], "somebody waited for a flush");
    assert!(!early, "a call was answered before its flush");
    let first = first.wait().unwrap().commit;
    let others: BTreeSet<u64> = others.into_iter().map(|one| one.wait().unwrap().commit).collect();
    assert_eq!(others, BTreeSet::from([first + 1]));
    drop((tube, deferred, store));
}

#[test]
fn deferred_calls_are_held_up_or_refused_when_too_much_waits_and_none_is_forgotten() {
    let gate = Arc::new(Gate::default());
    let store = gate.open_store(20);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let (refuses, blocks) = (tube.deferred(WhenFull::Refuse), tube.deferred(WhenFull::Block));
    let fill = || {
        gate.shut();
        let mut tickets = vec![blocks.put("held up in its flush").unwrap()];
        eventually("its flush is held up", || gate.held.load(Ordering::SeqCst) == 1);
        loop {
            match refuses.put("queued") {
                Ok(ticket) => tickets.push(ticket),
                Err(error) => {
                    assert_eq!(error, Error::Overloaded);
                    break tickets;
                }
            }
            assert!(tickets.len() <= 100, "20 rows are to wait, and so much does");
        }
    };

    // Who is held up goes on when there is room.
    let tickets = fill();
    let put = thread::scope(|scope| {
        let late = scope.spawn(|| blocks.put("late").unwrap().wait().unwrap().id);
        gate.open();
        let ids: Vec<u64> = tickets.into_iter().map(|one| one.wait().unwrap().id).collect();
        let late = late.join().unwrap();
        assert!(ids.is_sorted() && ids.last() < Some(&late));
        ids.len() + 1
    });
    assert_eq!(tube.statistics().unwrap().tasks.ready, put as u64);

    // Who is held up when the store is closed is told so; what was accepted is written.
    let tickets = fill();
    thread::scope(|scope| {
        let (sender, answer) = mpsc::channel();
        scope.spawn(move || sender.send(blocks.put("too late").map(drop)).unwrap());
        let closer = scope.spawn(|| store.close());
        let answer = answer.recv_timeout(PATIENCE);
        gate.open();
        assert_eq!(answer, Ok(Err(Error::Closed)));
        assert_eq!(closer.join().unwrap(), Ok(()));
    });
    let accepted = tickets.len();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let store = gate.open_store(20);
    let tube = store.tube("work").unwrap();
    assert_eq!(drain(&tube).len(), put + accepted);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

// ---- threads of the store's own

/// Counts all threads of the process, so it runs once more in a process of its own.
#[cfg(target_os = "linux")]
#[test]
fn no_thread_is_left_when_the_last_handle_has_gone() {
    const ALONE: &str = "TUBEWELL_TEST_ALONE";
    const HANDLES: usize = 7;
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_thread_is_left_when_the_last_handle_has_gone"])
            .args(["--test-threads=1", "--nocapture"])
            .env(ALONE, "yes")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && told.contains("1 passed"),
            "{told}{}",
            String::from_utf8_lossy(&alone.stderr)
        );
        return;
    }
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    for order in 0..2 * HANDLES {
        let mut handles = handles(&path);
        assert_eq!(handles.len(), HANDLES);
        assert!(threads() > before, "a store has threads of its own");
        if order >= HANDLES {
            handles.reverse();
        }
        handles.rotate_left(order % HANDLES);
        for handle in handles {
            drop(handle);
        }
        // The system may show a thread for a moment after it was joined.
        eventually("they are gone", || threads() == before);
        // Nothing of it is left in the file either.
        let store = Store::open(&path).unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0]);
        store.tube("work").unwrap().truncate().unwrap();
        store.close().unwrap();
        eventually("they are gone", || threads() == before);
    }
    // A handle that outlives a close holds no thread.
    let store = Store::open(&path).unwrap();
    store.close().unwrap();
    eventually("they are gone", || threads() == before);
    drop(store);
    assert_eq!(threads(), before);
}

/// Of everything that keeps a store open, one.
#[cfg(target_os = "linux")]
fn handles(path: &std::path::Path) -> Vec<Box<dyn Any>> {
    let store = Store::open(path).unwrap();
    let options = TubeOptions::new().if_not_exists(true);
    let tube = store.create_tube("work", FIFOTTL, options).unwrap();
    tube.on_task_change(Some(Arc::new(|_: &tubewell::Event| {}))).unwrap();
    let session = store.session();
    tube.put("held").unwrap();
    let claim = session.tube("work").unwrap().try_take().unwrap().unwrap();
    tube.put(Put::new("later").delay(PATIENCE)).unwrap();
    let waits = in_line(&tube, FOR_EVER);
    let ticket = tube.deferred(WhenFull::Block).put(Put::new("last").delay(PATIENCE)).unwrap();
    let events = store.subscribe(10);
    vec![
        Box::new(store),
        Box::new(tube),
        Box::new(session),
        Box::new(claim),
        Box::new(ticket),
        Box::new(waits),
        Box::new(events),
    ]
}

/// A callback drops the last handle: the store is closed by its own thread.
#[test]
fn the_last_handle_may_go_on_a_thread_of_the_store() {
    let disk = Disk::new();
    let tube = disk.tube(FIFO);
    let (sender, all_others_gone) = mpsc::channel();
    let (closed, is_closed) = mpsc::channel();
    let last = Mutex::new(Some((disk.store.clone(), all_others_gone)));
    let callback = move |_: &tubewell::Event| {
        if let Some((store, all_others_gone)) = last.lock().unwrap().take() {
            all_others_gone.recv_timeout(PATIENCE).unwrap();
            drop(store);
            closed.send(()).unwrap();
        }
    };
    tube.on_task_change(Some(Arc::new(callback))).unwrap();
    tube.put("x").unwrap();
    let Disk { folder, store } = disk;
    drop((tube, store));
    sender.send(()).unwrap();
    is_closed.recv_timeout(PATIENCE).unwrap();
    let store = Store::open(folder.path().join("store.tubewell")).unwrap();
    assert_eq!(store.tube(FIFO).unwrap().statistics().unwrap().tasks.ready, 1);
}
