//! A defect inside the store, simulated by a driver that panics. The store stops until it is opened
//! again. Waiting and later calls return `Stopped`, and the file stays consistent.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::driver::{Driver, Load, Traits};
use tubewell::{
    Durability, Error, FIFO, ManualClock, Put, Receipt, Result, Store, StoreOptions, Tube,
    TubeOptions,
};

/// A bounded driver whose `admit` panics once the flag is set.
struct PanickingDriver(Arc<AtomicBool>);

impl Driver for PanickingDriver {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn traits(&self) -> Traits {
        Traits { timed: true, sub_queued: false, bounded: true }
    }

    fn admit(&self, tube: &Load) -> bool {
        assert!(!self.0.load(Ordering::SeqCst), "this driver panics on purpose");
        tube.total < tube.capacity
    }
}

/// Opens a store with a full tube of the panicking driver and a put that waits for space in it.
/// When `free_space` frees the space, the driver panics; then asserts that the store has stopped.
fn assert_panic_stops_store(options: StoreOptions, ttl: Duration, free_space: impl Fn(&Tube)) {
    assert_panic_in_tube_stops_store(options, TubeOptions::new(), ttl, free_space);
}

fn assert_panic_in_tube_stops_store(
    options: StoreOptions,
    full_options: TubeOptions,
    ttl: Duration,
    free_space: impl Fn(&Tube),
) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let panics = Arc::new(AtomicBool::new(false));
    let driver = PanickingDriver(panics.clone());
    let store = options.clone().driver(driver).open(&path).unwrap();
    let idle = store.create_tube("idle", TubeOptions::new().driver(FIFO)).unwrap();
    let full = full_options.clone().capacity(1);
    let full = store.create_tube("full", full.driver("panicking")).unwrap();
    full.put(Put::new("first").ttl(ttl)).unwrap();
    let is_too_early = thread::scope(|scope| {
        let taker = scope.spawn(|| idle.take_timeout(Duration::MAX).map(drop));
        let putter = scope.spawn(|| full.put_timeout("second", Duration::MAX).map(drop));
        while waiter_count(&store) < 2 && !putter.is_finished() {
            thread::yield_now();
        }
        panics.store(true, Ordering::SeqCst);
        free_space(&full);
        let put = putter.join().unwrap();
        if put.is_ok() {
            store.close().unwrap();
            assert_eq!(taker.join().unwrap(), Err(Error::Closed));
            return true;
        }
        assert_stopped(put);
        assert_stopped(taker.join().unwrap());
        false
    });
    if is_too_early {
        // On a busy machine the ttl may elapse before the driver is told to panic.
        return assert_panic_in_tube_stops_store(options, full_options, ttl * 4, free_space);
    }
    assert_stopped(idle.put("too late").map(drop));
    assert_stopped(idle.try_take().map(drop));
    assert_stopped(store.flush().map(drop));
    let _ = store.close();
    drop((idle, full, store));
    assert_file_works(&path);
}

fn waiter_count(store: &Store) -> u64 {
    store.tubes().unwrap().iter().map(|tube| tube.waiting + tube.waiting_puts).sum()
}

#[track_caller]
fn assert_stopped(answer: Result<()>) {
    assert!(matches!(answer, Err(Error::Stopped { .. })), "{answer:?}");
}

/// Opens the file again and asserts that it is consistent, has at most one task, and works.
fn assert_file_works(path: &Path) {
    let driver = PanickingDriver(Arc::default());
    let store = Store::options().clock(ManualClock::new()).driver(driver).open(path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("full").unwrap();
    assert!(tube.statistics().unwrap().tasks.total <= 1);
    tube.admin().truncate().unwrap();
    tube.put("new").unwrap();
    assert_eq!(tube.try_take().unwrap().unwrap().body(), b"new");
}

const NO_TTL: Duration = Duration::MAX;
const SHORT_TTL: Duration = Duration::from_millis(20);

#[test]
fn sweeper_panic_stops_store() {
    assert_panic_stops_store(Store::options(), SHORT_TTL, |_| ());
}

#[test]
fn sweeper_panic_on_manual_clock_stops_store() {
    let clock = ManualClock::new();
    assert_panic_stops_store(Store::options().clock(&clock), SHORT_TTL, |_| {
        clock.advance(SHORT_TTL);
    });
}

#[test]
fn panic_of_commit_leader_stops_store() {
    assert_panic_stops_store(Store::options(), NO_TTL, |full| {
        let result = thread::scope(|scope| {
            scope.spawn(|| full.try_take().unwrap().unwrap().ack().map(drop)).join()
        });
        assert!(result.is_err(), "the caller must see the panic: {result:?}");
    });
}

/// Such a tube has no commit leader: the call itself frees the space.
#[test]
fn panic_in_tube_without_flush_stops_store() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    for options in [TubeOptions::new().temporary(true), relaxed] {
        assert_panic_in_tube_stops_store(Store::options(), options, NO_TTL, |full| {
            let result = thread::scope(|scope| {
                scope.spawn(|| full.try_take().unwrap().unwrap().ack().map(drop)).join()
            });
            assert!(result.is_err(), "the caller must see the panic: {result:?}");
        });
    }
}

#[test]
fn writer_panic_answers_ticket_and_stops_store() {
    assert_panic_stops_store(Store::options(), NO_TTL, |full| {
        let claim = full.try_take().unwrap().unwrap();
        let ticket = claim.into_async().ack();
        // `wait` might lead the commit on this thread, so the test polls until the writer has
        // answered.
        while !ticket.is_done() {
            thread::yield_now();
        }
        let answer: Result<Receipt> = ticket.wait();
        // The ticket may be answered before the panic, which comes when the space is freed.
        let answered = matches!(answer, Ok(_) | Err(Error::OutcomeUnknown { .. }));
        assert!(answered, "{answer:?}");
    });
}
