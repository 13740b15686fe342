//! The sweeper's own thread, and time that passes while others work.

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{Durability, Error, FIFO, FIFOTTL, Put, TubeOptions};

use crate::explore::explore;
use crate::stage::{Flag, end, ms, still, swept, taker, tube, with};

#[test]
fn an_earlier_due_moves_the_sweepers_alarm() {
    explore("an_earlier_due", || {
        let store = swept();
        let tube = tube(&store, FIFOTTL);
        let takers = [taker(&tube), taker(&tube)];
        let late = with(&tube, |tube| tube.put(Put::new("late").delay(ms(10_000))).unwrap());
        let soon = with(&tube, |tube| tube.put(Put::new("soon").delay(ms(1000))).unwrap());
        late.join().unwrap();
        soon.join().unwrap();
        // The sweeper may not sleep yet, or sleep for the later of them.
        pass(ms(1000));
        pass(ms(9000));
        for taker in takers {
            taker.join().unwrap().ack().unwrap();
        }
        end(&store);
    });
}

#[test]
fn a_due_that_comes_while_the_sweeper_goes_to_sleep_is_not_slept_over() {
    explore("a_due_that_comes", || {
        let store = swept();
        let tube = tube(&store, FIFOTTL);
        let taker = taker(&tube);
        // Less than the sweeper ever sleeps when it knows of nothing.
        tube.put(Put::new("soon").delay(ms(1000))).unwrap();
        pass(ms(1000));
        taker.join().unwrap().ack().unwrap();
        end(&store);
    });
}

#[test]
fn a_hold_that_ends_is_acked_in_time_or_goes_to_the_next() {
    explore("a_hold_that_ends", || {
        let store = swept();
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
        end(&store);
    });
}

#[test]
fn a_take_times_out_though_nobody_does_anything() {
    explore("a_take_times_out", || {
        let store = swept();
        let tube = tube(&store, FIFO);
        let over = [Flag::default(), Flag::default()];
        let takers = [0, 1].map(|number| {
            let over = over[number].clone();
            with(&tube, move |tube| {
                let claim = tube.take(ms([1000, 2000][number])).unwrap();
                over.raise();
                claim.is_some()
            })
        });
        while !over.iter().all(Flag::is_up) {
            pass(ms(1000));
            thread::yield_now();
        }
        for taker in takers {
            assert!(!taker.join().unwrap(), "there was nothing to take");
        }
        end(&store);
    });
}

#[test]
fn what_is_relaxed_is_flushed_in_its_time() {
    explore("what_is_relaxed", || {
        let store = swept();
        let options = TubeOptions::new().durability(Durability::Relaxed { max_delay: ms(50) });
        let tube = store.create_tube("relaxed", FIFO, options).unwrap();
        let before = store.flush().unwrap();
        let other = with(&tube, |tube| tube.put("a").unwrap().commit);
        let last = tube.put("b").unwrap().commit.max(other.join().unwrap());
        assert!(last > before);
        pass(ms(50));
        // Nobody waits for this commit but the writer thread.
        while store.counters().commits < last {
            thread::yield_now();
        }
        end(&store);
    });
}

#[test]
fn whoever_moves_a_clock_finds_done_what_fell_due() {
    explore("whoever_moves_a_clock", || {
        let (store, clock) = still();
        let options = TubeOptions::new().durability(Durability::Relaxed { max_delay: ms(50) });
        let tube = store.create_tube("relaxed", FIFO, options).unwrap();
        tube.put("a").unwrap();
        let before = store.counters().flushes;
        clock.advance(ms(50));
        assert!(store.counters().flushes > before, "the flush was due");
        end(&store);
    });
}
