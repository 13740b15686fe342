//! Takes that are counted before the task is handed out: what ends while the count is written, and
//! what becomes of the count.

use std::sync::Arc;
use std::task::Waker;
use std::thread;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Counting, Durability, Error, Failure, Filter, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{block_on, poll_pending, wait_until, with_timeout};
use super::failing_disk;
use super::files::{after_a_kill, attempts, claim_of, draft, group_of_buried};
use super::support::*;
use crate::stores::{self, ManualClock};

pub fn flushed(limit: u32) -> TubeOptions {
    TubeOptions::new().max_attempts(limit).count_takes(Counting::Flushed)
}

/// A tube on a disk whose flushes can be blocked and can fail, with one task.
pub fn on_disk(driver: &str, options: TubeOptions) -> (Arc<Disk>, ManualClock, Store, Tube) {
    let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
    let store = stores::serve(disk.open(Store::options().clock(&clock)));
    let tube = store.create_tube("case", options.driver(driver)).unwrap();
    tube.put("x").unwrap();
    (disk, clock, store, tube)
}

/// A ttr of zero: the claim is over before its count is flushed.
#[test]
fn claims_that_expire_while_their_counts_are_flushed_each_use_an_attempt() {
    with_timeout(|| {
        for limit in [1, 2, 5] {
            let (disk, _clock, store, tube) = on_disk(FIFOTTL, flushed(limit).ttr(ZERO));
            let [first, second] = [tube.clone(), tube.clone()];
            let first = disk.block_flush_of(|| thread::spawn(move || first.claim(0)));
            // Ends the first claim.
            let second = thread::spawn(move || second.claim(0));
            if limit > 1 {
                wait_until(|| tube.statistics().unwrap().calls.take == 2);
                disk.unblock_flushes();
                let claim = second.join().unwrap().unwrap();
                assert_eq!((claim.attempt(), claim.is_current().unwrap()), (2, false));
            } else {
                let refused = second.join().unwrap().unwrap_err();
                assert!(matches!(refused, Error::NotReady { state: TaskState::Buried, .. }));
                disk.unblock_flushes();
            }
            // Its caller is not given a claim that has ended.
            let refused = first.join().unwrap().unwrap_err();
            assert_eq!(refused, Error::NotTaken { id: 0 });
            let counted = u32::from(limit > 1) + 1;
            assert_eq!(attempts(&tube, 0), (counted, Some(limit - counted)));
            let expected = if counted == limit { TaskState::Buried } else { TaskState::Ready };
            assert_eq!(state(&tube, 0), Some(expected));
            assert_sound(&store);
        }
    });
}

/// The taker goes on with the next task, which is the same one here.
#[test]
fn claim_that_is_revoked_while_its_count_is_flushed_is_not_handed_out() {
    with_timeout(|| {
        let (disk, _clock, store, tube) = on_disk(FIFO, flushed(1));
        let taker = tube.clone();
        let taker = disk.block_flush_of(|| thread::spawn(move || taker.take_timeout(NO_TIMEOUT)));
        assert_eq!(tube.admin().revoke(0), Ok(1));
        disk.unblock_flushes();
        let claim = taker.join().unwrap().unwrap().unwrap();
        assert_eq!((claim.attempt(), claim.is_current().unwrap()), (1, true));
        assert_eq!(tube.statistics().unwrap().calls.take, 2);
        assert!(tube.try_take().unwrap().is_none());
        claim.ack().unwrap();
        assert_sound(&store);
    });
}

