//! Takes that are counted before the task is handed out, beside revokes, the expiry of the claim, a
//! close, and drops of their futures.

use std::sync::Arc;
use std::task::{Context, Waker};

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{
    AsyncClaim, Claim, Counting, FIFO, FIFOTTL, Failure, Put, Store, TaskState, Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::explore::explore_few;
use crate::support::{
    NO_TIMEOUT, is_closed, ms, spawn_with, taker, verify_and_close, waiting_take,
};

const COUNTED: [Counting; 2] = [Counting::Written, Counting::Flushed];

fn tube(store: &Store, driver: &str, counting: Counting) -> Tube {
    let options = TubeOptions::new().max_attempts(2).count_takes(counting);
    store.create_tube(driver, options.driver(driver)).unwrap()
}

/// The disk after the crash that this counting survives.
fn after_crash(disk: &Disk, counting: Counting) -> Arc<Disk> {
    if counting == Counting::Flushed { disk.after_power_cut() } else { disk.after_kill() }
}

/// The attempts of a task that a process finds on this disk.
fn attempts_on(disk: &Arc<Disk>, tube: &str, id: u64) -> u32 {
    let store = disk.open_with_manual_clock();
    let attempts = store.tube(tube).unwrap().query().task(id).unwrap().info.attempts;
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
    attempts
}

#[test]
fn counted_take_beside_flush_of_other_call_survives_crash() {
    explore_few("counted_take_beside_flush_of_other_call_survives_crash", || {
        for counting in COUNTED {
            let disk = Disk::with_power_cuts();
            let store = disk.open_with_manual_clock();
            let tube = tube(&store, FIFO, counting);
            tube.put("x").unwrap();
            let puts = spawn_with(&tube, |tube| tube.put("y").unwrap().id);
            let at_take = Arc::clone(&disk);
            let takes = spawn_with(&tube, move |tube| {
                let claim = tube.take().unwrap();
                (claim, after_crash(&at_take, counting))
            });
            let awaits =
                spawn_with(&tube, |tube| block_on(tube.to_async().take_timeout(NO_TIMEOUT)));
            let (claim, crashed) = takes.join().unwrap();
            puts.join().unwrap();
            let other = awaits.join().unwrap().unwrap().unwrap();
            assert!(claim.attempt() == 1 && other.attempt() == 1 && claim.id() != other.id());
            assert_eq!(attempts_on(&crashed, FIFO, claim.id()), 1);
            claim.ack().unwrap();
            other.ack().wait().unwrap();
            verify_and_close(&store);
        }
    });
}

/// The revoke comes before the take, after it, or while it is counted.
#[test]
fn revoke_beside_counted_take_forgives_it() {
    explore_few("revoke_beside_counted_take_forgives_it", || {
        for counting in COUNTED {
            let disk = Disk::new();
            let store = disk.open_with_manual_clock();
            let tube = tube(&store, FIFO, counting);
            let id = tube.put("x").unwrap().id;
            let takes = taker(&tube);
            let revokes = spawn_with(&tube, move |tube| tube.admin().revoke(id));
            let puts = spawn_with(&tube, |tube| tube.put("y").unwrap().id);
            let revoked = revokes.join().unwrap().unwrap() == 1;
            let claim = takes.join().unwrap();
            puts.join().unwrap();
            // A claim that was revoked while it was counted is handed out as one that has ended.
            let current = claim.is_current().unwrap();
            assert!(current || (revoked && claim.id() == id), "{claim:?}");
            let info = tube.query().task(id).unwrap().info;
            let is_taken = current && claim.id() == id;
            assert_eq!(info.attempts, u32::from(is_taken), "{info:?}");
            assert_eq!(info.takes - info.attempts, u32::from(revoked), "{info:?}");
            drop(claim);
            let attempts = tube.query().task(id).unwrap().info.attempts;
            store.flush().unwrap();
            assert_eq!(attempts_on(&disk.after_kill(), FIFO, id), attempts);
            verify_and_close(&store);
        }
    });
}

/// The ttr elapses while the take is counted, or after it.
#[test]
fn expiry_beside_counted_take_uses_an_attempt() {
    explore_few("expiry_beside_counted_take_uses_an_attempt", || {
        for counting in COUNTED {
            let disk = Disk::new();
            let store = disk.open();
            let tube = tube(&store, FIFOTTL, counting);
            let id = tube.put(Put::new("x").ttr(ms(1000))).unwrap().id;
            let next = spawn_with(&tube, |tube| {
                let first = tube.take().unwrap();
                (first.attempt(), first.ack().is_ok())
            });
            pass(ms(1000));
            let (attempt, is_acked) = next.join().unwrap();
            assert_eq!(attempt, 1);
            if !is_acked {
                // The sweeper may have to make the task ready.
                let second = taker(&tube).join().unwrap();
                assert_eq!(
                    (second.id(), second.attempt(), second.attempts_left()),
                    (id, 2, Some(0))
                );
                let failed = second.fail(Failure::new("crash", "")).unwrap();
                assert_eq!(failed.state, TaskState::Buried);
                assert_eq!(tube.query().task(id).unwrap().info.attempts, 2);
            }
            verify_and_close(&store);
        }
    });
}

/// A take that is refused because of the close has not handed out the task.
#[test]
fn close_beside_counted_takes_keeps_attempts_of_handed_out_tasks() {
    explore_few("close_beside_counted_takes_keeps_attempts_of_handed_out_tasks", || {
        for counting in COUNTED {
            let disk = Disk::new();
            let store = disk.open_with_manual_clock();
            let tube = tube(&store, FIFO, counting);
            tube.put_many(["x", "y"]).unwrap();
            let takes = spawn_with(&tube, |tube| tube.try_take());
            let awaits = spawn_with(&tube, |tube| {
                block_on(tube.to_async().take_timeout(NO_TIMEOUT))
                    .map(|it| it.map(AsyncClaim::into_blocking))
            });
            store.close().unwrap();
            let answers = [takes.join().unwrap(), awaits.join().unwrap()];
            let mut handed_out = Vec::new();
            for answer in answers {
                assert!(matches!(&answer, Ok(Some(_))) || is_closed(&answer), "{answer:?}");
                handed_out.extend(answer.ok().flatten().as_ref().map(Claim::id));
            }
            for id in 0..2 {
                let attempts = attempts_on(&disk, FIFO, id);
                assert!(attempts == 1 || (attempts == 0 && !handed_out.contains(&id)));
            }
        }
    });
}

/// The future is dropped before its take is counted, or after it.
#[test]
fn dropped_future_of_counted_take_forgives_it() {
    explore_few("dropped_future_of_counted_take_forgives_it", || {
        for counting in COUNTED {
            let disk = Disk::new();
            let store = disk.open_with_manual_clock();
            let tube = tube(&store, FIFO, counting);
            let mut waits = waiting_take(&tube);
            let puts = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
            let drops = thread::spawn(move || {
                let poll = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                // Otherwise the claim is dropped, which is an attempt.
                poll.is_pending()
            });
            let next = taker(&tube);
            let id = puts.join().unwrap();
            let is_forgiven = drops.join().unwrap();
            let claim = next.join().unwrap();
            let attempt = if is_forgiven { 1 } else { 2 };
            assert_eq!((claim.id(), claim.attempt()), (id, attempt));
            claim.ack().unwrap();
            verify_and_close(&store);
        }
    });
}

#[test]
fn failed_flush_beside_counted_take_hands_out_nothing() {
    explore_few("failed_flush_beside_counted_take_hands_out_nothing", || {
        for counting in COUNTED {
            let disk = Disk::new();
            let store = disk.open_with_manual_clock();
            let tube = tube(&store, FIFO, counting);
            let id = tube.put("x").unwrap().id;
            let takes = spawn_with(&tube, |tube| tube.try_take());
            let awaits = spawn_with(&tube, move |tube| block_on(tube.to_async().claim(id)));
            disk.is_broken.raise();
            let takes = takes.join().unwrap();
            let awaits = awaits.join().unwrap();
            let mut handed_out = takes.is_ok_and(|claim| claim.is_some());
            handed_out |= awaits.is_ok();
            let crashed = disk.after_kill();
            let attempts = attempts_on(&crashed, FIFO, id);
            assert!(attempts == 1 || (attempts == 0 && !handed_out), "{attempts} attempts");
            drop(store.close());
        }
    });
}
