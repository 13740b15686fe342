//! Futures that wait for space in the write buffer, for space in a tube, for events, and for a
//! close.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Waker};

use futures_core::Stream;
use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{
    Async, Error, EventKind, Events, FIFO, Filter, LIMFIFOTTL, ManualClock, Receipt, Store, Ticket,
    Tube, TubeOptions,
};

use crate::explore::explore;
use crate::support::{
    NO_TIMEOUT, is_closed, manual_clock_store, options, spawn_with, tube, verify_and_close,
};

/// A store whose write buffer is full with one row.
fn small_buffer_store() -> Store {
    options().clock(ManualClock::new()).max_pending(1, usize::MAX).open_in_memory().unwrap()
}

/// A tube with space for one task, which it has.
fn full_tube(store: &Store) -> Tube {
    let tube = store.create_tube("one", TubeOptions::new().capacity(1).driver(LIMFIFOTTL)).unwrap();
    tube.put("0").unwrap();
    tube
}

/// Puts a task without blocking: it stands in line while there is no space.
async fn put(tube: Tube, text: &'static str) -> Receipt {
    tube.to_async().put(text).await.unwrap()
}

fn poll_once<T>(future: &mut Ticket<T>) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

async fn next(stream: &mut Events<Async>) -> Option<EventKind> {
    let event = poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await;
    event.map(|event| event.kind)
}

#[test]
fn every_future_that_waits_for_capacity_is_served() {
    explore("every_future_that_waits_for_capacity_is_served", || {
        let store = small_buffer_store();
        let tube = tube(&store, FIFO);
        let putters =
            ["a", "b", "c"].map(|text| spawn_with(&tube, move |tube| block_on(put(tube, text))));
        let blocking = spawn_with(&tube, |tube| tube.put("d").unwrap());
        let waiting_put = spawn_with(&tube, |tube| {
            block_on(tube.to_async().put_timeout("e", NO_TIMEOUT)).unwrap()
        });
        for putter in putters {
            putter.join().unwrap();
        }
        blocking.join().unwrap();
        waiting_put.join().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 5);
        verify_and_close(&store);
    });
}

/// Two callers of changes in line go, before or after their change is made. One of the changes waits for space
/// in its tube. What is left is in the order of the calls.
#[test]
fn changes_in_line_are_made_whoever_goes() {
    explore("changes_in_line_are_made_whoever_goes", || {
        let store = small_buffer_store();
        let (tube, one) = (tube(&store, FIFO), full_tube(&store));
        let fill = spawn_with(&tube, |tube| tube.put("fill").unwrap());
        let goer = spawn_with(&one, |one| drop(one.to_async().put_timeout("gone", NO_TIMEOUT)));
        let jobs = tube.to_async();
        let tickets = ["a", "b"].map(|text| jobs.put(text));
        drop(jobs.put("c"));
        let ids = tickets.map(|ticket| block_on(ticket).unwrap().id);
        assert!(ids.is_sorted(), "{ids:?}");
        goer.join().unwrap();
        fill.join().unwrap();
        store.flush().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 4);
        one.try_take().unwrap().unwrap().ack().unwrap();
        assert!(one.try_take().unwrap().is_none(), "the put of a caller that has gone was made");
        verify_and_close(&store);
    });
}

/// A close carries out the changes that stand in line before it.
#[test]
fn close_beside_changes_in_line_loses_none_that_it_acknowledges() {
    explore("close_beside_changes_in_line_loses_none_that_it_acknowledges", || {
        let store = small_buffer_store();
        let tube = tube(&store, FIFO);
        let putters = ["a", "b", "c"].map(|text| {
            spawn_with(&tube, move |tube| {
                let ticket = tube.to_async().put(text);
                if text == "a" { ticket.wait() } else { block_on(ticket) }.map(drop)
            })
        });
        store.close().unwrap();
        for answer in putters.map(|putter| putter.join().unwrap()) {
            assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
        }
    });
}

#[test]
fn dropped_capacity_future_passes_its_turn_on() {
    explore("dropped_capacity_future_passes_its_turn_on", || {
        let store = small_buffer_store();
        let tube = tube(&store, FIFO);
        let fill = spawn_with(&tube, |tube| {
            tube.to_async().put("fill").wait().unwrap();
        });
        let droppers = [(); 2].map(|()| {
            let store = store.clone();
            thread::spawn(move || {
                let mut wait = store.to_async().admin().capacity();
                poll_once(&mut wait);
                drop(wait);
            })
        });
        let waiter = spawn_with(&tube, |tube| block_on(put(tube, "x")));
        block_on(put(tube.clone(), "y"));
        for dropper in droppers {
            dropper.join().unwrap();
        }
        waiter.join().unwrap();
        fill.join().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 3);
        verify_and_close(&store);
    });
}

#[test]
fn close_ends_futures_that_wait_for_capacity() {
    explore("close_ends_futures_that_wait_for_capacity", || {
        let store = small_buffer_store();
        let tube = tube(&store, FIFO);
        let putters = ["a", "b", "c"].map(|text| {
            spawn_with(&tube, move |tube| block_on(tube.to_async().put(text)).map(drop))
        });
        block_on(store.to_async().close()).unwrap();
        for answer in putters.map(|putter| putter.join().unwrap()) {
            assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
        }
    });
}