#[test]
fn dropped_take_future_uses_no_attempt() {
    with_timeout(|| {
        let (disk, _clock, store, tube) = on_disk(FIFO, flushed(1));
        let futures =
            [tube.to_async().take_timeout(NO_TIMEOUT), tube.to_async().take_timeout(NO_TIMEOUT)];
        for mut take in futures.map(Box::pin) {
            disk.block_flushes();
            let waker = std::task::Waker::noop();
            poll_pending(&mut take, waker);
            assert_eq!(state(&tube, 0), Some(TaskState::Taken));
            drop(take);
            assert_eq!(
                (state(&tube, 0), attempts(&tube, 0)),
                (Some(TaskState::Ready), (0, Some(1)))
            );
            disk.unblock_flushes();
            assert_sound(&store);
        }
        let claim = block_on(tube.to_async().try_take()).unwrap().unwrap();
        assert_eq!((claim.attempt(), claim.takes()), (1, 3));
        drop(claim);
        assert_eq!(state(&tube, 0), Some(TaskState::Buried));
        assert_sound(&store);
    });
}

/// The first task is taken by itself: the future has it when the counts of the others are flushed.
#[test]
fn dropped_take_many_future_uses_no_attempt() {
    with_timeout(|| {
        let (disk, _clock, store, tube) = on_disk(FIFO, flushed(1));
        tube.put_many(["y", "z"]).unwrap();
        let states = || [0, 1, 2].map(|id| state(&tube, id));
        for _ in 0..2 {
            disk.block_flushes();
            let (mut take, waker) = (Box::pin(tube.to_async().take_many(3, ZERO)), Waker::noop());
            poll_pending(&mut take, waker);
            disk.let_one_flush_pass();
            wait_until(|| {
                poll_pending(&mut take, waker);
                states() == [Some(TaskState::Taken); 3]
            });
            drop(take);
            wait_until(|| states() == [Some(TaskState::Ready); 3]);
            assert_eq!([0, 1, 2].map(|id| attempts(&tube, id)), [(0, Some(1)); 3]);
            disk.unblock_flushes();
            assert_sound(&store);
        }
        let claims = block_on(tube.to_async().take_many(3, ZERO)).unwrap();
        assert!(claims.iter().all(|claim| (claim.attempt(), claim.takes()) == (1, 3)));
        drop(claims);
        assert_eq!(states(), [Some(TaskState::Buried); 3]);
        assert_sound(&store);
    });
}

#[test]
fn take_many_of_values_that_cannot_be_decoded_uses_no_attempt_of_the_others() {
    for blocking in [true, false] {
        let store = stores::in_memory();
        let tube =
            store.create_tube("case", TubeOptions::new().max_attempts(1).driver(FIFO)).unwrap();
        let numbers = tube.clone().typed::<u64>();
        numbers.put_many([1, 2]).unwrap();
        tube.put(vec![u8::MAX; 3]).unwrap();
        numbers.put(4).unwrap();
        let refused = if blocking {
            numbers.take_many(4, ZERO).map(drop)
        } else {
            block_on(numbers.to_async().take_many(4, ZERO)).map(drop)
        };
        assert!(matches!(refused, Err(Error::Codec { .. })), "{refused:?}");
        stores::settle(&store);
        assert_eq!(state(&tube, 2), Some(TaskState::Buried));
        for id in [0, 1, 3] {
            assert_eq!(
                (state(&tube, id), attempts(&tube, id)),
                (Some(TaskState::Ready), (0, Some(1)))
            );
        }
        assert_sound(&store);
    }
}

#[test]
fn flushed_count_of_a_take_survives_a_power_cut() {
    for driver in ALL {
        for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
            let disk = failing_disk::Disk::new(None);
            let store = stores::serve(Store::options().open_on(disk.storage()).unwrap());
            let options = flushed(3).durability(durability);
            let tube = store.create_tube("case", options.driver(driver)).unwrap();
            tube.put_many((0..9).map(|n| draft(driver, &n.to_string()))).unwrap();
            let mut claims = vec![tube.try_take().unwrap().unwrap(), tube.claim(1).unwrap()];
            claims.extend(tube.take_many(2, ZERO).unwrap());
            claims.push(block_on(tube.to_async().try_take()).unwrap().unwrap().into_blocking());
            let more = block_on(tube.to_async().take_many(2, ZERO)).unwrap();
            claims.extend(more.into_iter().map(tubewell::AsyncClaim::into_blocking));
            claims.push(block_on(tube.to_async().claim(7)).unwrap().into_blocking());
            claims.extend(store.take_any(&[&tube], ZERO).unwrap());
            let storage = disk.after_power_cut().storage();
            let cut = stores::serve(Store::options().open_on(storage).unwrap());
            let counted = cut.find_tube("case").unwrap();
            for claim in &claims {
                assert_eq!(attempts(&counted, claim.id()), (1, Some(2)), "{}", claim.id());
            }
            assert_eq!(claims.len(), 9);
            assert_sound(&cut);
        }
    }
}

