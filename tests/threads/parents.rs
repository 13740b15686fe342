//! Parents beside callers that never stop: their children are told of their ends all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tubewell::{FIFO, OnParent, Put, Store, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::with_timeout;
use super::support::{FileStore, eventually};
use crate::stores;

const CALLERS: usize = 8;
const CHILDREN: u64 = 3_000;

/// Callers put and ack, each with a flush of its own or that of another one, until `work` returns.
fn beside_callers(busy: &Tube, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    busy.put("busy").unwrap();
                    if let Some(claim) = busy.try_take().unwrap() {
                        claim.ack().unwrap();
                    }
                }
            });
        }
        work();
        is_over.store(true, Ordering::SeqCst);
    });
}

fn children_are_told_beside_callers(end: impl Fn(&Tube) + Send + 'static, ready: u64) {
    with_timeout(move || {
        let file = FileStore::new();
        let [parents, tube, busy] = ["parents", "children", "busy"]
            .map(|name| file.store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap());
        parents.put("parent").unwrap();
        let child = |_| Put::new("child").after(&parents, [0]).on_parent(OnParent::Bury);
        tube.put_many((0..CHILDREN).map(child)).unwrap();
        beside_callers(&busy, || {
            eventually("the callers are busy", || busy.statistics().unwrap().calls.ack > 20);
            end(&parents);
            eventually("no child is blocked", || tube.statistics().unwrap().tasks.blocked == 0);
        });
        assert_eq!(tube.statistics().unwrap().tasks.ready, ready);
        file.assert_verified();
    });
}

/// Whenever a flush ends, a call waits for the next one: the writer thread leads commits of calls only.
#[test]
fn children_become_free_with_commits_of_calls_that_never_pause() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let [tube, busy] = ["children", "busy"]
            .map(|name| store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap());
        tube.put("parent").unwrap();
        tube.put_many((0..600).map(|_| Put::new("child").after(&tube, [0]))).unwrap();
        let (claim, calls) = (tube.claim(0).unwrap(), busy.to_async());
        let blocked = || tube.statistics().unwrap().tasks.blocked;
        let mut tickets = vec![disk.block_flush_of(|| calls.put("busy"))];
        let ack = claim.into_async().ack();
        let mut flushes = 0;
        while blocked() > 0 && flushes < 40 {
            disk.step_flush();
            tickets.push(calls.put("busy"));
            flushes += 1;
        }
        let left = blocked();
        disk.unblock_flushes();
        assert_eq!(left, 0, "children were blocked after {flushes} flushes");
        ack.wait().unwrap();
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn children_of_a_done_parent_become_free_beside_callers_that_never_stop() {
    children_are_told_beside_callers(
        |parents| assert_eq!(parents.claim(0).unwrap().ack().unwrap().id, 0),
        CHILDREN,
    );
}

#[test]
fn children_of_a_buried_parent_are_buried_beside_callers_that_never_stop() {
    children_are_told_beside_callers(
        |parents| assert_eq!(parents.admin().bury(0, None).unwrap().id, 0),
        0,
    );
}

#[test]
fn children_of_a_truncated_tube_are_buried_beside_callers_that_never_stop() {
    children_are_told_beside_callers(|parents| parents.admin().truncate().unwrap(), 0);
}
