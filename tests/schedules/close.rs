//! Close of a store and end of a session while other threads call and wait.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Error, FIFO, LIMFIFOTTL, ManualClock, Result, TubeOptions};

use crate::explore::explore;
use crate::support::{
    NO_TIMEOUT, is_closed, manual_clock_store, ms, options, spawn_with, tube, verify_and_close,
    waiting_take,
};

#[test]
fn close_ends_all_waiting_takes_and_puts() {
    explore("close_ends_all_waiting_takes_and_puts", || {
        let (store, _) = manual_clock_store();
        let idle = tube(&store, FIFO);
        let full =
            store.create_tube("one", TubeOptions::new().capacity(1).driver(LIMFIFOTTL)).unwrap();
        full.put("0").unwrap();
        let takes =
            spawn_with(&idle, |idle| idle.take_timeout(NO_TIMEOUT).map(|claim| claim.is_some()));
        let awaits = spawn_with(&idle, |idle| {
            block_on(idle.to_async().take_timeout(NO_TIMEOUT)).map(|c| c.is_some())
        });
        let puts = spawn_with(&full, |full| full.put_timeout("1", NO_TIMEOUT));
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
fn close_answers_calls_in_progress_and_refuses_later_calls() {
    explore("close_answers_calls_in_progress_and_refuses_later_calls", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let puts = spawn_with(&tube, |tube| tube.put("put"));
        let defers = spawn_with(&tube, |tube| tube.to_async().put("deferred").wait());
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
fn close_flushes_call_of_dropped_ticket() {
    explore("close_flushes_call_of_dropped_ticket", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let puts = spawn_with(&tube, |tube| tube.put("put"));
        drop(tube.to_async().put("deferred"));
        // The leader of the put's commit passes leadership on while the store closes.
        store.close().unwrap();
        let answer = puts.join().unwrap();
        assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
    });
}

#[test]
fn close_releases_callers_blocked_by_full_write_buffer() {
    explore("close_releases_callers_blocked_by_full_write_buffer", || {
        let store = options()
            .clock(ManualClock::new())
            .max_pending(1, usize::MAX)
            .open_in_memory()
            .unwrap();
        let tube = tube(&store, FIFO);
        let putters = ["a", "b", "c"].map(|text| {
            spawn_with(&tube, move |tube| {
                tube.to_async().put(text).wait()?;
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
fn store_closes_when_last_handle_is_dropped_on_any_thread() {
    explore("store_closes_when_last_handle_is_dropped_on_any_thread", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let ticket = tube.to_async().put("x");
        let taker = spawn_with(&tube, |tube| tube.take().unwrap());
        let dropper = thread::spawn(move || drop(ticket));
        drop((store, tube));
        dropper.join().unwrap();
        drop(taker.join().unwrap());
    });
}

#[test]
fn ended_session_ends_its_take_and_leaves_task_to_other_taker() {
    explore("ended_session_ends_its_take_and_leaves_task_to_other_taker", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let session = store.session("").unwrap();
        let own = session.tube(&tube).unwrap();
        let takes =
            thread::spawn(move || own.take_timeout(NO_TIMEOUT).map(|claim| claim.map(|c| c.id())));
        let other = spawn_with(&tube, |tube| tube.take().unwrap().ack().unwrap().id);
        let puts = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        session.end().unwrap();
        match takes.join().unwrap() {
            Err(error) => assert_eq!(error, Error::SessionEnded),
            // The take got the task before the session ended, which released the task.
            Ok(id) => assert!(id.is_some()),
        }
        assert_eq!(other.join().unwrap(), puts.join().unwrap());
        verify_and_close(&store);
    });
}

#[test]
fn claim_acked_while_its_session_ends_is_done_or_ready() {
    explore("claim_acked_while_its_session_ends_is_done_or_ready", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let first = tube.put("x").unwrap().id;
        let session = store.session("").unwrap();
        let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
        let acks = thread::spawn(move || claim.ack());
        let next = spawn_with(&tube, |tube| tube.take().unwrap().ack().unwrap().id);
        session.end().unwrap();
        let done = match acks.join().unwrap() {
            Ok(receipt) => Some(receipt.id),
            Err(error) => {
                let refused = matches!(error, Error::NotTaken { .. } | Error::SessionEnded);
                assert!(refused, "{error}");
                None
            }
        };
        // The other taker gets this task if it is not done, and the second task otherwise.
        let second = tube.put("y").unwrap().id;
        assert_eq!(next.join().unwrap(), if done.is_some() { second } else { first });
        assert_eq!(tube.statistics().unwrap().tasks.ready, u64::from(done.is_none()));
        verify_and_close(&store);
    });
}

#[test]
fn session_resumed_as_its_grace_elapses_keeps_its_claims_or_is_unknown() {
    explore("session_resumed_as_its_grace_elapses_keeps_its_claims_or_is_unknown", || {
        let clock = ManualClock::new();
        let store = options().clock(&clock).session_grace(ms(10)).open_in_memory().unwrap();
        let tube = tube(&store, FIFO);
        let id = tube.put("x").unwrap().id;
        let session = store.session("").unwrap();
        let name = session.id();
        let _ = session.tube(&tube).unwrap().try_take().unwrap().unwrap().detach();
        let waits = waiting_take(&tube);
        let time = thread::spawn(move || clock.advance(ms(10)));
        let leaves = thread::spawn(move || drop(session));
        match store.resume_session(name) {
            Ok(session) => {
                // The grace of a resumed session has no effect.
                leaves.join().unwrap();
                time.join().unwrap();
                let claim = session.tube(&tube).unwrap().claimed(id).unwrap();
                claim.release_in(ms(0)).unwrap();
            }
            Err(error) => assert_eq!(error, Error::SessionUnknown { id: name }),
        }
        block_on(waits).unwrap().unwrap().ack().wait().unwrap();
        verify_and_close(&store);
    });
}
