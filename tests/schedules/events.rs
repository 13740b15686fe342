//! Subscriptions whose reader is slower than the changes, beside these changes and the close.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Async, Event, Events, FIFO, Filter};

use crate::explore::explore;
use crate::support::{manual_clock_store, spawn_with, tube};

/// All events until the store is closed.
async fn read(stream: &mut Events<Async>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = poll_fn(|task| Pin::new(&mut *stream).poll_next(task)).await {
        events.push(event);
    }
    events
}

#[test]
fn reader_of_a_full_subscription_is_woken_and_knows_what_it_missed() {
    explore("reader_of_a_full_subscription_is_woken_and_knows_what_it_missed", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let mut all = store.to_async().events(Filter::new(), 1000).wait().unwrap();
        let mut few = store.to_async().events(Filter::new(), 2).wait().unwrap();
        let reads = thread::spawn(move || {
            let events = block_on(read(&mut few));
            (events, few.dropped())
        });
        let other = spawn_with(&tube, |tube| {
            tube.put("a").unwrap();
            if let Some(claim) = tube.try_take().unwrap() {
                claim.ack().unwrap();
            }
        });
        tube.put("b").unwrap();
        tube.put("c").unwrap();
        other.join().unwrap();
        store.close().unwrap();

        let (events, dropped) = reads.join().unwrap();
        let all = block_on(read(&mut all));
        let mut before = all[0].seq - 1;
        let mut missed = 0;
        for event in &events {
            assert_eq!(event.seq, before + 1 + event.missed);
            let same = all.iter().find(|same| same.seq == event.seq).unwrap();
            assert_eq!((event.id, event.kind), (same.id, same.kind));
            before = event.seq;
            missed += event.missed;
        }
        let after = all.last().unwrap().seq - before;
        assert_eq!(dropped, missed + after, "{events:?}");
        assert_eq!(events.len() as u64 + dropped, all.len() as u64);
    });
}

/// The subscription begins before the put is decided, between this and its commit, or later.
#[test]
fn subscription_that_begins_beside_a_put_gets_its_event_whole_or_not_at_all() {
    explore("subscription_that_begins_beside_a_put_gets_its_event_whole_or_not_at_all", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let begins = {
            let store = store.clone();
            thread::spawn(move || store.to_async().events(Filter::new(), 10).wait().unwrap())
        };
        let puts = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        let mut stream = begins.join().unwrap();
        let id = puts.join().unwrap();
        store.close().unwrap();
        let events = block_on(read(&mut stream));
        assert!(events.len() <= 1, "{events:?}");
        assert!(events.iter().all(|event| event.id == id && event.tube.as_ref() == FIFO));
    });
}
