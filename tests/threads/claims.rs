//! Claims of a task by its id while its last change is not yet visible.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Waker;
use std::thread;

use tubewell::{AsyncClaim, Durability, Error, FIFO, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{block_on, poll_pending, with_timeout};
use super::support::{HANGS_AFTER, ms};
use crate::stores;

fn store(durability: Durability) -> (Arc<Disk>, Store, Tube) {
    let disk = Arc::new(Disk::default());
    let store = stores::serve(disk.open(Store::options().durability(durability)));
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    // The first put of a run reserves ids, with a flush.
    tube.put("first").unwrap();
    (disk, store, tube)
}

/// Makes a call whose write or flush is blocked. Returns when that write or flush has begun.
fn block<T>(disk: &Disk, write: bool, call: impl FnOnce() -> T) -> T {
    if write { disk.block_write_of(call) } else { disk.block_flush_of(call) }
}

fn unblock(disk: &Disk) {
    disk.unblock_writes();
    disk.unblock_flushes();
}

#[test]
fn claim_waits_for_put_under_way_and_takes_its_task() {
    for blocks_write in [true, false] {
        with_timeout(move || {
            let (disk, store, tube) = store(Durability::Flush);
            let id = store.admin().next_id().unwrap();
            let put = || tube.to_async().put("second");
            let ticket = block(&disk, blocks_write, put);
            let is_unblocked = AtomicBool::new(false);
            let (answer, answered) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let claim = tube.claim(id).unwrap();
                    let early = !is_unblocked.load(Ordering::SeqCst);
                    answer.send((claim, early)).unwrap();
                });
                // No claim comes. One that does not wait comes well within this time.
                let early = answered.recv_timeout(ms(30));
                assert!(early.is_err(), "{early:?}");
                is_unblocked.store(true, Ordering::SeqCst);
                unblock(&disk);
                let (claim, early) = answered.recv_timeout(HANGS_AFTER).unwrap();
                assert!(!early, "the claim did not wait");
                assert_eq!((claim.id(), claim.body()), (id, &b"second"[..]));
                claim.ack().unwrap();
            });
            ticket.wait().unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        });
    }
}

#[test]
fn claim_async_of_put_under_way_is_pending_and_blocks_no_thread() {
    for blocks_write in [true, false] {
        with_timeout(move || {
            let (disk, store, tube) = store(Durability::Flush);
            let id = store.admin().next_id().unwrap();
            let put = || tube.to_async().put("second");
            let ticket = block(&disk, blocks_write, put);
            let mut claims =
                [tube.to_async().claim(id), tube.to_async().claim(id), tube.to_async().claim(id)];
            for claim in &mut claims {
                poll_pending(claim, Waker::noop());
            }
            let [dropped, first, second] = claims;
            drop(dropped);
            // The task of another put is claimed meanwhile.
            tube.claim(0).unwrap().release_in(ms(0)).unwrap();
            unblock(&disk);
            let claim = block_on(pin!(first)).unwrap();
            assert_eq!((claim.id(), claim.body()), (id, &b"second"[..]));
            let refused = block_on(pin!(second)).unwrap_err();
            assert!(
                matches!(refused, Error::NotReady { state: TaskState::Taken, .. }),
                "{refused:?}"
            );
            claim.ack().wait().unwrap();
            ticket.wait().unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        });
    }
}

/// The task of a written put is visible when the put is decided. Its write and flush come later.
#[test]
fn claim_waits_for_no_write_or_flush_of_written_put() {
    for blocks_write in [true, false] {
        with_timeout(move || {
            let (disk, store, tube) = store(Durability::write());
            let id = store.admin().next_id().unwrap();
            let put = || tube.to_async().put("second");
            let ticket = block(&disk, blocks_write, put);
            let (answer, answered) = mpsc::channel();
            thread::scope(|scope| {
                let tube = &tube;
                scope.spawn(move || {
                    let claimed = [
                        tube.claim(id),
                        block_on(tube.to_async().claim(0)).map(AsyncClaim::into_blocking),
                    ];
                    answer
                        .send(claimed.map(|claim| claim.unwrap().detach().body.to_vec()))
                        .unwrap();
                });
                let claimed = answered.recv_timeout(HANGS_AFTER / 2);
                unblock(&disk);
                assert_eq!(claimed, Ok([b"second".to_vec(), b"first".to_vec()]));
            });
            ticket.wait().unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        });
    }
}

/// A removal that is not yet visible is not reported as done before its flush.
#[test]
fn claim_of_deleted_task_returns_not_found_after_flush() {
    with_timeout(|| {
        let (disk, store, tube) = store(Durability::Flush);
        let ticket = disk.block_flush_of(|| tube.to_async().delete(0));
        let mut claim = tube.to_async().claim(0);
        poll_pending(&mut claim, Waker::noop());
        stores::settle(&store);
        disk.unblock_flushes();
        assert_eq!(block_on(claim).map(drop), Err(Error::NotFound { id: 0 }));
        ticket.wait().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// After a release the new body is not yet flushed, so the next take waits for its flush.
#[test]
fn claim_after_release_gets_new_body_after_its_flush() {
    with_timeout(|| {
        let (disk, store, tube) = store(Durability::Flush);
        let mut claim = tube.claim(0).unwrap().into_async();
        let body = vec![7; 5000];
        let ticket = disk.block_flush_of(|| claim.checkpoint(body.clone()));
        claim.release_in(ms(0)).wait().unwrap();
        assert!(tube.try_take().unwrap().is_none(), "a take got a body that is not flushed");
        let mut next = tube.to_async().claim(0);
        poll_pending(&mut next, Waker::noop());
        stores::settle(&store);
        disk.unblock_flushes();
        assert_eq!(block_on(next).unwrap().body(), body);
        ticket.wait().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
