//! Transactions of the application beside commits, checkpoints and a close.

use std::sync::Arc;

use shuttle::thread;
use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{Error, FIFO, Outcome, Result, Store};

use crate::disk::Disk;
use crate::explore::{explore, explore_few};
use crate::support::{is_closed, spawn_with, taker, tube, verify_and_close};

const COUNT: TableDefinition<u8, u64> = TableDefinition::new("count");

/// Counts, in the application's table.
fn count(store: &Store) -> Result<()> {
    store.transact(|tx| {
        let mut table = tx.open_table(COUNT)?;
        let before = table.get(0)?.map_or(0, |row| row.value());
        table.insert(0, before + 1)?;
        Ok(())
    })
}

fn counted(store: &Store) -> u64 {
    let read = store.view(|view| -> Result<u64> {
        let Some(table) = view.open_table(COUNT)? else { return Ok(0) };
        Ok(table.get(0)?.map_or(0, |row| row.value()))
    });
    read.unwrap()
}

#[test]
fn transactions_and_commits_take_turns() {
    explore("transactions_and_commits_take_turns", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let work = tube(&store, FIFO);
        work.put("a").unwrap();
        let claim = work.try_take().unwrap().unwrap();
        let putter = spawn_with(&work, |work| work.put("b").unwrap());
        let waiting = taker(&work);
        let other = {
            let store = store.clone();
            thread::spawn(move || count(&store).unwrap())
        };
        store
            .transact(|tx| tx.put(&work, "c").and_then(|_| tx.end(&claim, Outcome::done())))
            .unwrap();
        assert_eq!(work.statistics().unwrap().calls.ack, 1);
        putter.join().unwrap();
        other.join().unwrap();
        drop(waiting.join().unwrap());
        assert_eq!((counted(&store), work.statistics().unwrap().tasks.ready), (1, 2));
        let after = disk.after_kill().open_with_manual_clock();
        assert_eq!((counted(&after), after.statistics().unwrap()[FIFO].tasks.ready), (1, 2));
        verify_and_close(&after);
        verify_and_close(&store);
    });
}

/// A half of the journal is full when the transaction begins, and another while it runs.
#[test]
fn transaction_and_checkpoint_thread_take_turns() {
    explore_few("transaction_and_checkpoint_thread_take_turns", || {
        let disk: Arc<Disk> = Disk::new();
        let store = disk.open();
        let work = tube(&store, FIFO);
        let large = || vec![7; 200 << 10];
        work.put(large()).unwrap();
        work.put(large()).unwrap();
        let putter = spawn_with(&work, move |work| {
            for _ in 0..3 {
                work.put(large()).unwrap();
            }
        });
        count(&store).unwrap();
        putter.join().unwrap();
        count(&store).unwrap();
        assert_eq!((counted(&store), work.statistics().unwrap().tasks.ready), (2, 5));
        verify_and_close(&store);
    });
}

#[test]
fn close_beside_a_transaction_leaves_all_or_nothing() {
    explore("close_beside_a_transaction_leaves_all_or_nothing", || {
        let disk = Disk::new();
        let store = disk.open_with_manual_clock();
        let work = tube(&store, FIFO);
        let closing = {
            let store = store.clone();
            thread::spawn(move || store.close().unwrap())
        };
        let transacted = store.transact(|tx| -> Result<()> {
            tx.open_table(COUNT)?.insert(0, 1)?;
            tx.put(&work, "a").map(drop)
        });
        closing.join().unwrap();
        assert!(transacted == Ok(()) || is_closed(&transacted), "{transacted:?}");
        let done = u64::from(transacted != Err(Error::Closed));
        drop((store, work));
        let after = disk.open_with_manual_clock();
        assert_eq!((counted(&after), after.statistics().unwrap()[FIFO].tasks.ready), (done, done));
        verify_and_close(&after);
    });
}
