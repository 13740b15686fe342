//! The sweeper thread, and time that passes during calls.

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{Durability, Error, FIFO, FIFOTTL, Put, TubeOptions};

use crate::explore::explore;
use crate::support::{
    Flag, manual_clock_store, ms, spawn_with, sweeper_store, taker, tube, verify_and_close,
};

#[test]
fn earlier_due_time_wakes_sweeper_earlier() {
    explore("earlier_due_time_wakes_sweeper_earlier", || {
        let store = sweeper_store();
        let tube = tube(&store, FIFOTTL);
        let takers = [taker(&tube), taker(&tube)];
        let late = spawn_with(&tube, |tube| tube.put(Put::new("late").delay(ms(10_000))).unwrap());
        let soon = spawn_with(&tube, |tube| tube.put(Put::new("soon").delay(ms(1000))).unwrap());
        late.join().unwrap();
        soon.join().unwrap();
        // The sweeper may be awake, or sleep until the later due time.
        pass(ms(1000));
        pass(ms(9000));
        for taker in takers {
            taker.join().unwrap().ack().unwrap();
        }
        verify_and_close(&store);
    });
}

#[test]
fn sweeper_does_not_miss_due_time_set_while_it_goes_to_sleep() {
    explore("sweeper_does_not_miss_due_time_set_while_it_goes_to_sleep", || {
        let store = sweeper_store();
        let tube = tube(&store, FIFOTTL);
        let taker = taker(&tube);
        // Shorter than the sleep of a sweeper that has no due time.
        tube.put(Put::new("soon").delay(ms(1000))).unwrap();
        pass(ms(1000));
        taker.join().unwrap().ack().unwrap();
        verify_and_close(&store);
    });
}

#[test]
fn expiring_claim_is_acked_or_its_task_goes_to_next_taker() {
    explore("expiring_claim_is_acked_or_its_task_goes_to_next_taker", || {
        let store = sweeper_store();
        let tube = tube(&store, FIFOTTL);
        let first = tube.put(Put::new("x").ttr(ms(1000))).unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        let next = taker(&tube);
        let acks = thread::spawn(move || claim.ack());
        pass(ms(1000));
        let acked = match acks.join().unwrap() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error, Error::NotTaken { id: first });
                false
            }
        };
        let second = tube.put("y").unwrap().id;
        assert_eq!(next.join().unwrap().ack().unwrap().id, if acked { second } else { first });
        verify_and_close(&store);
    });
}

#[test]
fn take_times_out_on_idle_store() {
    explore("take_times_out_on_idle_store", || {
        let store = sweeper_store();
        let tube = tube(&store, FIFO);
        let done = [Flag::default(), Flag::default()];
        let takers = [0, 1].map(|number| {
            let done = done[number].clone();
            spawn_with(&tube, move |tube| {
                let claim = tube.take_timeout(ms([1000, 2000][number])).unwrap();
                done.raise();
                claim.is_some()
            })
        });
        while !done.iter().all(Flag::is_up) {
            pass(ms(1000));
            thread::yield_now();
        }
        for taker in takers {
            assert!(!taker.join().unwrap(), "the take must time out");
        }
        verify_and_close(&store);
    });
}

#[test]
fn relaxed_put_is_flushed_after_max_delay() {
    explore("relaxed_put_is_flushed_after_max_delay", || {
        let store = sweeper_store();
        let options = TubeOptions::new().durability(Durability::Relaxed { max_delay: ms(50) });
        let tube = store.create_tube("relaxed", options.driver(FIFO)).unwrap();
        let before = store.flush().unwrap();
        let other = spawn_with(&tube, |tube| tube.put("a").unwrap().commit);
        let last = tube.put("b").unwrap().commit.max(other.join().unwrap());
        assert!(last > before);
        pass(ms(50));
        // Only the writer thread leads this commit.
        while store.admin().counters().unwrap().commits < last {
            thread::yield_now();
        }
        verify_and_close(&store);
    });
}

#[test]
fn advance_returns_after_due_flush_is_done() {
    explore("advance_returns_after_due_flush_is_done", || {
        let (store, clock) = manual_clock_store();
        let options = TubeOptions::new().durability(Durability::Relaxed { max_delay: ms(50) });
        let tube = store.create_tube("relaxed", options.driver(FIFO)).unwrap();
        tube.put("a").unwrap();
        let before = store.admin().counters().unwrap().flushes;
        clock.advance(ms(50));
        assert!(store.admin().counters().unwrap().flushes > before, "the flush was due");
        verify_and_close(&store);
    });
}
