//! Puts that wait for space in a full tube.

use tubewell::{Error, LIMFIFOTTL, Store, Tube, TubeOptions};

use shuttle::thread;

use crate::explore::explore;
use crate::support::{Flag, NO_TIMEOUT, manual_clock_store, ms, spawn_with, verify_and_close};

/// A tube with a capacity of one task that is full, and the id of the task.
fn full(store: &Store) -> (Tube, u64) {
    let tube = store.create_tube("one", TubeOptions::new().capacity(1).driver(LIMFIFOTTL)).unwrap();
    let id = tube.put("0").unwrap().id;
    (tube, id)
}

#[test]
fn waiting_puts_are_all_served() {
    explore("waiting_puts_are_all_served", || {
        let (store, _) = manual_clock_store();
        let (tube, first) = full(&store);
        let putters = ["1", "2"]
            .map(|text| spawn_with(&tube, move |tube| tube.put_timeout(text, NO_TIMEOUT).unwrap()));
        let taker =
            spawn_with(&tube, |tube| [0, 1].map(|_| tube.take().unwrap().ack().unwrap().id));
        let last = tube.take().unwrap().ack().unwrap().id;
        let mut taken = taker.join().unwrap().to_vec();
        taken.push(last);
        taken.sort_unstable();
        let mut put: Vec<u64> = putters.map(|putter| putter.join().unwrap().id).to_vec();
        put.push(first);
        put.sort_unstable();
        assert_eq!(taken, put);
        verify_and_close(&store);
    });
}

#[test]
fn put_wait_at_its_timeout_puts_or_leaves_space_to_next_put() {
    explore("put_wait_at_its_timeout_puts_or_leaves_space_to_next_put", || {
        let (store, clock) = manual_clock_store();
        let (tube, _) = full(&store);
        let done = Flag::default();
        let short = spawn_with(&tube, {
            let done = done.clone();
            move |tube| {
                let answer = tube.put_timeout("short", ms(10));
                done.raise();
                answer
            }
        });
        let long = spawn_with(&tube, |tube| tube.put_timeout("long", NO_TIMEOUT).unwrap().id);
        let taker = spawn_with(&tube, |tube| {
            tube.take().unwrap().ack().unwrap();
        });
        while !done.is_up() {
            clock.advance(ms(10));
            thread::yield_now();
        }
        taker.join().unwrap();
        match short.join().unwrap() {
            Ok(short) => {
                tube.delete(short.id).unwrap();
            }
            Err(error) => assert!(matches!(error, Error::Full { .. }), "{error}"),
        }
        let id = long.join().unwrap();
        assert_eq!(tube.take().unwrap().ack().unwrap().id, id);
        verify_and_close(&store);
    });
}
