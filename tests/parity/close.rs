//! Closing the store with a future.

use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{Durability, Error, FIFO, Filter, Store, TubeOptions};

use super::support::{
    Disk, SmallBuffer, WakeCount, block_on, poll, poll_pending, wait_until, waker_calling,
    with_timeout,
};
use crate::stores;

#[test]
fn close_flushes_and_frees_the_file() {
    with_timeout(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let store = stores::open(&path);
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let tube = store.create_tube("work", relaxed.driver(FIFO)).unwrap();
        tube.put("relaxed").unwrap();
        let ticket = tube.to_async().put("deferred");
        let waiting = tube.to_async().take_many(3, Duration::MAX);
        block_on(store.to_async().close()).unwrap();
        assert_eq!(tube.put("late"), Err(Error::Closed));
        assert!(ticket.is_done());
        assert_eq!(block_on(waiting).map(drop), Err(Error::Closed));
        // The handles still exist, and the file is free.
        let again = stores::open(&path);
        assert_eq!(again.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 2);
        assert_eq!(again.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn subscription_to_a_closed_store_is_refused() {
    let store = Store::in_memory().unwrap();
    let before = store.events(Filter::new(), 10).unwrap();
    store.close().unwrap();
    assert!(before.recv().is_none());
    assert_eq!(store.events(Filter::new(), 10).err(), Some(Error::Closed));
}

/// The last flush is blocked. The future must not block the thread that polls it.
#[test]
fn close_does_not_block_its_executor() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let mut ticket = small.tube.to_async().put("x");
        small.disk.block_flushes();
        let mut closing = [small.store.to_async().close(), small.store.to_async().close()];
        let wakes = WakeCount::default();
        for close in &mut closing {
            poll_pending(close, &wakes.waker());
            poll_pending(close, &wakes.waker());
        }
        // Other calls return during the last flush, too.
        wait_until(|| small.tube.try_take().err() == Some(Error::Closed));
        let mut refused = small.tube.to_async().put_timeout("late", Duration::MAX);
        assert_eq!(poll(&mut refused, &wakes.waker()), Poll::Ready(Err(Error::Closed)));
        let _ = poll(&mut ticket, &wakes.waker());
        assert_eq!(wakes.get(), 0);
        small.disk.unblock_flushes();
        for close in closing {
            block_on(close).unwrap();
            assert!(small.disk.is_closed.load(Ordering::SeqCst));
        }
        assert_eq!(
            block_on(small.store.to_async().close()),
            Ok(()),
            "closing again changes nothing"
        );
        assert_eq!(small.store.close(), Ok(()));
    });
}

#[test]
fn store_is_closed_when_the_future_is_dropped_after_its_first_poll() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        drop(small.store.to_async().close());
        small.tube.put("a future that was never polled closes nothing").unwrap();
        let mut close = small.store.to_async().close();
        let _ = poll(&mut close, Waker::noop());
        drop(close);
        wait_until(|| small.disk.is_closed.load(Ordering::SeqCst));
        assert_eq!(small.tube.put("late"), Err(Error::Closed));
    });
}

#[test]
fn close_resolves_to_the_error_of_the_last_flush() {
    with_timeout(|| {
        let disk = std::sync::Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let tube = store.create_tube("work", relaxed.driver(FIFO)).unwrap();
        tube.put("relaxed").unwrap();
        disk.fail_flushes(true);
        let closed = block_on(store.to_async().close());
        assert!(closed.is_err(), "the flush failed");
        assert_eq!(tube.put("late"), Err(Error::Closed));
    });
}

#[test]
fn waker_of_a_close_may_call_the_store() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let mut close = small.store.to_async().close();
        let (store, tube) = (small.store.clone(), small.tube.clone());
        let wakes = WakeCount::default();
        let woken = wakes.waker();
        let waker = waker_calling(move || {
            assert_eq!(tube.put("late"), Err(Error::Closed));
            store.close().unwrap();
            woken.wake_by_ref();
        });
        let slow = small.disk.block_flush_of(|| small.tube.to_async().put("x"));
        poll_pending(&mut close, &waker);
        small.disk.unblock_flushes();
        wait_until(|| wakes.get() == 1);
        slow.wait().unwrap();
        block_on(close).unwrap();
    });
}

/// The last commit of a close holds the call of the ticket, whose waker must run without the lock.
#[test]
fn waker_of_a_ticket_that_the_close_flushes_may_call_the_store() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let deferred = small.tube.to_async();
        let first = small.disk.block_flush_of(|| deferred.put("first"));
        let mut second = deferred.put("second");
        let (store, tube) = (small.store.clone(), small.tube.clone());
        let wakes = WakeCount::default();
        let woken = wakes.waker();
        let waker = waker_calling(move || {
            assert_eq!(tube.put("late"), Err(Error::Closed));
            store.close().unwrap();
            woken.wake_by_ref();
        });
        poll_pending(&mut second, &waker);
        thread::scope(|scope| {
            let closer = scope.spawn(|| small.store.close());
            wait_until(|| small.tube.try_take().err() == Some(Error::Closed));
            small.disk.unblock_flushes();
            assert_eq!(closer.join().unwrap(), Ok(()));
        });
        wait_until(|| wakes.get() == 1);
        first.wait().unwrap();
        second.wait().unwrap();
    });
}

#[test]
fn last_handle_may_be_the_close_future() {
    with_timeout(|| {
        let SmallBuffer { disk, store, tube } = SmallBuffer::new();
        let close = store.to_async().close();
        drop((store, tube));
        thread::spawn(|| block_on(close).unwrap()).join().unwrap();
        assert!(disk.is_closed.load(Ordering::SeqCst));
    });
}
