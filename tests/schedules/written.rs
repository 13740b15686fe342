//! Tubes whose calls return after the write of their record: concurrent calls, calls beside a
//! flush, deferred calls, and a close.

use std::sync::{Arc, Mutex};

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{Durability, Error, FIFO, Store, Tube, TubeOptions};

use crate::disk::Disk;
use crate::explore::explore;
use crate::support::{is_closed, ms, spawn_with, tube, verify_and_close};

/// A written tube. The first put of a run waits for a flush, which reserves ids: it is done.
fn written_tube(store: &Store) -> Tube {
    let options = TubeOptions::new().durability(Durability::write());
    let tube = store.create_tube("written", options.driver(FIFO)).unwrap();
    tube.put("the first").unwrap();
    tube
}

/// The ids of the tasks of the written tube, in order, on the disk of a run that has ended. Verifies
/// the store, and that it does not use a known id again.
fn ids_on(disk: &Arc<Disk>, known: &[u64]) -> Vec<u64> {
    let store = disk.open_with_manual_clock();
    let tube = store.tube("written").unwrap();
    let mut ids = Vec::new();
    while let Some(claim) = tube.try_take().unwrap() {
        ids.push(claim.id());
        let _ = claim.detach();
    }
    let next = tube.put("the next run").unwrap().id;
    assert!(known.iter().all(|id| *id < next), "{known:?} before {next}");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
    ids
}

/// The ids that calls have returned.
#[derive(Clone, Debug, Default)]
struct Answered(Arc<Mutex<Vec<u64>>>);

impl Answered {
    fn add(&self, id: u64) {
        self.0.lock().unwrap().push(id);
    }

    fn ids(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn kill_keeps_answered_written_puts_and_a_prefix_of_all() {
    explore("kill_keeps_answered_written_puts_and_a_prefix_of_all", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let tube = written_tube(&store);
        let answered = Answered::default();
        let putters = ["a", "b", "c"].map(|text| {
            let answered = answered.clone();
            spawn_with(&tube, move |tube| answered.add(tube.put(text).unwrap().id))
        });
        answered.add(tube.put("d").unwrap().id);
        let (known, killed) = (answered.ids(), disk.after_kill());
        for putter in putters {
            putter.join().unwrap();
        }
        let mut all = answered.ids();
        all.sort_unstable();
        let kept = ids_on(&killed, &known);
        assert!(known.iter().all(|id| kept.contains(id)), "{known:?} in {kept:?}");
        // The records have the order of the decisions, and so do the ids.
        assert_eq!(kept[1..], all[..kept.len() - 1]);
        assert_eq!(ids_on(&disk.after_kill(), &all)[1..], all);
        verify_and_close(&store);
    });
}

/// The flush covers what was written before it began, and no other call waits for it.
#[test]
fn written_calls_return_while_a_flush_is_blocked() {
    explore("written_calls_return_while_a_flush_is_blocked", || {
        let disk = Disk::with_power_cuts();
        let store = disk.open_with_manual_clock();
        let (written, flushed) = (written_tube(&store), tube(&store, FIFO));
        let before = written.put("before").unwrap().id;
        // These may be decided before the flush begins, or during it.
        let waits =
            spawn_with(&written, |written| written.to_async().put("waited for").wait().unwrap().id);
        let awaits =
            spawn_with(&written, |written| block_on(written.to_async().put("awaited")).unwrap().id);
        let leader =
            disk.block_flush_of(|| spawn_with(&flushed, |flushed| flushed.put("flushed").unwrap()));
        let puts = spawn_with(&written, |written| written.put("put").unwrap().id);
        let during = [puts, waits, awaits].map(|thread| thread.join().unwrap());
        let kept = ids_on(&disk.after_kill(), &during);
        assert!(during.iter().all(|id| kept.contains(id)), "{during:?} in {kept:?}");
        disk.unblock_flushes();
        leader.join().unwrap();
        let kept = ids_on(&disk.after_power_cut(), &[before]);
        assert!(kept.contains(&before), "{before} in {kept:?}");
        assert_eq!(flushed.statistics().unwrap().tasks.ready, 1);
        verify_and_close(&store);
    });
}

/// Only the writer thread can lead the flush of a ticket that no thread waits for.
#[test]
fn deferred_written_calls_return_while_the_writer_thread_flushes() {
    explore("deferred_written_calls_return_while_the_writer_thread_flushes", || {
        let disk = Disk::new();
        let store = disk.open();
        let (written, flushed) = (written_tube(&store), tube(&store, FIFO));
        let ticket = disk.block_flush_of(|| flushed.to_async().put("flushed"));
        let await_put = |text: &'static str| {
            spawn_with(&written, move |written| block_on(written.to_async().put(text)).unwrap().id)
        };
        let awaits = ["a", "b", "c"].map(await_put);
        let during = awaits.map(|thread| thread.join().unwrap());
        assert!(!ticket.is_done());
        let kept = ids_on(&disk.after_kill(), &during);
        assert!(during.iter().all(|id| kept.contains(id)), "{during:?} in {kept:?}");
        disk.unblock_flushes();
        ticket.wait().unwrap();
        assert_eq!(written.statistics().unwrap().tasks.ready, 4);
        verify_and_close(&store);
    });
}