/// The future is dropped while an ack admits the first waiting put. Whichever it was, the next put
/// gets the space that is left.
#[test]
fn dropped_waiting_put_leaves_its_space_to_the_next() {
    explore("dropped_waiting_put_leaves_its_space_to_the_next", || {
        let (store, _) = manual_clock_store();
        let tube = full_tube(&store);
        let mut dropped = tube.to_async().put_timeout("dropped", NO_TIMEOUT);
        assert!(!poll_once(&mut dropped));
        let next = spawn_with(&tube, |tube| {
            block_on(tube.to_async().put_timeout("next", NO_TIMEOUT)).unwrap()
        });
        let taker = spawn_with(&tube, |tube| {
            loop {
                let claim = tube.take().unwrap();
                let is_next = claim.body() == b"next";
                claim.ack().unwrap();
                if is_next {
                    return;
                }
            }
        });
        drop(dropped);
        taker.join().unwrap();
        next.join().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.total, 0);
        verify_and_close(&store);
    });
}

#[test]
fn stream_misses_no_event_and_ends_with_the_store() {
    explore("stream_misses_no_event_and_ends_with_the_store", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let mut stream = store.to_async().events(Filter::new(), 10).wait().unwrap();
        let reader = thread::spawn(move || {
            block_on(async {
                let mut kinds = Vec::new();
                while let Some(kind) = next(&mut stream).await {
                    kinds.push(kind);
                }
                kinds
            })
        });
        let putter = spawn_with(&tube, |tube| tube.put("x").unwrap());
        tube.put("y").unwrap();
        putter.join().unwrap();
        store.close().unwrap();
        assert_eq!(reader.join().unwrap(), [EventKind::Put; 2]);
    });
}

/// The subscription begins and ends while events are delivered and the store closes.
#[test]
fn subscription_that_begins_or_ends_beside_events_and_close_blocks_nothing() {
    explore("subscription_that_begins_or_ends_beside_events_and_close_blocks_nothing", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let kept = store.events(Filter::new().tube(FIFO), 10).unwrap();
        let dropped = store.events(Filter::new().kinds([EventKind::Put]), 10).unwrap();
        let putter = spawn_with(&tube, |tube| tube.put("x").map(drop));
        let dropper = thread::spawn(move || drop(dropped));
        let late = {
            let store = store.clone();
            thread::spawn(move || store.to_async().events(Filter::new(), 10).wait())
        };
        let closer = {
            let store = store.clone();
            thread::spawn(move || store.close())
        };
        let is_put = putter.join().unwrap().is_ok();
        dropper.join().unwrap();
        let late = late.join().unwrap();
        closer.join().unwrap().unwrap();
        match late {
            Ok(mut late) => {
                while let Some(kind) = block_on(next(&mut late)) {
                    assert_eq!(kind, EventKind::Put);
                }
            }
            Err(refusal) => assert_eq!(refusal, Error::Closed),
        }
        let kept: Vec<EventKind> = kept.map(|event| event.kind).collect();
        assert_eq!(kept, vec![EventKind::Put; usize::from(is_put)]);
    });
}

/// A temporary tube has no flush: the event is delivered in a few steps, between two of the reader.
#[test]
fn event_delivered_during_a_poll_of_its_stream_wakes_it() {
    explore("event_delivered_during_a_poll_of_its_stream_wakes_it", || {
        let (store, _) = manual_clock_store();
        let options = TubeOptions::new().temporary(true);
        let tube = store.create_tube("memory", options.driver(FIFO)).unwrap();
        tube.put("the first put of a run reserves ids").unwrap();
        let mut stream = store.to_async().events(Filter::new(), 10).wait().unwrap();
        let reader = thread::spawn(move || block_on(next(&mut stream)));
        tube.put("x").unwrap();
        assert_eq!(reader.join().unwrap(), Some(EventKind::Put));
        verify_and_close(&store);
    });
}

#[test]
fn close_future_resolves_while_other_threads_call_and_close() {
    explore("close_future_resolves_while_other_threads_call_and_close", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let puts = spawn_with(&tube, |tube| tube.put("x").map(drop));
        let flushes = {
            let store = store.clone();
            thread::spawn(move || block_on(store.to_async().flush()).map(drop))
        };
        let takes =
            spawn_with(&tube, |tube| block_on(tube.to_async().take_timeout(NO_TIMEOUT)).map(drop));
        let closes = {
            let store = store.clone();
            thread::spawn(move || store.close())
        };
        block_on(store.to_async().close()).unwrap();
        closes.join().unwrap().unwrap();
        for answer in [puts, flushes, takes].map(|thread| thread.join().unwrap()) {
            assert!(answer.is_ok() || is_closed(&answer), "{answer:?}");
        }
        assert!(is_closed(&tube.put("late")));
    });
}
