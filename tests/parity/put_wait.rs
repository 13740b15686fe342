//! Puts that wait for space in a full tube, as futures.

use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{Error, LIMFIFOTTL, Put, Receipt, Store, TaskState, Ticket, Tube, TubeOptions};

use super::support::{
    WakeCount, block_on, ms, poll, poll_pending, timed_store, wait_until, waker_calling,
    with_timeout,
};
use crate::stores;

const NO_TIMEOUT: Duration = Duration::MAX;

/// A tube with space for one task, which it has.
fn full_tube(store: &Store) -> Tube {
    let tube =
        store.create_tube("full", TubeOptions::new().capacity(1).driver(LIMFIFOTTL)).unwrap();
    tube.put("first").unwrap();
    tube
}

fn waiting_puts(store: &Store) -> u64 {
    store.tubes().unwrap().iter().map(|info| info.waiting_puts).sum()
}

/// A put that already waits.
fn waiting_put(tube: &Tube, body: &str) -> Ticket<Receipt> {
    let mut put = tube.to_async().put_timeout(body, NO_TIMEOUT);
    poll_pending(&mut put, Waker::noop());
    put
}

fn take_and_ack(tube: &Tube) -> Vec<u8> {
    let claim = tube.try_take().unwrap().unwrap();
    let body = claim.body().to_vec();
    claim.ack().unwrap();
    body
}

#[test]
fn put_does_not_wait_while_there_is_space() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = full_tube(&store);
        take_and_ack(&tube);
        let receipt = block_on(tube.to_async().put_timeout(Put::new("x").delay(ms(5)), NO_TIMEOUT));
        assert_eq!(receipt.unwrap().state, TaskState::Delayed);
    });
}

#[test]
fn futures_and_threads_are_served_in_one_order_of_arrival() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = full_tube(&store);
        let first = waiting_put(&tube, "1");
        thread::scope(|scope| {
            let second = scope.spawn(|| tube.put_timeout("2", NO_TIMEOUT).unwrap());
            wait_until(|| waiting_puts(&store) == 2);
            let third = waiting_put(&tube, "3");
            assert_eq!(waiting_puts(&store), 3);
            let full = Error::Full { tube: "full".into(), capacity: 1 };
            assert_eq!(tube.put("overtakes"), Err(full.clone()));
            assert_eq!(
                block_on(tube.to_async().put_timeout("overtakes", Duration::ZERO)),
                Err(full)
            );
            assert_eq!(take_and_ack(&tube), b"first");
            let first = block_on(first).unwrap();
            assert_eq!(take_and_ack(&tube), b"1");
            let second = second.join().unwrap();
            assert_eq!(take_and_ack(&tube), b"2");
            let third = block_on(third).unwrap();
            assert!(first.id < second.id && second.id < third.id);
        });
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn dropped_future_puts_nothing_and_gives_its_place_up() {
    with_timeout(|| {
        let (store, clock) = timed_store();
        let tube = full_tube(&store);
        let mut first = tube.to_async().put_timeout("1", ms(1000));
        poll_pending(&mut first, Waker::noop());
        let second = waiting_put(&tube, "2");
        drop(tube.to_async().put_timeout("never polled", NO_TIMEOUT));
        drop(first);
        assert_eq!(waiting_puts(&store), 1);
        take_and_ack(&tube);
        block_on(second).unwrap();
        clock.advance(ms(2000));
        assert_eq!(take_and_ack(&tube), b"2");
        assert_eq!(tube.statistics().unwrap().calls.put, 2);
        // No put waits, so a plain put is not refused.
        tube.put("3").unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// The race that the documentation names: the put was admitted before the future was dropped.
#[test]
fn admitted_task_stays_when_its_future_is_dropped() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = full_tube(&store);
        let put = waiting_put(&tube, "admitted");
        take_and_ack(&tube);
        drop(put);
        store.flush().unwrap();
        assert_eq!(take_and_ack(&tube), b"admitted");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn wait_ends_when_its_timeout_elapses() {
    with_timeout(|| {
        let (store, clock) = timed_store();
        let tube = full_tube(&store);
        let mut put = tube.to_async().put_timeout("late", ms(10));
        let wakes = WakeCount::default();
        poll_pending(&mut put, &wakes.waker());
        clock.advance(ms(9));
        poll_pending(&mut put, &wakes.waker());
        assert_eq!(wakes.get(), 0);
        clock.advance(ms(1));
        wait_until(|| wakes.get() == 1);
        let full = Error::Full { tube: "full".into(), capacity: 1 };
        assert_eq!(poll(&mut put, Waker::noop()), Poll::Ready(Err(full)));
        assert_eq!(waiting_puts(&store), 0);
    });
}

#[test]
fn wait_ends_with_its_session_and_with_the_store() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = full_tube(&store);
        let session = store.session("").unwrap();
        let own = waiting_put(&session.tube(&tube).unwrap(), "own");
        let other = waiting_put(&tube, "other");
        session.end().unwrap();
        assert_eq!(block_on(own), Err(Error::SessionEnded));
        assert_eq!(waiting_puts(&store), 1);
        let _closing = stores::begin_close(&store);
        assert!(stores::is_closed(&block_on(other).unwrap_err()));
    });
}

