//! A defect in the middle of the store's own work, here of a driver that must not panic and does: it
//! stops the store for good, everyone is told, nobody waits for ever, and the file is sound.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tubewell::{
    Driver, Durability, Error, FIFO, Load, ManualClock, Put, Receipt, Result, Store, StoreOptions,
    Traits, Tube, TubeOptions, WhenFull,
};

/// A bounded driver that panics when it is asked for room, once it is told to.
struct Touchy(Arc<AtomicBool>);

impl Driver for Touchy {
    fn name(&self) -> &'static str {
        "touchy"
    }

    fn traits(&self) -> Traits {
        Traits { timed: true, sub_queued: false, bounded: true }
    }

    fn admit(&self, tube: &Load) -> bool {
        assert!(!self.0.load(Ordering::SeqCst), "a driver with a defect");
        tube.total < tube.capacity
    }
}

/// A store with a full tube of that driver, and somebody who waits for room in it, as soon as there
/// is room the next thing that goes wrong.
fn with_a_defect(options: StoreOptions, ttl: Duration, strike: impl FnOnce(&Tube)) {
    in_a_tube(options, TubeOptions::new(), ttl, strike);
}

fn in_a_tube(options: StoreOptions, full: TubeOptions, ttl: Duration, strike: impl FnOnce(&Tube)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let defect = Arc::new(AtomicBool::new(false));
    let store = options.driver(Touchy(defect.clone())).open(&path).unwrap();
    let quiet = store.create_tube("quiet", FIFO, TubeOptions::new()).unwrap();
    let full = store.create_tube("full", "touchy", full.capacity(1)).unwrap();
    full.put(Put::new("there").ttl(ttl)).unwrap();
    thread::scope(|scope| {
        let taker = scope.spawn(|| quiet.take(None).map(drop));
        let putter = scope.spawn(|| full.put_wait("waits", None).map(drop));
        while waiting(&store) < 2 {
            thread::yield_now();
        }
        defect.store(true, Ordering::SeqCst);
        strike(&full);
        assert_stopped(taker.join().unwrap());
        assert_stopped(putter.join().unwrap());
    });
    assert_stopped(quiet.put("too late").map(drop));
    assert_stopped(quiet.try_take().map(drop));
    assert_stopped(store.flush().map(drop));
    let _ = store.close();
    drop((quiet, full, store));
    assert_sound(&path);
}

fn waiting(store: &Store) -> u64 {
    store.tubes().iter().map(|tube| tube.waiting + tube.waiting_puts).sum()
}

#[track_caller]
fn assert_stopped(answer: Result<()>) {
    assert!(matches!(answer, Err(Error::Stopped { .. })), "{answer:?}");
}

/// What was there is there or gone, and the next life works.
fn assert_sound(path: &Path) {
    let sound = Touchy(Arc::default());
    let store = Store::options().clock(ManualClock::new()).driver(sound).open(path).unwrap();
    assert_eq!(store.verify().unwrap(), [""; 0]);
    let tube = store.tube("full").unwrap();
    assert!(tube.statistics().unwrap().tasks.total <= 1);
    tube.truncate().unwrap();
    tube.put("new").unwrap();
    assert_eq!(tube.try_take().unwrap().unwrap().data(), b"new");
}

const FOR_EVER: Duration = Duration::MAX;
const SOON: Duration = Duration::from_millis(20);

#[test]
fn the_sweeper_does_not_die_in_silence() {
    with_a_defect(Store::options(), SOON, |_| ());
}

#[test]
fn a_clock_that_is_moved_by_hand_does_not_hide_it_either() {
    let clock = ManualClock::new();
    with_a_defect(Store::options().clock(&clock), SOON, |_| clock.advance(SOON));
}

#[test]
fn a_caller_who_leads_a_commit_does_not_leave_the_others_waiting() {
    with_a_defect(Store::options(), FOR_EVER, |full| {
        let broken = thread::scope(|scope| {
            scope.spawn(|| full.try_take().unwrap().unwrap().ack().map(drop)).join()
        });
        assert!(broken.is_err(), "the defect is the caller's to see: {broken:?}");
    });
}

/// Nobody leads a commit there: what becomes free does so within the call.
#[test]
fn nor_does_one_in_a_tube_that_waits_for_no_flush() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    for options in [TubeOptions::new().temporary(true), relaxed] {
        in_a_tube(Store::options(), options, FOR_EVER, |full| {
            let broken = thread::scope(|scope| {
                scope.spawn(|| full.try_take().unwrap().unwrap().ack().map(drop)).join()
            });
            assert!(broken.is_err(), "the defect is the caller's to see: {broken:?}");
        });
    }
}

#[test]
fn a_ticket_is_answered_when_the_writer_breaks() {
    with_a_defect(Store::options(), FOR_EVER, |full| {
        let claim = full.try_take().unwrap().unwrap();
        let ticket = full.deferred(WhenFull::Block).ack_claim(claim).unwrap();
        // Whoever waits for it here and now may lead its commit himself.
        while !ticket.is_done() {
            thread::yield_now();
        }
        let answer: Result<Receipt> = ticket.wait();
        // It may have been told before the defect, which comes when the place is free.
        let told = matches!(answer, Ok(_) | Err(Error::OutcomeUnknown { .. }));
        assert!(told, "{answer:?}");
    });
}
