//! Calls that do not wait for a write to the file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tubewell::{Claim, Counting, Durability, FIFO, Outcome, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{block_on, with_timeout};
use super::support::{HANGS_AFTER, drain, eventually};
use crate::stores::{self, ManualClock};

/// A written put waits for its write. Takes, releases and statistics wait neither for this write
/// nor for the flush after it.
#[test]
fn takes_do_not_wait_for_blocked_write_or_flush() {
    for durability in [Durability::Flush, Durability::write()] {
        for blocks_write in [true, false] {
            with_timeout(move || take_while_storage_is_blocked(durability, blocks_write));
        }
    }
}

fn take_while_storage_is_blocked(durability: Durability, blocks_write: bool) {
    let disk = Arc::new(Disk::default());
    let store = stores::serve(disk.open(Store::options().durability(durability)));
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let ready = [tube.put("one").unwrap().id, tube.put("two").unwrap().id];
    let put = || tube.to_async().put("three");
    let ticket = if blocks_write { disk.block_write_of(put) } else { disk.block_flush_of(put) };

    let (sender, answers) = mpsc::channel();
    let taker = thread::spawn({
        let tube = tube.clone();
        move || {
            let claim = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
            let first = claim.id();
            claim.release().unwrap();
            let claims = [(); 2].map(|()| tube.take_timeout(HANGS_AFTER).unwrap().unwrap());
            let taken = tube.statistics().unwrap().tasks.taken;
            sender.send((first, [claims[0].id(), claims[1].id()], taken)).unwrap();
        }
    });
    let answer = answers.recv_timeout(HANGS_AFTER / 2);
    let early = blocks_write && ticket.is_done();
    disk.unblock_writes();
    disk.unblock_flushes();
    taker.join().unwrap();
    let what = if blocks_write { "write" } else { "flush" };
    let expected = Ok((ready[0], ready, 2));
    assert_eq!(answer, expected, "{durability:?}: a call waited for a {what}");
    assert!(!early, "{durability:?}: a put was answered before its write");
    ticket.wait().unwrap();
    assert_eq!(drain(&tube), ["one", "two", "three"]);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The writer thread leads the flush of a ticket that no thread waits for. The tickets and futures of
/// a written tube wait for their write only, which another thread makes.
#[test]
fn deferred_written_calls_are_answered_while_the_writer_thread_flushes() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let flushed = store.create_tube("flushed", TubeOptions::new().driver(FIFO)).unwrap();
        let written = TubeOptions::new().durability(Durability::write());
        let counted = written.clone().max_attempts(2).count_takes(Counting::Written);
        let written = store.create_tube("written", written.driver(FIFO)).unwrap();
        let counted = store.create_tube("counted", counted.driver(FIFO)).unwrap();
        counted.put("the first put of a run reserves ids").unwrap();
        let leader = disk.block_flush_of(|| flushed.to_async().put("flushed"));
        let deferred = written.to_async();
        for round in 0..3 {
            let ticket = deferred.put(format!("ticket {round}"));
            eventually("the ticket is answered", || ticket.is_done());
            assert_eq!(ticket.wait().unwrap().state, TaskState::Ready);
            block_on(deferred.put(format!("future {round}"))).unwrap();
        }
        let claim = block_on(counted.to_async().take()).unwrap();
        assert_eq!(claim.attempt(), 1);
        assert!(!leader.is_done());
        disk.unblock_flushes();
        leader.wait().unwrap();
        assert_eq!(written.statistics().unwrap().tasks.ready, 6);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// The checkpoint thread, which would write meanwhile, flushes what it has moved into the database.
#[test]
fn deferred_written_calls_are_answered_during_a_flush_and_a_checkpoint() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let flushed = store.create_tube("flushed", TubeOptions::new().driver(FIFO)).unwrap();
        let later = Durability::Write { flush_within: Duration::from_secs(3600) };
        let written = TubeOptions::new().durability(later);
        let written = store.create_tube("written", written.driver(FIFO)).unwrap();
        written.put("the first put of a run reserves ids").unwrap();
        // More than one half of the journal has space for, and less than both: its checkpoint begins.
        let batch = vec![[7; 128].as_slice(); 500];
        let put = || written.put_many(batch.clone()).unwrap().len();
        let tasks = disk.block_flush_of(|| (0..8).map(|_| put()).sum::<usize>());
        // This disk makes one flush at a time: that of the writer thread waits for the other one.
        let leader = flushed.to_async().put("flushed");
        let deferred = written.to_async();
        for round in 0..3 {
            block_on(deferred.put(format!("future {round}"))).unwrap();
        }
        assert!(!leader.is_done());
        disk.unblock_flushes();
        leader.wait().unwrap();
        assert_eq!(written.statistics().unwrap().tasks.ready, tasks as u64 + 4);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// A relaxed put is flushed by the writer thread, for a deferred call, when its time elapses.
#[test]
fn advance_returns_after_a_due_flush_that_another_thread_has_begun() {
    with_timeout(|| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let within = Duration::from_millis(50);
        let relaxed = TubeOptions::new().durability(Durability::Relaxed { max_delay: within });
        let relaxed = store.create_tube("relaxed", relaxed.driver(FIFO)).unwrap();
        let flushed = store.create_tube("flushed", TubeOptions::new().driver(FIFO)).unwrap();
        clock.advance(Duration::ZERO); // nothing else is due
        relaxed.put("due in 50 ms").unwrap();
        let put = || flushed.to_async().put("now");
        let ticket = disk.block_flush_of(put);

        let (sender, answers) = mpsc::channel();
        let advancer = thread::spawn(move || {
            clock.advance(within);
            sender.send(()).unwrap();
        });
        let early = answers.recv_timeout(Duration::from_millis(100));
        disk.unblock_flushes();
        advancer.join().unwrap();
        assert!(early.is_err(), "the clock did not wait for the flush in progress");
        ticket.wait().unwrap();
        stores::close(&store);
    });
}