#[test]
fn invalid_task_is_refused_by_the_first_poll() {
    let (store, _clock) = timed_store();
    let tube = full_tube(&store);
    let mut put = tube.to_async().put_timeout(Put::new("x").sub_queue("none"), NO_TIMEOUT);
    let Poll::Ready(Err(Error::Unsupported { .. })) = poll(&mut put, Waker::noop()) else {
        panic!("an option that the driver does not have was accepted");
    };
    let mut put = tube.to_async().put_timeout(vec![0; tubewell::MAX_BODY + 1], NO_TIMEOUT);
    let Poll::Ready(Err(Error::Invalid { .. })) = poll(&mut put, Waker::noop()) else {
        panic!("a body over the limit was accepted");
    };
}

/// The ack admits the waiting put under the lock of the store, and wakes it after that.
#[test]
fn waker_of_a_waiting_put_may_call_the_store() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = full_tube(&store);
        let mut put = tube.to_async().put_timeout("1", NO_TIMEOUT);
        let to_close = store.clone();
        poll_pending(&mut put, &waker_calling(move || to_close.close().unwrap()));
        take_and_ack(&tube);
        assert!(tube.put("late").is_err());
        block_on(put).unwrap();
    });
}

#[test]
fn futures_and_acks_race_without_a_lost_task() {
    const EACH: u64 = 50;
    with_timeout(|| {
        let store = stores::in_memory();
        let options = TubeOptions::new().capacity(2).temporary(true);
        let tube = store.create_tube("bounded", options.driver(LIMFIFOTTL)).unwrap();
        let mut taken = 0;
        thread::scope(|scope| {
            let putters: Vec<_> = (0..3)
                .map(|n| {
                    let tube = &tube;
                    scope.spawn(move || {
                        let mut admitted = 0;
                        for m in 0..EACH {
                            if (n + m) % 5 == 0 {
                                // Dropped after one poll: put or not, never half.
                                let mut put = tube.to_async().put_timeout("dropped", NO_TIMEOUT);
                                let _ = poll(&mut put, Waker::noop());
                            } else {
                                block_on(tube.to_async().put_timeout("kept", NO_TIMEOUT)).unwrap();
                                admitted += 1;
                            }
                        }
                        admitted
                    })
                })
                .collect();
            let mut kept = 0;
            loop {
                let is_last = putters.iter().all(thread::ScopedJoinHandle::is_finished);
                while let Some(claim) = tube.take_timeout(ms(1)).unwrap() {
                    kept += u64::from(claim.body() == b"kept");
                    taken += 1;
                    claim.ack().unwrap();
                }
                if is_last {
                    break;
                }
            }
            let admitted: u64 = putters.into_iter().map(|putter| putter.join().unwrap()).sum();
            assert_eq!(kept, admitted);
        });
        let statistics = tube.statistics().unwrap();
        assert_eq!((statistics.calls.put, statistics.tasks.total), (taken, 0));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
