//! What runs have found, told by hand.

use std::time::Duration;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tubewell::{Durability, Error, FIFO, ManualClock, Store, TubeOptions, UTUBE};

use crate::disk::{Crash, Disk};
use crate::faults::{Fault, Kind, Plan};

/// The claim could not be ended, because its task could not be read, and nobody ended it later.
#[test]
fn dropped_claim_releases_task_when_storage_fails() {
    let (clock, disk) = (ManualClock::new(), Disk::new());
    let options = Store::options().clock(&clock).cache_size(1 << 14);
    let store = options.open_on(disk.storage()).unwrap();
    let tube = store.create_tube("jobs", FIFO, TubeOptions::new()).unwrap();
    // Larger than what is kept in memory of the file, and than what its journal takes.
    let bodies: Vec<_> = (0..400).map(|n| format!("{n} {}", "x".repeat(900))).collect();
    tube.put_many(bodies).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    disk.arm(Plan { kind: Kind::Read, nth: 1, fault: Fault::Device, lasting: false });
    drop(claim);
    assert!(disk.tripped(), "nothing was read");
    clock.advance(Duration::from_secs(30));
    let again = tube.try_take().unwrap().unwrap();
    assert!(again.data().starts_with(b"0 "), "nobody has it, and nobody gets it");
}

/// A relaxed tube shows a task at once: here with an id that the file had not set aside yet, so
/// that the next life gave it to another task.
#[test]
fn waiting_taker_gets_no_task_with_unreserved_id() {
    let disk = Disk::new();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let store = Store::options().open_on(disk.storage()).unwrap();
    store.create_tube("jobs", FIFO, relaxed).unwrap();
    let disk = disk.after_crash(Crash::PowerCut);
    drop(store);
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
    let tube = store.tube("jobs").unwrap();
    let mut waiting = tube.take_async(None);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut waiting).poll(&mut context).is_pending());
    disk.arm(Plan { kind: Kind::Sync, nth: 1, fault: Fault::Device, lasting: true });
    let put = tube.put("job");
    assert!(matches!(put, Err(Error::OutcomeUnknown { .. })), "{put:?}");
    let polled = Pin::new(&mut waiting).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Err(Error::Unavailable { .. }))), "{polled:?}");
}

/// A verify coverage the failure and told nobody: the store went on with an engine that reads no more,
/// and the first to take was refused long after the storage worked again.
#[test]
fn failed_verify_reopens_storage() {
    let (clock, disk) = (ManualClock::new(), Disk::new());
    let options = || Store::options().clock(&clock).cache_size(1 << 14);
    let store = options().open_on(disk.storage()).unwrap();
    let tube = store.create_tube("jobs", UTUBE, TubeOptions::new()).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    for nth in 1.. {
        let disk = disk.after_crash(Crash::Kill);
        let store = options().open_on(disk.storage()).unwrap();
        disk.arm(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: true });
        let verified = store.verify();
        disk.repair();
        if !disk.tripped() {
            assert!(nth > 3, "verify reads {nth} times");
            break;
        }
        assert!(verified.is_err(), "{verified:?}");
        clock.advance(Duration::from_secs(30));
        let taken = store.tube("jobs").unwrap().try_take();
        assert!(taken.is_ok(), "verify failed at read {nth}, and then: {taken:?}");
    }
}