#[test]
fn taker_that_waited_gets_a_task_whose_take_is_counted() {
    for driver in ALL {
        for counting in [Counting::Lazily, Counting::Written, Counting::Flushed] {
            let file = StoreFile::new();
            let store = file.open();
            let options = TubeOptions::new().max_attempts(1).count_takes(counting);
            let tube = store.create_tube("case", options.driver(driver)).unwrap();
            let taker = tube.clone();
            let taking = thread::spawn(move || taker.take().unwrap());
            tube.put(draft(driver, "x")).unwrap();
            let claim = taking.join().unwrap();
            let (_file, killed) = after_a_kill(&file);
            let counted = attempts(&killed.find_tube("case").unwrap(), 0).0;
            assert_eq!(counted, u32::from(counting != Counting::Lazily), "{counting:?}");
            assert_sound(&killed);
            claim.ack().unwrap();
            assert_sound(&store);
        }
    }
}

/// I06
#[test]
fn dropped_handle_of_a_panicked_worker_wakes_the_next_taker_and_uses_an_attempt() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(2), |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        let waiting = case.begin_take();
        let worker = thread::spawn(move || {
            let _claim = claim;
            std::panic::resume_unwind(Box::new("the worker panics"));
        });
        assert!(worker.join().is_err());
        let claim = claim_of(waiting);
        assert_eq!((claim.id(), claim.attempt(), claim.attempts_left()), (id, 2, Some(0)));
        let mut waiting = case.begin_take();
        drop(claim);
        assert!(waiting.is_pending());
        assert_eq!(group_of_buried(&case.tube, id).as_deref(), Some("released"));
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        assert_eq!(claim_of(waiting).id(), id);
    });
}

#[test]
fn temporary_tubes_count_attempts_in_memory() {
    for driver in ALL {
        for counting in [Counting::Lazily, Counting::Written, Counting::Flushed] {
            let file = StoreFile::new();
            let store = file.open();
            let options = TubeOptions::new().temporary(true).max_attempts(2).count_takes(counting);
            let tube = store.create_tube("case", options.driver(driver)).unwrap();
            let id = tube.put(draft(driver, "x")).unwrap().id;
            drop(tube.try_take().unwrap().unwrap());
            assert_eq!(attempts(&tube, id), (1, Some(1)));
            let claim = tube.try_take().unwrap().unwrap();
            assert_sound(&store);
            claim.fail(Failure::new("group", "message")).unwrap();
            assert_eq!(group_of_buried(&tube, id).as_deref(), Some("group"));
            tube.admin().kick(Filter::new().limit(1)).unwrap();
            assert_eq!(attempts(&tube, id), (0, Some(2)));
            let claim = tube.try_take().unwrap().unwrap();
            let (_file, killed) = after_a_kill(&file);
            assert_eq!(tasks(&killed.find_tube("case").unwrap()), counts([]));
            assert_sound(&killed);
            claim.ack().unwrap();
            assert_sound(&store);
        }
    }
}

