//! Takes that are counted before the task is handed out: what they wait for, and what ends them
//! meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tubewell::{
    Counting, Durability, Error, FIFO, Failure, Outcome, Receipt, Store, TaskState, Ticket, Tube,
    TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{block_on, poll_pending, with_timeout};
use super::support::{FileStore, HANGS_AFTER, ms};
use crate::stores;

const COUNTED: [Counting; 2] = [Counting::Written, Counting::Flushed];

fn limited(counting: Counting) -> TubeOptions {
    TubeOptions::new().max_attempts(2).count_takes(counting)
}

/// A tube with one task, and a second tube.
fn store(counting: Counting) -> (Arc<Disk>, Store, Tube, Tube) {
    let disk = Arc::new(Disk::default());
    let store = stores::serve(disk.open(Store::options()));
    let tube = store.create_tube("work", limited(counting).driver(FIFO)).unwrap();
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("task").unwrap();
    (disk, store, tube, other)
}

/// Blocks the flush of a put into this tube. Returns when it has begun.
fn block_flush(disk: &Disk, other: &Tube) -> Ticket<Receipt> {
    disk.block_flush_of(|| other.to_async().put("other"))
}

fn attempts(tube: &Tube) -> (TaskState, u32) {
    let info = tube.query().task(0).unwrap().info;
    (info.state, info.attempts)
}

/// A take that is counted with a write does not wait for the flush of another call.
#[test]
fn written_take_returns_during_flush_and_flushed_take_after_it() {
    for counting in COUNTED {
        with_timeout(move || {
            let (disk, store, tube, other) = store(counting);
            let ticket = block_flush(&disk, &other);
            let (answer, answered) = mpsc::channel();
            thread::scope(|scope| {
                let tube = &tube;
                scope.spawn(move || answer.send(tube.try_take().unwrap().unwrap()).unwrap());
                let claim = if counting == Counting::Written {
                    let claim = answered.recv_timeout(HANGS_AFTER / 2);
                    disk.unblock_flushes();
                    claim.expect("the take waits for the flush")
                } else {
                    // No claim comes. One that does not wait comes well within this time.
                    let early = answered.recv_timeout(ms(30));
                    assert!(early.is_err(), "{early:?}");
                    disk.unblock_flushes();
                    answered.recv_timeout(HANGS_AFTER).unwrap()
                };
                assert_eq!((claim.attempt(), attempts(tube)), (1, (TaskState::Taken, 1)));
                claim.ack().unwrap();
            });
            ticket.wait().unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        });
    }
}

#[test]
fn dropped_future_and_revoke_forgive_take_that_is_being_counted() {
    with_timeout(|| {
        let (disk, store, tube, other) = store(Counting::Flushed);
        let ticket = block_flush(&disk, &other);
        let mut takes = [tube.to_async().claim(0), tube.to_async().claim(0)];
        poll_pending(&mut takes[0], Waker::noop());
        assert_eq!(attempts(&tube), (TaskState::Taken, 1));
        let [dropped, mut revoked] = takes;
        drop(dropped);
        assert_eq!(attempts(&tube), (TaskState::Ready, 0));
        poll_pending(&mut revoked, Waker::noop());
        assert_eq!(attempts(&tube), (TaskState::Taken, 1));
        assert_eq!(tube.admin().revoke(0), Ok(1));
        assert_eq!(attempts(&tube), (TaskState::Ready, 0));
        disk.unblock_flushes();
        match block_on(revoked) {
            Ok(claim) => assert_eq!(claim.is_current().wait(), Ok(false)),
            Err(error) => assert_eq!(error, Error::NotTaken { id: 0 }),
        }
        assert_eq!(attempts(&tube), (TaskState::Ready, 0));
        assert_eq!(tube.try_take().unwrap().unwrap().attempt(), 1);
        ticket.wait().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn close_during_count_of_take_counts_it() {
    for counting in COUNTED {
        with_timeout(move || {
            let (disk, store, tube, other) = store(counting);
            let ticket = block_flush(&disk, &other);
            let mut take = tube.to_async().take_timeout(Duration::MAX);
            let polled = super::executor::poll(&mut take, Waker::noop());
            thread::scope(|scope| {
                scope.spawn(|| stores::close(&store));
                disk.unblock_flushes();
            });
            ticket.wait().unwrap();
            let is_handed_out = match polled {
                std::task::Poll::Ready(claim) => claim.unwrap().is_some(),
                std::task::Poll::Pending => block_on(take).is_ok(),
            };
            drop((tube, other, store));
            let store = stores::serve(disk.open(Store::options()));
            let (state, count) = attempts(&store.find_tube("work").unwrap());
            assert_eq!((state, count), (TaskState::Ready, 1), "handed out: {is_handed_out}");
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        });
    }
}

/// Workers fail, drop, snooze and ack tasks, and another thread revokes them.
#[test]
fn no_task_is_handed_out_more_often_than_its_attempts() {
    const TASKS: u64 = 60;
    const WORKERS: u64 = 4;
    for (counting, durability) in [
        (Counting::Written, Durability::write()),
        (Counting::Written, Durability::Flush),
        (Counting::Flushed, Durability::relaxed()),
    ] {
        let FileStore { store, folder, .. } = &FileStore::with_durability(durability);
        let tube = store.create_tube("work", limited(counting).driver(FIFO)).unwrap();
        tube.put_many((0..TASKS).map(|n| n.to_string())).unwrap();
        let hand_outs = Mutex::new(BTreeMap::<(u64, u32), u64>::new());
        let forgiven = AtomicU64::new(0);
        let is_done = |tube: &Tube| {
            let tasks = tube.statistics().unwrap().tasks;
            tasks.ready + tasks.taken == 0
        };
        let work = |worker: u64| {
            let mut turn = worker;
            while !is_done(&tube) {
                let Some(claim) = tube.try_take().unwrap() else {
                    thread::yield_now();
                    continue;
                };
                turn += WORKERS + 1;
                *hand_outs.lock().unwrap().entry((claim.id(), claim.attempt())).or_default() += 1;
                let ended = match turn % 7 {
                    0 if turn < 20 * WORKERS => {
                        forgiven.fetch_add(1, Ordering::SeqCst);
                        claim.end(Outcome::snooze(ms(0))).map(drop)
                    }
                    0..2 => claim.ack().map(drop),
                    2..4 => {
                        drop(claim);
                        Ok(())
                    }
                    _ => claim.fail(Failure::new("crash", "it fails")).map(drop),
                };
                assert!(matches!(ended, Ok(()) | Err(Error::NotTaken { .. })), "{ended:?}");
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS).map(|n| scope.spawn(move || work(n))).collect();
            for id in 0..TASKS {
                if tube.admin().revoke(id) == Ok(1) {
                    forgiven.fetch_add(1, Ordering::SeqCst);
                }
            }
            for worker in workers {
                worker.join().unwrap();
            }
        });
        let hand_outs = hand_outs.into_inner().unwrap();
        let repeated: u64 = hand_outs.values().map(|times| times - 1).sum();
        assert!(hand_outs.keys().all(|(_, attempt)| *attempt <= 2), "{hand_outs:?}");
        // An attempt has the same number again only if the one before was forgiven.
        assert!(repeated <= forgiven.into_inner(), "{hand_outs:?}");
        let statistics = tube.statistics().unwrap();
        assert_eq!(statistics.tasks.buried + statistics.calls.ack, TASKS);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        assert!(folder.path().exists());
    }
}