/// The writer thread flushes and the checkpoint thread writes while the store is closed.
#[test]
fn close_answers_deferred_written_calls_beside_a_flush_of_the_writer_thread() {
    let test = "close_answers_deferred_written_calls_beside_a_flush_of_the_writer_thread";
    explore(test, || {
        let disk = Disk::with_power_cuts();
        let store = disk.open();
        let (written, flushed) = (written_tube(&store), tube(&store, FIFO));
        drop(flushed.to_async().put("flushed"));
        let await_put = |text: &'static str| {
            spawn_with(&written, move |written| {
                block_on(written.to_async().put(text)).map(|receipt| receipt.id)
            })
        };
        let awaits = ["a", "b"].map(await_put);
        let puts = spawn_with(&written, |tube| tube.put("put").map(|receipt| receipt.id));
        store.close().unwrap();
        let mut known = Vec::new();
        for answer in awaits.into_iter().chain([puts]).map(|thread| thread.join().unwrap()) {
            match answer {
                Ok(id) => known.push(id),
                refused => assert!(is_closed(&refused), "{refused:?}"),
            }
        }
        let kept = ids_on(&disk.after_power_cut(), &known);
        assert!(known.iter().all(|id| kept.contains(id)), "{known:?} in {kept:?}");
    });
}

#[test]
fn deferred_written_calls_are_written_whether_waited_for_awaited_or_dropped() {
    let test = "deferred_written_calls_are_written_whether_waited_for_awaited_or_dropped";
    explore(test, || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let (written, flushed) = (written_tube(&store), tube(&store, FIFO));
        let puts = spawn_with(&flushed, |flushed| flushed.put("flushed").unwrap());
        let waits =
            spawn_with(&written, |written| written.to_async().put("waited for").wait().unwrap().id);
        let awaits =
            spawn_with(&written, |written| block_on(written.to_async().put("awaited")).unwrap().id);
        drop(written.to_async().put("dropped"));
        let answered = [waits, awaits].map(|thread| thread.join().unwrap());
        let kept = ids_on(&disk.after_kill(), &answered);
        assert!(answered.iter().all(|id| kept.contains(id)), "{answered:?} in {kept:?}");
        puts.join().unwrap();
        assert_eq!(written.statistics().unwrap().tasks.ready, 4);
        verify_and_close(&store);
        assert_eq!(ids_on(&disk.after_kill(), &answered).len(), 4);
    });
}

#[test]
fn writer_thread_writes_the_call_of_a_dropped_ticket() {
    explore("writer_thread_writes_the_call_of_a_dropped_ticket", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let tube = written_tube(&store);
        let before = disk.journal_writes();
        let other = spawn_with(&tube, |tube| drop(tube.to_async().put("other")));
        drop(tube.to_async().put("x"));
        other.join().unwrap();
        // No other thread writes them.
        while ids_written(&disk, before) < 2 {
            thread::yield_now();
        }
        verify_and_close(&store);
    });
}

/// How many tasks of the written tube a kill would keep, besides the first; 0 if nothing was
/// written since.
fn ids_written(disk: &Arc<Disk>, before: u64) -> usize {
    if disk.journal_writes() == before { 0 } else { ids_on(&disk.after_kill(), &[]).len() - 1 }
}

#[test]
fn written_put_is_flushed_in_time_without_another_call() {
    explore("written_put_is_flushed_in_time_without_another_call", || {
        let disk = Disk::with_power_cuts();
        let store = disk.open();
        let tube = written_tube(&store);
        let other = spawn_with(&tube, |tube| tube.put("other").unwrap().commit);
        let last = tube.put("x").unwrap().commit.max(other.join().unwrap());
        let flushes = store.admin().counters().unwrap().flushes;
        pass(ms(50));
        // Only the writer thread leads this flush.
        while store.admin().counters().unwrap().flushes == flushes {
            thread::yield_now();
        }
        assert_eq!(store.flush().unwrap(), last);
        assert_eq!(ids_on(&disk.after_power_cut(), &[]).len(), 3);
        verify_and_close(&store);
    });
}

#[test]
fn close_answers_written_calls_and_keeps_them() {
    explore("close_answers_written_calls_and_keeps_them", || {
        let disk = Disk::with_power_cuts();
        let store = disk.open_with_manual_clock();
        let tube = written_tube(&store);
        drop(tube.to_async().put("dropped"));
        let puts = spawn_with(&tube, |tube| tube.put("put").map(|receipt| receipt.id));
        let waits = spawn_with(&tube, |tube| {
            tube.to_async().put("waited for").wait().map(|receipt| receipt.id)
        });
        let awaits = spawn_with(&tube, |tube| {
            block_on(tube.to_async().put("awaited")).map(|receipt| receipt.id)
        });
        store.close().unwrap();
        let mut known = Vec::new();
        for answer in [puts, waits, awaits].map(|thread| thread.join().unwrap()) {
            match answer {
                Ok(id) => known.push(id),
                refused => assert!(is_closed(&refused), "{refused:?}"),
            }
        }
        let kept = ids_on(&disk.after_power_cut(), &known);
        assert!(known.iter().all(|id| kept.contains(id)), "{known:?} in {kept:?}");
        assert!(kept.len() >= known.len() + 2, "the call of the dropped ticket is missing");
    });
}

/// The last commit fails, so that the record of a put may be missing in the file. Dropping the disk
/// asserts that no call came after its close.
#[test]
fn nothing_is_written_after_a_close_that_failed() {
    explore("nothing_is_written_after_a_close_that_failed", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let tube = written_tube(&store);
        let puts = spawn_with(&tube, |tube| tube.put("put").map(|receipt| receipt.id));
        disk.database_flushes_fail.raise();
        assert!(store.close().is_err());
        let answer = puts.join().unwrap();
        let allowed = matches!(&answer, Ok(_) | Err(Error::OutcomeUnknown { .. }));
        assert!(allowed || is_closed(&answer), "{answer:?}");
        if let Ok(id) = answer {
            assert!(ids_on(&disk.after_kill(), &[id]).contains(&id), "{id}");
        }
    });
}
