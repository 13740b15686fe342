//! Calls made while an idle store shrinks its drained file.

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{FIFO, Store, Tube};

use crate::explore::explore;
use crate::support::{is_closed, ms, spawn_with, sweeper_store, taker, tube, verify_and_close};

/// A store with a large file and no tasks.
fn drained() -> (Store, Tube) {
    let store = sweeper_store();
    let tube = tube(&store, FIFO);
    let large = tube.put(vec![0; 5 << 20]).unwrap();
    tube.delete(large.id).unwrap();
    (store, tube)
}

#[test]
fn calls_made_while_file_shrinks_are_answered() {
    explore("calls_made_while_file_shrinks_are_answered", || {
        let (store, tube) = drained();
        let before = store.admin().counters().unwrap().flushes;
        let takes = taker(&tube);
        let puts = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        let flushes = {
            let store = store.clone();
            thread::spawn(move || store.flush().unwrap())
        };
        pass(ms(6000));
        let claim = takes.join().unwrap();
        assert_eq!(claim.id(), puts.join().unwrap());
        claim.ack().unwrap();
        flushes.join().unwrap();
        // The calls may have postponed the shrinking, which needs an idle period without a commit.
        while store.admin().counters().unwrap().flushes < before + 8 {
            pass(ms(6000));
            thread::yield_now();
        }
        verify_and_close(&store);
    });
}

#[test]
fn store_closes_while_file_shrinks() {
    explore("store_closes_while_file_shrinks", || {
        let (store, tube) = drained();
        let puts = spawn_with(&tube, |tube| tube.put("x").map(|_| ()));
        let closes = {
            let store = store.clone();
            thread::spawn(move || store.close().unwrap())
        };
        pass(ms(6000));
        closes.join().unwrap();
        let put = puts.join().unwrap();
        assert!(put.is_ok() || is_closed(&put), "{put:?}");
    });
}
