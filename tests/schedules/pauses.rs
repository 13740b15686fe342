//! A pause in which a drained file gives its room back, and who comes in the middle of it.

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{FIFO, Store, Tube};

use crate::explore::explore;
use crate::stage::{end, is_closed, ms, swept, taker, tube, with};

/// A store whose file is large, with nothing in it.
fn drained() -> (Store, Tube) {
    let store = swept();
    let tube = tube(&store, FIFO);
    let large = tube.put(vec![0; 5 << 20]).unwrap();
    tube.delete(large.id).unwrap();
    (store, tube)
}

#[test]
fn calls_that_come_while_a_file_gives_room_back_are_answered() {
    explore("calls_that_come_while_a_file_gives_room_back", || {
        let (store, tube) = drained();
        let before = store.counters().flushes;
        let takes = taker(&tube);
        let puts = with(&tube, |tube| tube.put("x").unwrap().id);
        let flushes = {
            let store = store.clone();
            thread::spawn(move || store.flush().unwrap())
        };
        pass(ms(6000));
        let claim = takes.join().unwrap();
        assert_eq!(claim.id(), puts.join().unwrap());
        claim.ack().unwrap();
        flushes.join().unwrap();
        // It may have been put off, and it takes a pause that is not used for a commit.
        while store.counters().flushes < before + 8 {
            pass(ms(6000));
            thread::yield_now();
        }
        end(&store);
    });
}

#[test]
fn a_store_is_closed_while_its_file_gives_room_back() {
    explore("a_store_is_closed_while_its_file_gives_room_back", || {
        let (store, tube) = drained();
        let puts = with(&tube, |tube| tube.put("x").map(|_| ()));
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
