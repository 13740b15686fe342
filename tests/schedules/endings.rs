//! Ends that come while others wait: of the store, and of a session.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Error, FIFO, LIMFIFOTTL, ManualClock, Result, TubeOptions, WhenFull};

use crate::explore::explore;
use crate::stage::{FOR_EVER, end, in_line, is_closed, ms, options, still, tube, with};

#[test]
fn close_tells_everyone_who_waits() {
    explore("close_tells_everyone", || {
        let (store, _) = still();
        let idle = tube(&store, FIFO);
        let full = store.create_tube("one", LIMFIFOTTL, TubeOptions::new().capacity(1)).unwrap();
        full.put("0").unwrap();
        let takes = with(&idle, |idle| idle.take(FOR_EVER).map(|claim| claim.is_some()));
        let awaits = with(&idle, |idle| block_on(idle.take_async(FOR_EVER)).map(|c| c.is_some()));
        let puts = with(&full, |full| full.put_wait("1", FOR_EVER));
        let closes = {
            let store = store.clone();
            thread::spawn(move || store.close())
        };
        store.close().unwrap();
        closes.join().unwrap().unwrap();
        assert!(is_closed(&takes.join().unwrap()));
        assert!(is_closed(&awaits.join().unwrap()));
        assert!(is_closed(&puts.join().unwrap()));
    });
}

#[test]
fn close_answers_what_is_on_its_way_and_no_more() {
    explore("close_answers_what_is_on_its_way", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let puts = with(&tube, |tube| tube.put("put"));
        let defers = with(&tube, |tube| tube.deferred(WhenFull::Block).put("deferred")?.wait());
        let flushes = {
            let store = store.clone();
            thread::spawn(move || store.flush())
        };
        store.close().unwrap();
        let sound = |answer: Result<_>| answer.is_ok() || is_closed(&answer);
        assert!(sound(puts.join().unwrap().map(|_| ())));
        assert!(sound(defers.join().unwrap().map(|_| ())));
        assert!(sound(flushes.join().unwrap().map(|_| ())));
        assert!(is_closed(&tube.put("late")));
    });
}

#[test]
fn close_flushes_what_nobody_waits_for() {
    explore("close_flushes_what_nobody", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let puts = with(&tube, |tube| tube.put("put"));
        drop(tube.deferred(WhenFull::Block).put("deferred").unwrap());
        // Whoever leads the put's commit hands the other one on while the store closes.
        store.close().unwrap();
        let answer = puts.join().unwrap();
        assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
    });
}

#[test]
fn close_lets_those_go_whom_a_full_lane_holds_up() {
    explore("close_lets_those_go", || {
        let store = options()
            .clock(ManualClock::new())
            .max_pending(1, usize::MAX)
            .open_in_memory()
            .unwrap();
        let tube = tube(&store, FIFO);
        let putters = ["a", "b", "c"].map(|text| {
            with(&tube, move |tube| {
                tube.deferred(WhenFull::Block).put(text)?.wait()?;
                tube.put(text)
            })
        });
        store.close().unwrap();
        for answer in putters.map(|putter| putter.join().unwrap()) {
            assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
        }
    });
}

#[test]
fn a_store_ends_with_its_last_handle_whoever_has_that() {
    explore("a_store_ends_with_its_last_handle", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let ticket = tube.deferred(WhenFull::Block).put("x").unwrap();
        let taker = with(&tube, |tube| tube.take(FOR_EVER).unwrap().unwrap());
        let dropper = thread::spawn(move || drop(ticket));
        drop((store, tube));
        dropper.join().unwrap();
        drop(taker.join().unwrap());
    });
}

#[test]
fn a_session_that_ends_ends_its_take_and_leaves_the_task_to_others() {
    explore("a_session_that_ends_ends_its_take", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let session = store.session();
        let own = session.tube(FIFO).unwrap();
        let takes = thread::spawn(move || own.take(FOR_EVER).map(|claim| claim.map(|c| c.id())));
        let other = with(&tube, |tube| tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id);
        let puts = with(&tube, |tube| tube.put("x").unwrap().id);
        session.end().unwrap();
        match takes.join().unwrap() {
            Err(error) => assert_eq!(error, Error::SessionEnded),
            // It had the task before the end, which took it away, or a moment earlier than the other.
            Ok(id) => assert!(id.is_some()),
        }
        assert_eq!(other.join().unwrap(), puts.join().unwrap());
        end(&store);
    });
}

#[test]
fn a_claim_that_is_acked_while_its_session_ends_is_done_or_ready_again() {
    explore("a_claim_that_is_acked_while", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let first = tube.put("x").unwrap().id;
        let session = store.session();
        let claim = session.tube(FIFO).unwrap().try_take().unwrap().unwrap();
        let acks = thread::spawn(move || claim.ack());
        let next = with(&tube, |tube| tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id);
        session.end().unwrap();
        let done = match acks.join().unwrap() {
            Ok(receipt) => Some(receipt.id),
            Err(error) => {
                let refused = matches!(error, Error::NotTaken { .. } | Error::SessionEnded);
                assert!(refused, "{error}");
                None
            }
        };
        // The next gets this task if it is not done, and the second one otherwise.
        let second = tube.put("y").unwrap().id;
        assert_eq!(next.join().unwrap(), if done.is_some() { second } else { first });
        assert_eq!(tube.statistics().unwrap().tasks.ready, u64::from(done.is_none()));
        end(&store);
    });
}

#[test]
fn a_session_in_its_grace_is_resumed_with_its_claims_or_over() {
    explore("a_session_in_its_grace", || {
        let clock = ManualClock::new();
        let store = options().clock(&clock).session_grace(ms(10)).open_in_memory().unwrap();
        let tube = tube(&store, FIFO);
        let id = tube.put("x").unwrap().id;
        let session = store.session();
        let name = session.id();
        let _ = session.tube(FIFO).unwrap().try_take().unwrap().unwrap().detach();
        let waits = in_line(&tube);
        let time = thread::spawn(move || clock.advance(ms(10)));
        let leaves = thread::spawn(move || drop(session));
        match store.resume_session(name) {
            Ok(session) => {
                // Now that somebody has it again, the time of its grace does nothing.
                leaves.join().unwrap();
                time.join().unwrap();
                session.tube(FIFO).unwrap().release(id, ms(0)).unwrap();
            }
            Err(error) => assert_eq!(error, Error::SessionUnknown { id: name }),
        }
        block_on(waits).unwrap().unwrap().ack().unwrap();
        end(&store);
    });
}
