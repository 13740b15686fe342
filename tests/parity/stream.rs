//! Events as a stream for async tasks.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures_core::Stream;
use tubewell::{Async, Error, Event, EventKind, Events, FIFO, Filter, Store, Tube, TubeOptions};

use super::support::{WakeCount, block_on, timed_store, wait_until, waker_calling, with_timeout};
use crate::stores;

fn poll_next(stream: &mut Events<Async>, waker: &Waker) -> Poll<Option<Event>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

async fn next(stream: &mut Events<Async>) -> Option<Event> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

fn work(store: &Store) -> Tube {
    store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap()
}

#[test]
fn stream_has_all_events_and_ends_with_the_store() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = work(&store);
        let mut stream = block_on(store.to_async().events(Filter::new(), 10)).unwrap();
        let id = tube.put("before the first poll").unwrap().id;
        tube.try_take().unwrap().unwrap().ack().unwrap();
        store.close().unwrap();
        let events = block_on(async {
            let mut events = Vec::new();
            while let Some(event) = next(&mut stream).await {
                events.push(event);
            }
            events
        });
        let kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Put, EventKind::Take, EventKind::Ack]);
        assert!(events.iter().all(|event| event.id == id && &*event.tube == "work"));
        assert_eq!(block_on(next(&mut stream)), None);
        assert_eq!(store.events(Filter::new(), 1).err(), Some(Error::Closed));
    });
}

#[test]
fn waker_is_called_once_for_each_pending_poll() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = work(&store);
        let mut stream = store.to_async().events(Filter::new(), 10).wait().unwrap();
        let (first, last) = (WakeCount::default(), WakeCount::default());
        assert!(poll_next(&mut stream, &first.waker()).is_pending());
        assert!(poll_next(&mut stream, &last.waker()).is_pending());
        tube.put_many(["a", "b"]).unwrap();
        assert_eq!((first.get(), last.get()), (0, 1), "only the waker of the last poll is called");
        assert!(matches!(poll_next(&mut stream, &last.waker()), Poll::Ready(Some(_))));
        assert!(matches!(poll_next(&mut stream, &last.waker()), Poll::Ready(Some(_))));
        assert!(poll_next(&mut stream, &last.waker()).is_pending());
        store.close().unwrap();
        assert_eq!(last.get(), 2);
        assert_eq!(poll_next(&mut stream, &last.waker()), Poll::Ready(None));
    });
}

#[test]
fn full_stream_drops_and_counts_events() {
    let (store, _clock) = timed_store();
    let tube = work(&store);
    let mut stream = store.to_async().events(Filter::new(), 2).wait().unwrap();
    tube.put_many(["a", "b", "c"]).unwrap();
    assert_eq!(stream.dropped(), 1);
    let ids = [(); 2].map(|()| block_on(next(&mut stream)).unwrap().id);
    assert_eq!(ids, [0, 1]);
    tube.put("d").unwrap();
    assert_eq!(block_on(next(&mut stream)).unwrap().id, 3);
}

#[test]
fn no_event_is_missed_while_threads_put() {
    const THREADS: usize = 3;
    const EACH: usize = 300;
    with_timeout(|| {
        let store = stores::in_memory();
        let tube =
            store.create_tube("work", TubeOptions::new().temporary(true).driver(FIFO)).unwrap();
        let mut stream = store.to_async().events(Filter::new(), usize::MAX).wait().unwrap();
        thread::scope(|scope| {
            let put = || (0..EACH).for_each(|_| _ = tube.put("x").unwrap());
            let putters = [(); THREADS].map(|()| scope.spawn(put));
            let reader = scope.spawn(move || {
                let mut last = 0;
                for _ in 0..THREADS * EACH {
                    let event = block_on(next(&mut stream)).unwrap();
                    assert!(event.seq > last);
                    last = event.seq;
                }
                stream
            });
            let mut stream = reader.join().unwrap();
            for putter in putters {
                putter.join().unwrap();
            }
            let waiting = scope.spawn(move || block_on(next(&mut stream)));
            store.close().unwrap();
            assert_eq!(waiting.join().unwrap(), None);
        });
    });
}

/// Wakers are user code. A put and a close must run them without the lock of the store.
#[test]
fn waker_of_a_stream_may_call_the_store() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = work(&store);
        let mut stream = store.to_async().events(Filter::new(), 10).wait().unwrap();
        let calls = WakeCount::default();
        let (putting, called) = (tube.clone(), calls.waker());
        let waker = waker_calling(move || {
            putting.put("from a waker").unwrap();
            called.wake_by_ref();
            panic!("a waker panics");
        });
        assert!(poll_next(&mut stream, &waker).is_pending());
        tube.put("x").unwrap();
        wait_until(|| calls.get() == 1);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        while poll_next(&mut stream, Waker::noop()).is_ready() {}
        let to_close = store.clone();
        let closing = waker_calling(move || to_close.close().unwrap());
        assert!(poll_next(&mut stream, &closing).is_pending());
        store.close().unwrap();
    });
}

/// A waker that puts a task when it is dropped, as the last handle of an async task may do.
struct PutOnDrop(Tube);

impl Wake for PutOnDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PutOnDrop {
    fn drop(&mut self) {
        self.0.put("from a dropped waker").unwrap();
    }
}

#[test]
fn waker_of_a_dropped_stream_may_put_when_it_is_dropped() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = work(&store);
        let mut stream = store.to_async().events(Filter::new(), 10).wait().unwrap();
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(PutOnDrop(tube.clone())));
            let _ = poll_next(&mut stream, &waker);
        }
        drop(stream);
        tube.put("the store still works").unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 3);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