/// Every write is blocked once: those of the records, and those of the checkpoints that move them
/// into the database. The takes refill the window of their tube meanwhile.
#[test]
fn takes_wait_for_no_write_of_records_and_checkpoints() {
    const STEPS: usize = 300;
    const TAKES: usize = 40;
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options().durability(Durability::write())));
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let busy = store.create_tube("busy", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(vec![[7; 128].as_slice(); STEPS * TAKES]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let writer = thread::spawn({
            let stop = Arc::clone(&stop);
            move || put_and_ack_until(&stop, &busy)
        });
        let (ask, asked) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let taker = thread::spawn({
            let tube = tube.clone();
            move || {
                while asked.recv().is_ok() {
                    (0..TAKES).for_each(|_| _ = tube.try_take().unwrap().unwrap().detach());
                    answer.send(()).unwrap();
                }
            }
        });
        let mut has_waited = false;
        let before = store.admin().counters().unwrap();
        for _ in 0..STEPS {
            disk.step_write();
            ask.send(()).unwrap();
            has_waited |= answered.recv_timeout(HANGS_AFTER / 3).is_err();
            if has_waited {
                break;
            }
        }
        let after = store.admin().counters().unwrap();
        stop.store(true, Ordering::SeqCst);
        disk.unblock_writes();
        drop(ask);
        taker.join().unwrap();
        writer.join().unwrap();
        assert!(!has_waited, "a take waited for a write");
        let (writes, commits) = (after.writes - before.writes, after.commits - before.commits);
        assert!(writes > commits + 100, "{writes} writes in {commits} commits: no checkpoint");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

fn put_and_ack_until(stop: &AtomicBool, tube: &Tube) {
    while !stop.load(Ordering::SeqCst) {
        tube.put_many(vec![[7; 128].as_slice(); 300]).unwrap();
        let claims = tube.take_many(100, Duration::ZERO).unwrap();
        Claim::end_many(claims, |_| Outcome::done()).unwrap();
    }
}