#[test]
fn truncated_and_dropped_tubes_leave_no_count_behind() {
    for driver in ALL {
        for drops in [false, true] {
            let file = StoreFile::new();
            let store = file.open();
            let tube = store.create_tube("case", flushed(3).driver(driver)).unwrap();
            let drafts = || (0..10).map(|n| draft(driver, &n.to_string()));
            tube.put_many(drafts()).unwrap();
            let claims = tube.take_many(5, ZERO).unwrap();
            tube.admin().truncate().unwrap();
            assert_sound(&store);
            let (_file, killed) = after_a_kill(&file);
            assert_sound(&killed);
            assert_eq!(tasks(&killed.find_tube("case").unwrap()), counts([]));
            for claim in claims {
                let id = claim.id();
                assert_not_taken(claim.ack(), id);
            }
            if drops {
                tube.put_many(drafts()).unwrap();
                drop(tube.take_many(5, ZERO).unwrap());
                store.drop_tube("case").unwrap();
                assert_sound(&store);
                let (_file, killed) = after_a_kill(&file);
                assert_sound(&killed);
                assert_eq!(killed.tubes().unwrap().len(), 0);
            }
            assert_sound(&store);
            drop(tube);
            assert_sound(&file.reopen(store));
        }
    }
}

#[test]
fn backup_has_the_attempts_under_way_as_after_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", flushed(2).driver(driver)).unwrap();
        tube.put_many((0..3).map(|n| draft(driver, &n.to_string()))).unwrap();
        drop(tube.claim(0).unwrap());
        let claims = tube.take_many(2, ZERO).unwrap();
        let copy = StoreFile::new();
        store.admin().backup(copy.path()).unwrap();
        let saved = stores::open_with(copy.path(), Store::options().clock(&file.clock));
        assert_sound(&saved);
        let saved_tube = saved.find_tube("case").unwrap();
        let expected = [(2, Some(0)), (1, Some(1)), (0, Some(2))];
        assert_eq!([0, 1, 2].map(|id| attempts(&saved_tube, id)), expected);
        assert_eq!(group_of_buried(&saved_tube, 0).as_deref(), Some("lost"));
        assert_eq!(saved_tube.take_many(9, ZERO).unwrap().len(), 2);
        drop(saved_tube);
        assert_sound(&copy.reopen(saved));
        drop(claims);
        assert_sound(&store);
    }
}

#[test]
fn parked_claim_of_the_last_attempt_is_counted_once() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", flushed(1).driver(driver)).unwrap();
        tube.put(draft(driver, "x")).unwrap();
        let token = tube.try_take().unwrap().unwrap().park(secs(100)).unwrap();
        assert_sound(&store);
        let (killed_file, killed) = after_a_kill(&file);
        let claim = killed.resume_claim(&token).unwrap();
        assert_eq!((claim.attempt(), claim.attempts_left()), (1, Some(0)));
        assert_sound(&killed);
        let (_file, again) = after_a_kill(&killed_file);
        let tube = again.find_tube("case").unwrap();
        assert_eq!((take(&tube), attempts(&tube, 0)), (None, (1, Some(0))));
        killed_file.clock.advance(secs(100));
        assert_eq!(group_of_buried(&tube, 0).as_deref(), Some("expired"));
        assert_sound(&again);
        drop(claim);
        assert_sound(&killed);
    }
}

#[test]
fn close_counts_the_takes_under_way_and_buries_spent_tasks() {
    for driver in ALL {
        for counting in [Counting::Lazily, Counting::Written, Counting::Flushed] {
            let file = StoreFile::new();
            let store = file.open();
            let options = TubeOptions::new().max_attempts(2).count_takes(counting);
            let tube = store.create_tube("case", options.driver(driver)).unwrap();
            tube.put_many((0..3).map(|n| draft(driver, &n.to_string()))).unwrap();
            drop(tube.claim(0).unwrap());
            let claims = tube.take_many(2, ZERO).unwrap();
            drop(tube);
            let store = file.reopen(store);
            drop(claims);
            let tube = store.find_tube("case").unwrap();
            let expected = [(2, Some(0)), (1, Some(1)), (0, Some(2))];
            assert_eq!([0, 1, 2].map(|id| attempts(&tube, id)), expected);
            assert_eq!(group_of_buried(&tube, 0).as_deref(), Some("lost"));
            assert_sound(&store);
        }
    }
}
