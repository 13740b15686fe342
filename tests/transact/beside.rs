//! Other callers beside a transaction.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::{scope, spawn};

use tubewell::{Durability, Error, FIFO, Outcome, Result, Store, TubeOptions};

use super::blocking_disk::Disk;
use super::support::{serve, served};
use crate::executor::{wait_until, with_timeout};

/// Runs `beside` on another thread while a closure runs, which ends after it.
fn while_closure_runs<T: Send>(store: &Store, beside: impl FnOnce() -> T + Send) -> T {
    scope(|scope| {
        store
            .transact(|tx| -> Result<T> {
                serve(tx, "ann")?;
                // The other thread does not need the transaction, so it can be waited for.
                Ok(scope.spawn(beside).join().unwrap())
            })
            .unwrap()
    })
}

#[test]
fn other_callers_commit_beside_the_closure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::new().durability(durability);
        let work = store.open_tube(&durability.to_string(), options.driver(FIFO)).unwrap();
        while_closure_runs(&store, || {
            work.put("a").unwrap();
            let claim = work.take().unwrap();
            assert_eq!(work.query().task(claim.id()).unwrap().body, b"a");
            claim.ack().unwrap();
            work.put_many(["b", "c"]).unwrap();
            store.flush().unwrap();
        });
        assert_eq!(work.statistics().unwrap().tasks.ready, 2);
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (3, Vec::new()));
}

/// A killed run leaves edits in the journal. The first commit of the next run must be one of the
/// database, which a closure keeps out.
#[test]
fn other_callers_commit_beside_the_first_transaction_after_a_kill() {
    let disk = Arc::new(Disk::default());
    let store = disk.open(Store::options());
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put("a").unwrap();
    std::mem::forget((store, work));
    let store = disk.open(Store::options());
    let work = store.find_tube("work").unwrap();
    while_closure_runs(&store, || {
        work.put("b").unwrap();
    });
    assert_eq!(work.statistics().unwrap().tasks.ready, 2);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Such a commit goes to the database directly, so it waits for the closure.
#[test]
fn commit_that_needs_the_database_waits_for_the_closure() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let (began, is_begun) = channel();
    scope(|scope| {
        let put = store
            .transact(|tx| -> Result<_> {
                let put = scope.spawn(|| {
                    began.send(()).unwrap();
                    work.put(vec![7; 300_000])
                });
                is_begun.recv().unwrap();
                serve(tx, "ann")?;
                tx.put(&work, "small")?;
                Ok(put)
            })
            .unwrap();
        put.join().unwrap().unwrap();
    });
    assert_eq!(work.statistics().unwrap().tasks.ready, 2);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Both halves of the journal fill up while the closure runs: other callers wait for it.
#[test]
fn full_journal_waits_for_the_closure() {
    with_timeout(|| {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        assert_eq!(store.admin().counters().unwrap().journal_waits, 0);
        scope(|scope| {
            let puts = store
                .transact(|tx| -> Result<_> {
                    let puts = scope.spawn(|| {
                        for _ in 0..20 {
                            work.put(vec![7; 100_000]).unwrap();
                        }
                    });
                    // Both halves have 1 MiB.
                    wait_until(|| store.admin().counters().unwrap().journal_waits > 0);
                    assert!(!puts.is_finished());
                    serve(tx, "ann")?;
                    tx.put(&work, "own")?;
                    Ok(puts)
                })
                .unwrap();
            puts.join().unwrap();
        });
        assert_eq!(work.statistics().unwrap().tasks.ready, 21);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// A flush in flight, calls that wait for the next one, and a leader that is ready to begin it.
#[test]
fn transaction_and_flushes_of_many_callers_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let barrier = Barrier::new(6);
    scope(|scope| {
        for thread in 0..6 {
            let (store, work, barrier) = (&store, &work, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..40 {
                    if thread % 2 == 0 {
                        work.put("a").unwrap();
                        continue;
                    }
                    let claim = work.take().unwrap();
                    store
                        .transact(|tx| {
                            serve(tx, "ann")?;
                            if round % 2 == 0 {
                                tx.put(work, "again")?;
                            }
                            tx.end(&claim, Outcome::done())
                        })
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(work.statistics().unwrap().tasks.ready, 60);
    assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (120, Vec::new()));
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (120, Vec::new()));
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 60);
}

#[test]
fn takers_do_not_wait_for_the_commit() {
    let disk = Arc::new(Disk::default());
    let store = disk.open(Store::options());
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many(["a", "b"]).unwrap();
    let claim = work.try_take().unwrap().unwrap();
    let committing = disk.block_flush_of(|| {
        let store = store.clone();
        spawn(move || {
            store.transact(|tx| serve(tx, "ann").and_then(|()| tx.end(&claim, Outcome::done())))
        })
    });
    let other = work.try_take().unwrap().unwrap();
    assert_eq!(other.body(), b"b");
    // Not visible before the flush.
    assert_eq!(work.statistics().unwrap().tasks.taken, 2);
    drop(other);
    disk.unblock_flushes();
    committing.join().unwrap().unwrap();
    assert_eq!((served(&store, "ann"), work.statistics().unwrap().tasks.total), (1, 1));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The transaction is refused then, and the file is free when the close returns.
#[test]
fn close_waits_for_the_closure() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    scope(|scope| {
        let mut closing = None;
        let refused = store.transact(|tx| {
            serve(tx, "ann")?;
            closing = Some(scope.spawn(|| store.close()));
            wait_until(|| work.statistics() == Err(Error::Closed));
            tx.put(&work, "late").map(drop)
        });
        assert_eq!(refused, Err(Error::Closed));
        closing.unwrap().join().unwrap().unwrap();
    });
    let store = Store::open(&path).unwrap();
    assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (0, Vec::new()));
}

#[test]
fn transactions_of_two_threads_run_one_after_the_other() {
    let store = Store::in_memory().unwrap();
    scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    store.transact(|tx| serve(tx, "ann")).unwrap();
                }
            });
        }
    });
    assert_eq!(served(&store, "ann"), 200);
}

#[test]
fn verify_and_backup_wait_for_the_closure() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let copy = dir.path().join("copy");
    scope(|scope| {
        let mut others = Vec::new();
        store
            .transact(|tx| -> Result<()> {
                others.push(scope.spawn(|| assert_eq!(store.admin().verify().unwrap(), [""; 0])));
                others.push(scope.spawn(|| store.admin().backup(&copy).unwrap()));
                serve(tx, "ann")?;
                tx.put(&work, "a").map(drop)
            })
            .unwrap();
        for other in others {
            other.join().unwrap();
        }
    });
    let copy = Store::open(&copy).unwrap();
    assert_eq!((served(&copy, "ann"), copy.admin().verify().unwrap()), (1, Vec::new()));
    assert_eq!(copy.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 1);
}

/// Reads of a view go on while the store works, and fail when it is closed.
#[test]
fn view_outlives_no_close() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    store.transact(|tx| serve(tx, "ann")).unwrap();
    let read = store.view(|view| -> Result<()> {
        store.transact(|tx| serve(tx, "ann"))?;
        let before = view.open_table(super::support::SERVED)?.unwrap().get("ann")?;
        assert_eq!(before.unwrap().value(), 1);
        store.close()?;
        Ok(())
    });
    assert_eq!(read, Ok(()));
}
