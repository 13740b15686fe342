//! Takes that wait for a task.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Durability, Error, FIFO, FIFOTTL, Put, TubeOptions, UTUBE};

use crate::disk::Disk;
use crate::explore::explore;
use crate::support::{
    Flag, NO_TIMEOUT, body, manual_clock_store, ms, spawn_with, taker, tube, verify_and_close,
    waiting_take,
};

#[test]
fn put_reaches_waiting_take_at_every_durability() {
    explore("put_reaches_waiting_take_at_every_durability", || {
        let store = Disk::new().open_with_manual_clock();
        let make =
            |name, options: TubeOptions| store.create_tube(name, options.driver(FIFO)).unwrap();
        let tubes = [
            make("flushed", TubeOptions::new()),
            make("written", TubeOptions::new().durability(Durability::write())),
            make("relaxed", TubeOptions::new().durability(Durability::relaxed())),
            make("temporary", TubeOptions::new().temporary(true)),
        ];
        let takers: Vec<_> = tubes.iter().map(taker).collect();
        for tube in &tubes {
            tube.put("x").unwrap();
        }
        for taker in takers {
            taker.join().unwrap().ack().unwrap();
        }
        verify_and_close(&store);
    });
}

#[test]
fn task_is_visible_only_after_its_flush() {
    explore("task_is_visible_only_after_its_flush", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let before = store.admin().counters().unwrap().flushes;
        let putter = spawn_with(&tube, |tube| tube.put("x").unwrap());
        let taker = taker(&tube);
        let seen = tube.statistics().unwrap().tasks.total > 0;
        let flushed = store.admin().counters().unwrap().flushes > before;
        assert!(flushed || !seen, "the task was counted before its flush");
        drop(taker.join().unwrap());
        assert!(
            store.admin().counters().unwrap().flushes > before,
            "the task was taken before its flush"
        );
        putter.join().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn two_takes_get_the_tasks_of_two_concurrent_puts() {
    explore("two_takes_get_the_tasks_of_two_concurrent_puts", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let takers = [taker(&tube), taker(&tube)];
        let putters =
            ["a", "b"].map(|text| spawn_with(&tube, move |tube| tube.put(text).unwrap().id));
        let mut put = putters.map(|putter| putter.join().unwrap());
        let claims = takers.map(|taker| taker.join().unwrap());
        let mut taken = [claims[0].id(), claims[1].id()];
        put.sort_unstable();
        taken.sort_unstable();
        assert_eq!(put, taken);
        for claim in claims {
            claim.ack().unwrap();
        }
        verify_and_close(&store);
    });
}

#[test]
fn waiting_takers_are_served_in_order_of_arrival() {
    explore("waiting_takers_are_served_in_order_of_arrival", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let (first, second) = (waiting_take(&tube), waiting_take(&tube));
        let second = thread::spawn(move || block_on(second).unwrap().unwrap());
        let first = thread::spawn(move || block_on(first).unwrap().unwrap());
        let putters = ["a", "b"].map(|text| spawn_with(&tube, move |tube| tube.put(text).unwrap()));
        // A later take must not get a task before the waiting takers.
        let later = spawn_with(&tube, |tube| tube.try_take().unwrap().map(|claim| claim.id()));
        let claims = [first.join().unwrap(), second.join().unwrap()];
        assert!(claims[0].id() < claims[1].id(), "the second taker was served before the first");
        assert_eq!(later.join().unwrap(), None, "a later take got a task before a waiting taker");
        for putter in putters {
            putter.join().unwrap();
        }
        drop(claims);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        verify_and_close(&store);
    });
}

