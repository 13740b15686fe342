//! Waits that end before the end of their task: with the session, with the store, or dropped.

use std::thread;

use tubewell::driver::FIFO;
use tubewell::{Ending, Error, TubeOptions};

use super::executor::{wait_until, with_timeout};
use super::support::*;
use super::wait::*;
use crate::stores;

#[test]
fn end_of_session_ends_its_waits() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        let (wait, drained) = (wait_for(&tube, id), wait_drained(&tube));
        let own = wait_for(&case.tube, id);
        session.end().unwrap();
        assert_eq!(wait.answer(), Err(Error::SessionEnded));
        assert_eq!(drained.answer(), Err(Error::SessionEnded));
        assert_eq!(tube.wait_done(id, ZERO), Err(Error::SessionEnded));
        assert_eq!(tube.wait_drained(ZERO), Err(Error::SessionEnded));
        assert_eq!(tube.put_and_wait("z", ZERO).err(), Some(Error::SessionEnded));
        own.assert_waits();
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
    });
}

#[test]
fn end_of_session_ends_put_that_waits_for_its_task() {
    with_timeout(|| {
        let store = store_in_memory();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let session = store.session("").unwrap();
        let tube = session.tube(&tube).unwrap();
        let wait = Wait::begin(tube.to_async().put_and_wait("x", NO_TIMEOUT));
        session.end().unwrap();
        assert_eq!(end_of(wait).err(), Some(Error::SessionEnded));
        store.flush().unwrap();
        assert_eq!(store.find_tube("case").unwrap().statistics().unwrap().tasks.ready, 1);
        assert_sound(&store);
    });
}

#[test]
fn close_ends_waits() {
    with_timeout(|| {
        let store = store_in_memory();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let id = tube.put("x").unwrap().id;
        let (wait, drained) = (wait_for(&tube, id), wait_drained(&tube));
        let closing = thread::scope(|scope| {
            let blocked = [
                scope.spawn(|| tube.wait_done(id, NO_TIMEOUT).map(drop)),
                scope.spawn(|| tube.wait_drained(NO_TIMEOUT).map(drop)),
                scope.spawn(|| tube.put_and_wait("y", NO_TIMEOUT).map(drop)),
            ];
            // A put that the close overtakes may have been made or not, through a connection.
            wait_until(|| tube.statistics().unwrap().tasks.ready == 2);
            let closing = stores::begin_close(&store);
            for call in blocked {
                let error = call.join().unwrap().unwrap_err();
                assert!(stores::is_closed(&error), "{error:?}");
            }
            closing
        });
        assert!(stores::is_closed(&wait.answer().unwrap_err()));
        assert!(stores::is_closed(&drained.answer().unwrap_err()));
        drop(closing);
        assert_eq!(tube.wait_done(id, ZERO), Err(Error::Closed));
    });
}

#[test]
fn dropped_waits_change_nothing() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        drop(case.tube.to_async().wait_done(id, NO_TIMEOUT));
        let dropped = wait_for(&case.tube, id);
        let kept = Wait::begin(case.tube.to_async().wait_done(id, secs(1)));
        drop(Wait::begin(case.tube.to_async().wait_done(id, secs(1))));
        drop(wait_drained(&case.tube));
        drop(Wait::begin(case.tube.to_async().put_and_wait(case.draft("y"), secs(1))));
        case.store.flush().unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 2, "the put stays");
        drop(dropped);
        case.tube.delete(id).unwrap();
        assert_eq!(kept.answer(), Ok(Some(Ending::Deleted)));
        case.advance(2_000);
        // A wait that has its answer is dropped.
        let ended = wait_for(&case.tube, 1);
        case.tube.delete(1).unwrap();
        drop(ended);
    });
}
