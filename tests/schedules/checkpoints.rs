//! Checkpoints: the database takes one half of the journal while callers go on in the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{Durability, Error, FIFO, ManualClock, Receipt, Result, Store, Tube, TubeOptions};

use crate::disk::Disk;
use crate::explore::{explore, explore_few};
use crate::support::{is_closed, ms, options, spawn_with, taker, verify_and_close};

/// A body. Two of them fill a half of the journal.
fn large() -> Vec<u8> {
    static BODY: [u8; 200 << 10] = [7; 200 << 10];
    BODY.to_vec()
}

/// A store with a checkpoint thread, a written tube, and a journal whose first half is full.
fn store_with_full_half(disk: &Arc<Disk>) -> (Store, Tube) {
    let store = disk.open();
    let options = TubeOptions::new().durability(Durability::write());
    let tube = store.create_tube("written", options.driver(FIFO)).unwrap();
    for _ in 0..2 {
        tube.put(large()).unwrap();
    }
    (store, tube)
}

fn fifo(store: &Store) -> Tube {
    crate::support::tube(store, FIFO)
}

/// The number of tasks on the disk of a run that has ended.
fn tasks_on(disk: &Arc<Disk>) -> u64 {
    let store = disk.open_with_manual_clock();
    let tasks = store.statistics().unwrap()["written"].tasks.total;
    verify_and_close(&store);
    tasks
}

fn failed<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::OutcomeUnknown { .. } | Error::Unavailable { .. }))
}

#[test]
fn callers_go_on_while_a_half_is_checkpointed() {
    explore("callers_go_on_while_a_half_is_checkpointed", || {
        let disk = Disk::new();
        let (store, tube) = store_with_full_half(&disk);
        let flushed = fifo(&store);
        let puts = spawn_with(&tube, |tube| tube.put(large()).unwrap());
        let takes = spawn_with(&tube, |tube| tube.try_take().unwrap().unwrap().ack().unwrap());
        let flushes = spawn_with(&flushed, |flushed| flushed.put("flushed").unwrap());
        let last = tube.put("small").unwrap();
        takes.join().unwrap();
        puts.join().unwrap();
        let known = flushes.join().unwrap();
        assert!(last.commit > 0 && known.commit > 0);
        assert_eq!(tasks_on(&disk.after_kill()), 3);
        verify_and_close(&store);
    });
}

/// Both halves are full as long as the checkpoint of the first one runs.
#[test]
fn commit_that_finds_the_journal_full_waits_for_the_checkpoint() {
    static WAITS: AtomicU64 = AtomicU64::new(0);
    explore("commit_that_finds_the_journal_full_waits_for_the_checkpoint", || {
        let disk = Disk::new();
        let (store, tube) = store_with_full_half(&disk);
        let putters = [(); 2].map(|()| {
            spawn_with(&tube, |tube| [tube.put(large()).unwrap(), tube.put(large()).unwrap()])
        });
        let flushed = tube.put("small").unwrap();
        for [first, second] in putters.map(|putter| putter.join().unwrap()) {
            assert!(first.commit < second.commit && flushed.commit > 0);
        }
        WAITS.fetch_add(store.admin().counters().unwrap().journal_waits, Ordering::Relaxed);
        assert_eq!(tasks_on(&disk.after_kill()), 7);
        verify_and_close(&store);
    });
    assert!(WAITS.load(Ordering::Relaxed) > 0, "no commit has waited");
}

#[test]
fn close_ends_while_a_checkpoint_waits_or_runs() {
    explore("close_ends_while_a_checkpoint_waits_or_runs", || {
        let disk = Disk::with_power_cuts();
        let (store, tube) = store_with_full_half(&disk);
        let flushed = fifo(&store);
        let putters =
            [(); 2].map(|()| spawn_with(&tube, |tube| tube.put(large()).map(|put| put.id)));
        let defers = spawn_with(&flushed, |flushed| {
            flushed.to_async().put("deferred").wait().map(|put| put.id)
        });
        drop(flushed.to_async().put("dropped"));
        store.close().unwrap();
        let mut known = 0;
        for answer in putters.map(|putter| putter.join().unwrap()) {
            assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
            known += u64::from(answer.is_ok());
        }
        let deferred = defers.join().unwrap();
        assert!(deferred.is_ok() || is_closed(&deferred), "{deferred:?}");
        assert_eq!(tasks_on(&disk.after_power_cut()), 2 + known);
    });
}

