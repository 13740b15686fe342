//! Futures that wait for space in the write buffer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use tubewell::{Durability, Error, FIFO, Result, Store, Ticket, TubeOptions};

use super::support::{
    Disk, SmallBuffer, WakeCount, block_on, poll, poll_pending, wait_all, wait_until,
    waker_calling, with_timeout,
};
use crate::stores;

/// Puts a task with a future that waits for space first.
async fn put(small: &SmallBuffer, body: String) -> Result<()> {
    let deferred = small.tube.to_async().refuse_when_full();
    loop {
        small.store.to_async().admin().capacity().await?;
        match deferred.put(body.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) => assert_eq!(error, Error::Overloaded),
        }
    }
}

#[test]
fn capacity_is_there_when_a_call_would_be_accepted() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let deferred = small.tube.to_async().refuse_when_full();
        block_on(small.store.to_async().admin().capacity()).unwrap();
        let tickets = small.fill();
        let wakes = WakeCount::default();
        let mut waits =
            [small.store.to_async().admin().capacity(), small.store.to_async().admin().capacity()];
        for wait in &mut waits {
            poll_pending(wait, &wakes.waker());
            poll_pending(wait, &wakes.waker());
        }
        assert_eq!(wakes.get(), 0);
        small.disk.unblock_flushes();
        for wait in waits {
            block_on(wait).unwrap();
        }
        deferred.put("accepted").wait().unwrap();
        wait_all(tickets);
        small.assert_verified();
    });
}

/// While one row is free, one waiting future is woken. It passes its turn on when it is polled.
#[test]
fn waiting_futures_are_served_in_order_of_arrival() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options().max_pending(1, usize::MAX)));
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let deferred = tube.to_async().refuse_when_full();
        let first = disk.block_flush_of(|| deferred.put("in flight"));
        let second = deferred.put("pending");
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut waits: Vec<Ticket<()>> =
            (0..5).map(|_| store.to_async().admin().capacity()).collect();
        for (n, wait) in waits.iter_mut().enumerate() {
            let woken = woken.clone();
            poll_pending(wait, &waker_calling(move || woken.lock().unwrap().push(n)));
        }
        disk.unblock_flushes();
        wait_all([first, second]);
        for (n, mut wait) in waits.into_iter().enumerate() {
            wait_until(|| woken.lock().unwrap().len() == n + 1);
            assert_eq!(woken.lock().unwrap()[n], n, "a future overtook an earlier one");
            if n == 3 {
                // Dropped instead of polled: the turn passes on as well.
                continue;
            }
            assert_eq!(poll(&mut wait, &WakeCount::default().waker()), Poll::Ready(Ok(())));
        }
    });
}

/// A future that finds the buffer full again keeps its place in the queue.
#[test]
fn call_that_lost_its_space_stays_first_in_the_queue() {
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options().max_pending(1, usize::MAX)));
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let at_once = TubeOptions::new().durability(Durability::relaxed());
        let relaxed = store.create_tube("relaxed", at_once.driver(FIFO)).unwrap();
        let deferred = tube.to_async().refuse_when_full();
        let in_flight = disk.block_flush_of(|| deferred.put("in flight"));
        let pending = deferred.put("pending");
        let wakes = [WakeCount::default(), WakeCount::default()];
        let mut waits = [store.to_async().admin().capacity(), store.to_async().admin().capacity()];
        for (wait, wakes) in waits.iter_mut().zip(&wakes) {
            poll_pending(wait, &wakes.waker());
        }
        disk.unblock_flushes();
        wait_all([in_flight, pending]);
        wait_until(|| wakes[0].get() == 1);
        // A thread takes the space before the first future is polled.
        disk.block_flush_of(|| relaxed.put("overtakes").unwrap());
        relaxed.put("fills").unwrap();
        let [mut first, mut second] = waits;
        poll_pending(&mut first, &wakes[0].waker());
        poll_pending(&mut second, &wakes[1].waker());
        disk.unblock_flushes();
        wait_until(|| wakes[0].get() == 2);
        assert_eq!(wakes[1].get(), 0, "the second future overtook the first");
        assert_eq!(poll(&mut first, &wakes[0].waker()), Poll::Ready(Ok(())));
        wait_until(|| wakes[1].get() == 1);
    });
}

#[test]
fn close_ends_waits_for_capacity() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let mut wait = small.store.to_async().admin().capacity();
        let wakes = WakeCount::default();
        poll_pending(&mut wait, &wakes.waker());
        thread::scope(|scope| {
            let closer = scope.spawn(|| small.store.close());
            wait_until(|| wakes.get() == 1);
            assert_eq!(block_on(wait), Err(Error::Closed));
            small.disk.unblock_flushes();
            closer.join().unwrap().unwrap();
        });
        wait_all(tickets);
        assert_eq!(block_on(small.store.to_async().admin().capacity()), Err(Error::Closed));
    });
}

#[test]
fn failed_flush_ends_waits_for_capacity() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let wait = small.store.to_async().admin().capacity();
        small.disk.fail_flushes(true);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| block_on(wait));
            wait_until(|| !waiter.is_finished());
            small.disk.unblock_flushes();
            let answer = waiter.join().unwrap();
            assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
        });
        small.disk.fail_flushes(false);
        wait_until(|| block_on(small.store.to_async().flush()).is_ok());
        assert_eq!(small.tube.statistics().unwrap().tasks.ready, tickets.len() as u64);
        small.assert_verified();
    });
}

#[test]
fn no_future_waits_forever_when_threads_share_a_small_buffer() {
    const THREADS: u64 = 4;
    const EACH: u64 = 100;
    with_timeout(|| {
        let small = SmallBuffer::new();
        let put_count = AtomicU64::new(0);
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (small, put_count) = (&small, &put_count);
                scope.spawn(move || {
                    for m in 0..EACH {
                        // A dropped wait must not keep a turn.
                        let mut dropped = small.store.to_async().admin().capacity();
                        let _ = poll(&mut dropped, &WakeCount::default().waker());
                        drop(dropped);
                        if n == 0 {
                            small.tube.put("blocking").unwrap();
                        } else {
                            block_on(put(small, format!("{n}.{m}"))).unwrap();
                        }
                        put_count.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(put_count.load(Ordering::SeqCst), THREADS * EACH);
        assert_eq!(small.tube.statistics().unwrap().tasks.ready, THREADS * EACH);
        small.assert_verified();
    });
}

/// A waker is user code: it must run without the lock of the store.
#[test]
fn waker_of_a_waiting_future_may_call_the_store() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let mut wait = small.store.to_async().admin().capacity();
        let (tube, calls) = (small.tube.clone(), WakeCount::default());
        let called = calls.waker();
        let waker = waker_calling(move || {
            tube.put("from a waker").unwrap();
            called.wake_by_ref();
            panic!("a waker panics");
        });
        poll_pending(&mut wait, &waker);
        small.disk.unblock_flushes();
        wait_until(|| calls.get() == 1);
        wait_all(tickets);
        drop((wait, waker));
        small.assert_verified();
    });
}
