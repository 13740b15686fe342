//! Minimal cases of defects that the simulation has found.

use std::time::Duration;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tubewell::{
    Counting, Durability, Error, FIFO, ManualClock, Store, TaskState, TubeOptions, UTUBE,
};

use crate::disk::{Crash, Disk};
use crate::faults::{Fault, Kind, Plan};

/// The release of a dropped claim failed to read its task and was not retried: the task stayed
/// taken.
#[test]
fn dropped_claim_releases_task_when_storage_fails() {
    let (clock, disk) = (ManualClock::new(), Disk::new());
    let options = Store::options().clock(&clock).cache_size(1 << 14);
    let store = options.open_on(disk.storage()).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    // More than the cache and the journal can hold, so that the release has to read the disk.
    let bodies: Vec<_> = (0..400).map(|n| format!("{n} {}", "x".repeat(900))).collect();
    tube.put_many(bodies).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    disk.arm(Plan { kind: Kind::Read, nth: 1, fault: Fault::Device, lasting: false });
    drop(claim);
    assert!(disk.tripped(), "nothing was read");
    clock.advance(Duration::from_secs(30));
    let again = tube.try_take().unwrap().unwrap();
    assert!(again.body().starts_with(b"0 "), "the task is not ready again");
}

/// A relaxed or a written tube shows a task before its commit. If no commit has reserved the task's
/// id, the next run may use the id again, so a taker must not get the task.
#[test]
fn waiting_taker_gets_no_task_with_unreserved_id() {
    for durability in [Durability::relaxed(), Durability::write()] {
        let disk = Disk::new();
        let options = TubeOptions::new().durability(durability);
        let store = Store::options().open_on(disk.storage()).unwrap();
        store.create_tube("jobs", options.driver(FIFO)).unwrap();
        let disk = disk.after_crash(Crash::PowerCut);
        drop(store);
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
        let tube = store.find_tube("jobs").unwrap();
        let mut waiting = tube.to_async().take_timeout(Duration::MAX);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut waiting).poll(&mut context).is_pending());
        disk.arm(Plan { kind: Kind::Sync, nth: 1, fault: Fault::Device, lasting: true });
        let put = tube.put("job");
        assert!(matches!(put, Err(Error::OutcomeUnknown { .. })), "{durability}: {put:?}");
        let polled = Pin::new(&mut waiting).poll(&mut context);
        assert!(matches!(polled, Poll::Ready(Err(Error::Unavailable { .. }))), "{polled:?}");
    }
}

/// A failed verify did not report the storage failure: the store kept an engine that could no
/// longer read, and the first take failed although the storage worked again.
#[test]
fn failed_verify_reopens_storage() {
    let (clock, disk) = (ManualClock::new(), Disk::new());
    let options = || Store::options().clock(&clock).cache_size(1 << 14);
    let store = options().open_on(disk.storage()).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(UTUBE)).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    for nth in 1.. {
        let disk = disk.after_crash(Crash::Kill);
        let store = options().open_on(disk.storage()).unwrap();
        disk.arm(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: true });
        let verified = store.admin().verify();
        disk.repair();
        if !disk.tripped() {
            assert!(nth > 3, "verify reads {nth} times");
            break;
        }
        assert!(verified.is_err(), "{verified:?}");
        clock.advance(Duration::from_secs(30));
        let taken = store.find_tube("jobs").unwrap().try_take();
        assert!(taken.is_ok(), "verify failed at read {nth}, then take: {taken:?}");
    }
}

/// The storage failed to read a task whose claim ended, and the end forgot its attempt.
#[test]
fn attempt_counts_when_storage_fails_as_its_claim_ends() {
    for limit in [1, 2] {
        let (clock, disk) = (ManualClock::new(), Disk::new());
        let options = Store::options().clock(&clock).cache_size(1 << 14);
        let store = options.open_on(disk.storage()).unwrap();
        let counted = TubeOptions::new().max_attempts(limit).count_takes(Counting::Flushed);
        let tube = store.create_tube("jobs", counted.driver(FIFO)).unwrap();
        // As above.
        let bodies: Vec<_> = (0..400).map(|n| format!("{n} {}", "x".repeat(900))).collect();
        tube.put_many(bodies).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        let id = claim.id();
        disk.arm(Plan { kind: Kind::Read, nth: 1, fault: Fault::Device, lasting: false });
        drop(claim);
        assert!(disk.tripped(), "nothing was read");
        clock.advance(Duration::from_secs(30));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let taken = tube.try_take().unwrap().unwrap();
        let info = tube.query().task(id).unwrap().info;
        if limit == 1 {
            assert_ne!(taken.id(), id, "it is handed out a second time");
            assert_eq!((info.state, info.attempts), (TaskState::Buried, 1));
        } else {
            assert_eq!((taken.id(), taken.attempt()), (id, 2), "{info:?}");
        }
    }
}