/// The flush that fails is that of the checkpoint, or of the last commit.
#[test]
fn close_beside_a_failing_checkpoint_reopens_the_storage_or_reports_the_failure() {
    static REOPENED: AtomicU64 = AtomicU64::new(0);
    let test = "close_beside_a_failing_checkpoint_reopens_the_storage_or_reports_the_failure";
    explore(test, || {
        let disk = Disk::new();
        let (store, tube) = store_with_full_half(&disk);
        let puts = spawn_with(&tube, |tube| tube.put(large()).map(|put| put.id));
        let small = tube.put("small").map(drop);
        disk.next_database_flush_fails.raise();
        let closed = store.close();
        let put = puts.join().unwrap().map(drop);
        let answered = [&put, &small].into_iter().filter(|answer| answer.is_ok()).count() as u64;
        for answer in [put, small] {
            let allowed = answer.is_ok() || failed(&answer) || is_closed(&answer);
            assert!(allowed, "{answer:?}");
        }
        REOPENED.fetch_add(u64::from(closed.is_ok()), Ordering::Relaxed);
        assert!(tasks_on(&disk.after_kill()) >= 2 + answered, "{closed:?}");
    });
    assert!(REOPENED.load(Ordering::Relaxed) > 0, "no close has reopened the storage");
}

#[test]
fn failures_of_journal_and_checkpoint_lose_nothing_that_was_decided() {
    static BOTH: AtomicU64 = AtomicU64::new(0);
    explore("failures_of_journal_and_checkpoint_lose_nothing_that_was_decided", || {
        let disk = Disk::new();
        let (store, tube) = store_with_full_half(&disk);
        let flushed = fifo(&store);
        let puts = spawn_with(&tube, |tube| [tube.put(large()), tube.put(large())]);
        let durable = spawn_with(&flushed, |flushed| flushed.put("flushed"));
        disk.database_flushes_fail.raise();
        let first = tube.put(large());
        disk.journal_writes_fail.raise();
        let second = tube.put("second");
        let mut answers: Vec<Result<Receipt>> = puts.join().unwrap().to_vec();
        answers.extend([first, second]);
        let durable = durable.join().unwrap();
        assert!(durable.is_ok() || failed(&durable), "{durable:?}");
        // A kill loses no answered change, although the storage fails.
        let answered = 2 + answers.iter().filter(|answer| answer.is_ok()).count() as u64;
        assert!(tasks_on(&disk.after_kill()) >= answered);
        disk.database_flushes_fail.lower();
        disk.journal_writes_fail.lower();
        let mut decided = 2;
        for answer in &answers {
            assert!(answer.is_ok() || failed(answer), "{answer:?}");
            let refused = matches!(answer, Err(Error::Unavailable { .. }));
            decided += u64::from(!refused);
        }
        while tube.put("again").is_err() {
            pass(ms(1000));
            thread::yield_now();
        }
        assert_eq!(tube.statistics().unwrap().tasks.ready, decided + 1);
        BOTH.fetch_add(u64::from(disk.has_failed_at_both()), Ordering::Relaxed);
        verify_and_close(&store);
    });
    assert!(BOTH.load(Ordering::Relaxed) > 0, "journal and checkpoint have not failed together");
}

#[test]
fn verify_and_backup_read_one_state_beside_a_checkpoint() {
    explore_few("verify_and_backup_read_one_state_beside_a_checkpoint", || {
        let disk = Disk::new();
        let (store, tube) = store_with_full_half(&disk);
        let puts =
            spawn_with(&tube, |tube| [large(), b"small".to_vec()].map(|b| tube.put(b).unwrap()));
        let verifies = {
            let store = store.clone();
            thread::spawn(move || store.admin().verify().unwrap())
        };
        let acks = spawn_with(&tube, |tube| tube.try_take().unwrap().unwrap().ack().unwrap());
        let (dir, answered) = (tempfile::tempdir().unwrap(), tube.put("backed up").unwrap().id);
        let path = dir.path().join("copy");
        store.admin().backup(&path).unwrap();
        let copy = options().clock(ManualClock::new()).open(&path).unwrap();
        copy.tube("written").unwrap().query().task(answered).unwrap();
        verify_and_close(&copy);
        assert_eq!(verifies.join().unwrap(), [""; 0]);
        puts.join().unwrap();
        acks.join().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn file_shrinks_beside_a_checkpoint() {
    explore_few("file_shrinks_beside_a_checkpoint", || {
        let disk = Disk::new();
        let (store, written) = store_with_full_half(&disk);
        let drained = fifo(&store);
        let large_task = drained.put(vec![0; 5 << 20]).unwrap();
        drained.delete(large_task.id).unwrap();
        for _ in 0..2 {
            let claim = written.try_take().unwrap().unwrap();
            claim.ack().unwrap();
        }
        let takes = taker(&drained);
        let puts = spawn_with(&written, |written| {
            for _ in 0..3 {
                let id = written.put(large()).unwrap().id;
                written.delete(id).unwrap();
            }
        });
        let before = disk.size();
        pass(ms(6000));
        drained.put("x").unwrap();
        takes.join().unwrap().ack().unwrap();
        puts.join().unwrap();
        while disk.size() > before / 2 {
            pass(ms(6000));
            thread::yield_now();
        }
        verify_and_close(&store);
    });
}