#[test]
fn task_of_dropped_take_future_goes_to_next_waiting_taker() {
    explore("task_of_dropped_take_future_goes_to_next_waiting_taker", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let (chosen, next) = (waiting_take(&tube), waiting_take(&tube));
        let next = thread::spawn(move || block_on(next).unwrap().unwrap());
        let putter = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        let dropper = thread::spawn(move || drop(chosen));
        let claim = next.join().unwrap();
        assert_eq!(claim.id(), putter.join().unwrap());
        dropper.join().unwrap();
        claim.ack().wait().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn take_at_its_timeout_returns_task_or_leaves_it_to_next_taker() {
    explore("take_at_its_timeout_returns_task_or_leaves_it_to_next_taker", || {
        let (store, clock) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let done = Flag::default();
        let short = spawn_with(&tube, {
            let done = done.clone();
            move |tube| {
                let claim = tube.take_timeout(ms(10)).unwrap();
                let id = claim.map(|claim| claim.release_in(ms(0)).unwrap().id);
                done.raise();
                id
            }
        });
        let long = taker(&tube);
        let putter = spawn_with(&tube, |tube| tube.put("x").unwrap().id);
        while !done.is_up() {
            clock.advance(ms(10));
            thread::yield_now();
        }
        let claim = long.join().unwrap();
        assert_eq!(claim.id(), putter.join().unwrap());
        assert!(short.join().unwrap().is_none_or(|id| id == claim.id()));
        claim.ack().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn take_any_is_served_by_each_of_its_tubes() {
    explore("take_any_is_served_by_each_of_its_tubes", || {
        let (store, _) = manual_clock_store();
        let (one, two) = (tube(&store, FIFO), tube(&store, FIFOTTL));
        let takers = [[one.clone(), two.clone()], [two.clone(), one.clone()]].map(|tubes| {
            let store = store.clone();
            thread::spawn(move || {
                let claim = store.take_any(&[&tubes[0], &tubes[1]], NO_TIMEOUT).unwrap().unwrap();
                let text = body(&claim);
                claim.ack().unwrap();
                text
            })
        });
        let putter = spawn_with(&one, |tube| tube.put("one").unwrap());
        two.put("two").unwrap();
        let mut taken = takers.map(|taker| taker.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, ["one", "two"]);
        putter.join().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn freed_sub_queue_serves_its_waiting_taker() {
    explore("freed_sub_queue_serves_its_waiting_taker", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, UTUBE);
        let takers = [false, true].map(|release| {
            spawn_with(&tube, move |tube| {
                let claim = tube.take().unwrap();
                if release {
                    claim.release_in(ms(0)).unwrap();
                    tube.take().unwrap().ack().unwrap().id
                } else {
                    claim.ack().unwrap().id
                }
            })
        });
        let puts = ["a", "b"].map(|text| Put::new(text).sub_queue("s"));
        let mut put: Vec<u64> =
            tube.put_many(puts).unwrap().iter().map(|receipt| receipt.id).collect();
        let mut taken = takers.map(|taker| taker.join().unwrap()).to_vec();
        put.sort_unstable();
        taken.sort_unstable();
        assert_eq!(put, taken);
        verify_and_close(&store);
    });
}

#[test]
fn take_racing_with_delete_returns_a_whole_task() {
    explore("take_racing_with_delete_returns_a_whole_task", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let taker = taker(&tube);
        let deleter = spawn_with(&tube, |tube| {
            // The body has a row of its own, so it is read in a separate step.
            let id = tube.put(vec![b'a'; 5000]).unwrap().id;
            tube.delete(id).unwrap();
            tube.put("b").unwrap();
        });
        let claim = taker.join().unwrap();
        deleter.join().unwrap();
        assert!(claim.body() == b"b" || claim.body() == [b'a'; 5000]);
        drop(claim);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
        verify_and_close(&store);
    });
}

#[test]
fn wait_ready_ends_with_a_put_and_leaves_the_task() {
    explore("wait_ready_ends_with_a_put_and_leaves_the_task", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let blocking = spawn_with(&tube, |tube| tube.wait_ready(NO_TIMEOUT));
        let future = tube.to_async().wait_ready(NO_TIMEOUT);
        let future = thread::spawn(move || block_on(future));
        let dropped = tube.to_async().wait_ready(NO_TIMEOUT);
        let dropper = thread::spawn(move || drop(dropped));
        tube.put("x").unwrap();
        assert_eq!((blocking.join().unwrap(), future.join().unwrap()), (Ok(true), Ok(true)));
        dropper.join().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
        verify_and_close(&store);
    });
}

/// The take gets one of the two tasks, whichever waits first, and the other task ends the wait.
#[test]
fn take_beside_wait_ready_gets_its_task() {
    explore("take_beside_wait_ready_gets_its_task", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let ready = spawn_with(&tube, |tube| {
            assert_eq!(tube.wait_ready(NO_TIMEOUT), Ok(true));
        });
        let taker = taker(&tube);
        let putters = ["a", "b"].map(|text| spawn_with(&tube, move |tube| tube.put(text).unwrap()));
        drop(taker.join().unwrap());
        ready.join().unwrap();
        for putter in putters {
            putter.join().unwrap();
        }
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        verify_and_close(&store);
    });
}

/// The store closes or the session ends before, during or after the wait.
#[test]
fn wait_ready_ends_with_its_session_and_its_store() {
    explore("wait_ready_ends_with_its_session_and_its_store", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let session = store.session("").unwrap();
        let of_session = session.tube(&tube).unwrap();
        let of_session = thread::spawn(move || of_session.wait_ready(NO_TIMEOUT));
        let of_store = spawn_with(&tube, |tube| tube.wait_ready(NO_TIMEOUT));
        session.end().unwrap();
        assert_eq!(of_session.join().unwrap(), Err(Error::SessionEnded));
        store.close().unwrap();
        assert_eq!(of_store.join().unwrap(), Err(Error::Closed));
    });
}
