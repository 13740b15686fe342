//! Counted takes whose storage fails: before the task is handed out, or before its claim ends.

use std::sync::Arc;

use tubewell::driver::FIFO;
use tubewell::{Error, Failure, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::counted::{flushed, on_disk};
use super::executor::{block_on, with_timeout};
use super::failing_disk;
use super::faults::{Fault, Kind, Plan};
use super::files::{attempts, failure, group_of_buried};
use super::support::*;
use crate::stores::{self, ManualClock};

/// Ends a failure of the storage.
fn repair(disk: &Disk, clock: &ManualClock) {
    disk.fail_flushes(false);
    clock.advance(secs(60));
}

/// Makes the storage fail with a put, whose outcome is then unknown.
fn fail_storage(disk: &Disk, tube: &Tube) {
    disk.fail_flushes(true);
    let unknown = tube.put("unknown");
    assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
}

#[test]
fn take_whose_count_is_not_flushed_hands_out_nothing_and_uses_no_attempt() {
    with_timeout(|| {
        for many in [false, true] {
            let (disk, clock, store, tube) = on_disk(FIFO, flushed(1));
            tube.put("y").unwrap();
            disk.fail_flushes(true);
            let take = || tube.take_many(if many { 2 } else { 1 }, ZERO);
            let refused = take();
            assert!(matches!(refused, Err(Error::OutcomeUnknown { .. })), "{refused:?}");
            let refused = take();
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
            repair(&disk, &clock);
            assert_eq!([0, 1].map(|id| attempts(&tube, id)), [(0, Some(1)); 2]);
            assert_sound(&store);
            let claims = tube.take_many(2, ZERO).unwrap();
            assert!(claims.iter().all(|claim| claim.attempt() == 1));
            assert_eq!(claims.len(), 2);
            drop(claims);
            assert_eq!([0, 1].map(|id| state(&tube, id)), [Some(TaskState::Buried); 2]);
            assert_sound(&store);
        }
    });
}

/// The first task is taken and counted by itself, and the counts of the others cannot be flushed.
#[test]
fn take_many_that_fails_midway_uses_no_attempt() {
    with_timeout(|| {
        for blocking in [true, false] {
            for nth in [1, 2] {
                let (disk, clock) = (failing_disk::Disk::new(None), ManualClock::new());
                let options = Store::options().clock(&clock);
                let store = stores::serve(options.open_on(disk.storage()).unwrap());
                let tube = store.create_tube("case", flushed(1).driver(FIFO)).unwrap();
                tube.put_many(["x", "y", "z"]).unwrap();
                disk.fail(Plan { kind: Kind::Sync, nth, fault: Fault::Device, lasting: true });
                let refused = if blocking {
                    tube.take_many(3, ZERO).map(drop)
                } else {
                    block_on(tube.to_async().take_many(3, ZERO)).map(drop)
                };
                assert!(matches!(refused, Err(Error::OutcomeUnknown { .. })), "{refused:?}");
                disk.repair();
                clock.advance(secs(60));
                assert_eq!([0, 1, 2].map(|id| attempts(&tube, id)), [(0, Some(1)); 3]);
                assert_sound(&store);
                let claims = tube.take_many(3, ZERO).unwrap();
                assert!(claims.iter().all(|claim| claim.attempt() == 1));
                assert_eq!(claims.len(), 3);
                drop(claims);
                assert_eq!([0, 1, 2].map(|id| state(&tube, id)), [Some(TaskState::Buried); 3]);
                assert_sound(&store);
            }
        }
    });
}

#[test]
fn failure_reported_during_an_outage_leaves_the_task_taken() {
    with_timeout(|| {
        let (disk, clock, store, tube) = on_disk(FIFO, flushed(2));
        assert_eq!(take(&tube), Some(0));
        fail_storage(&disk, &tube);
        let refused =
            tube.claimed(0).and_then(|claim| claim.fail(Failure::new("group", "message")));
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        repair(&disk, &clock);
        assert_eq!((state(&tube, 0), failure(&tube, 0)), (Some(TaskState::Taken), None));
        assert_eq!(
            tube.claimed(0)
                .and_then(|claim| claim.fail(Failure::new("group", "message")))
                .unwrap()
                .state,
            TaskState::Ready
        );
        assert_eq!(attempts(&tube, 0), (1, Some(1)));
        assert_sound(&store);
    });
}

#[test]
fn last_attempt_that_ends_during_an_outage_is_not_repeated() {
    with_timeout(|| {
        for session_ends in [false, true] {
            let (disk, clock, store, tube) = on_disk(FIFO, flushed(1));
            let session = store.session("").unwrap();
            let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
            fail_storage(&disk, &tube);
            if session_ends {
                drop(claim.detach());
                drop(session.end());
            } else {
                drop(claim);
            }
            repair(&disk, &clock);
            let group = if session_ends { "lost" } else { "released" };
            let next = tube.try_take().unwrap().map(|claim| claim.id());
            assert_ne!(next, Some(0));
            assert_eq!(group_of_buried(&tube, 0).as_deref(), Some(group));
            assert_sound(&store);
        }
    });
}

/// The record of the task cannot be read, so the end of its claim cannot be stored. The storage
/// fails before the claim ends, or as it ends.
#[test]
fn attempts_that_end_while_the_record_cannot_be_read_are_counted() {
    with_timeout(|| {
        for (limit, fails_before) in [(1, true), (1, false), (2, true), (2, false)] {
            for session_ends in [false, true] {
                end_without_reads(limit, fails_before, session_ends);
            }
        }
    });
}

/// A waiting take gets the task as the end of its claim fails, before the store has stopped.
#[test]
fn row_of_a_claim_whose_end_was_not_stored_does_not_outlive_the_next_take() {
    with_timeout(|| {
        for session_ends in [false, true] {
            let (disk, clock, store, tube) = without_cache(flushed(2), 1);
            let session = store.session("").unwrap();
            let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
            let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
            stores::settle(&store);
            disk.fail(Plan { kind: Kind::Any, nth: 1, fault: Fault::Device, lasting: true });
            if session_ends {
                drop(claim.detach());
                drop(session.end());
            } else {
                drop(claim);
            }
            let refused = waiting.answer();
            assert!(refused.is_err(), "{refused:?}");
            disk.repair();
            clock.advance(secs(60));
            assert_eq!(
                (state(&tube, 0), attempts(&tube, 0)),
                (Some(TaskState::Ready), (1, Some(1)))
            );
            assert_sound(&store);
            tube.try_take().unwrap().unwrap().ack().unwrap();
            assert_sound(&store);
        }
    });
}

/// A store on a disk whose record of each task is read from the disk, with this many tasks.
fn without_cache(
    options: TubeOptions,
    tasks: usize,
) -> (Arc<failing_disk::Disk>, ManualClock, Store, Tube) {
    let (disk, clock) = (failing_disk::Disk::new(None), ManualClock::new());
    let open = || {
        let options = Store::options().clock(&clock).cache_size(0);
        stores::serve(options.open_on(disk.storage()).unwrap())
    };
    let store = open();
    let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
    tube.put_many((0..tasks).map(|_| "x".repeat(1000))).unwrap();
    let others = store.create_tube("others", TubeOptions::new().driver(FIFO)).unwrap();
    others.put_many((0..500).map(|_| "x".repeat(1000))).unwrap();
    stores::close(&store);
    drop((store, tube, others));
    let store = open();
    let tube = store.find_tube("case").unwrap();
    (disk, clock, store, tube)
}

fn end_without_reads(limit: u32, fails_before: bool, session_ends: bool) {
    let (disk, clock) = (failing_disk::Disk::new(None), ManualClock::new());
    // A cache without space: all that is read is read from the disk.
    let open = |disk: &Arc<failing_disk::Disk>| {
        stores::serve(Store::options().clock(&clock).cache_size(0).open_on(disk.storage()).unwrap())
    };
    let store = open(&disk);
    let tube = store.create_tube("case", flushed(limit).driver(FIFO)).unwrap();
    tube.put_many((0..500).map(|_| "x".repeat(1000))).unwrap();
    stores::close(&store);
    drop((store, tube));
    let store = open(&disk);
    let tube = store.find_tube("case").unwrap();
    let session = store.session("").unwrap();
    let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
    disk.fail(Plan { kind: Kind::Any, nth: 1, fault: Fault::Device, lasting: true });
    if fails_before {
        assert!(tube.put("unknown").is_err());
    }
    if session_ends {
        drop(claim.detach());
        drop(session.end());
    } else {
        drop(claim);
    }
    let refused = tube.try_take();
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    let cut_off = disk.after_power_cut();
    disk.repair();
    clock.advance(secs(60));
    let check = |store: &Store| {
        let tube = store.find_tube("case").unwrap();
        let expected = if limit == 1 { TaskState::Buried } else { TaskState::Ready };
        assert_eq!((state(&tube, 0), attempts(&tube, 0)), (Some(expected), (1, Some(limit - 1))));
        assert_sound(store);
    };
    check(&store);
    check(&open(&cut_off));
    store.flush().unwrap();
    check(&open(&disk.after_power_cut()));
    let claim = tube.try_take().unwrap().unwrap();
    assert_eq!(claim.id(), u64::from(limit == 1));
    drop(claim);
    assert_sound(&store);
}
