//! Those who wait for a task.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Durability, FIFO, FIFOTTL, Put, TubeOptions, UTUBE};

use crate::explore::explore;
use crate::stage::{FOR_EVER, Flag, body, end, in_line, ms, still, taker, tube, with};

#[test]
fn a_put_reaches_the_take_that_waits_however_durable_the_tube() {
    explore("a_put_reaches_the_take", || {
        let (store, _) = still();
        let make = |name, options| store.create_tube(name, FIFO, options).unwrap();
        let tubes = [
            make("flushed", TubeOptions::new()),
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
        end(&store);
    });
}

#[test]
fn a_task_is_seen_after_its_flush_and_not_before() {
    explore("a_task_is_seen_after_its_flush", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let before = store.counters().flushes;
        let putter = with(&tube, |tube| tube.put("x").unwrap());
        let taker = taker(&tube);
        let seen = tube.statistics().unwrap().tasks.total > 0;
        let flushed = store.counters().flushes > before;
        assert!(flushed || !seen, "it was counted before it was flushed");
        drop(taker.join().unwrap());
        assert!(store.counters().flushes > before, "it was taken before it was flushed");
        putter.join().unwrap();
        end(&store);
    });
}

#[test]
fn two_takes_get_the_two_tasks_that_two_threads_put() {
    explore("two_takes_get_the_two_tasks", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let takers = [taker(&tube), taker(&tube)];
        let putters = ["a", "b"].map(|text| with(&tube, move |tube| tube.put(text).unwrap().id));
        let mut put = putters.map(|putter| putter.join().unwrap());
        let claims = takers.map(|taker| taker.join().unwrap());
        let mut taken = [claims[0].id(), claims[1].id()];
        put.sort_unstable();
        taken.sort_unstable();
        assert_eq!(put, taken);
        for claim in claims {
            claim.ack().unwrap();
        }
        end(&store);
    });
}

#[test]
fn whoever_came_first_is_served_first() {
    explore("whoever_came_first", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let (first, second) = (in_line(&tube), in_line(&tube));
        let second = thread::spawn(move || block_on(second).unwrap().unwrap());
        let first = thread::spawn(move || block_on(first).unwrap().unwrap());
        let putters = ["a", "b"].map(|text| with(&tube, move |tube| tube.put(text).unwrap()));
        // Whoever comes later must not overtake them, but may find what they have released.
        let later = with(&tube, |tube| tube.try_take().unwrap().map(|claim| claim.id()));
        let claims = [first.join().unwrap(), second.join().unwrap()];
        assert!(claims[0].id() < claims[1].id(), "the second was served before the first");
        assert_eq!(later.join().unwrap(), None, "somebody overtook those who wait");
        for putter in putters {
            putter.join().unwrap();
        }
        drop(claims);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        end(&store);
    });
}

#[test]
fn the_task_of_a_future_that_is_dropped_in_this_moment_goes_to_the_next() {
    explore("the_task_of_a_future", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let (chosen, next) = (in_line(&tube), in_line(&tube));
        let next = thread::spawn(move || block_on(next).unwrap().unwrap());
        let putter = with(&tube, |tube| tube.put("x").unwrap().id);
        let dropper = thread::spawn(move || drop(chosen));
        let claim = next.join().unwrap();
        assert_eq!(claim.id(), putter.join().unwrap());
        dropper.join().unwrap();
        claim.ack().unwrap();
        end(&store);
    });
}

#[test]
fn a_take_whose_time_is_over_has_its_task_or_leaves_it_to_the_next() {
    explore("a_take_whose_time_is_over", || {
        let (store, clock) = still();
        let tube = tube(&store, FIFO);
        let over = Flag::default();
        let hasty = with(&tube, {
            let over = over.clone();
            move |tube| {
                let claim = tube.take(ms(10)).unwrap();
                let id = claim.map(|claim| claim.release(ms(0)).unwrap().id);
                over.raise();
                id
            }
        });
        let patient = taker(&tube);
        let putter = with(&tube, |tube| tube.put("x").unwrap().id);
        while !over.is_up() {
            clock.advance(ms(10));
            thread::yield_now();
        }
        let claim = patient.join().unwrap();
        assert_eq!(claim.id(), putter.join().unwrap());
        assert!(hasty.join().unwrap().is_none_or(|id| id == claim.id()));
        claim.ack().unwrap();
        end(&store);
    });
}

#[test]
fn takes_of_several_tubes_are_served_by_either() {
    explore("takes_of_several_tubes", || {
        let (store, _) = still();
        let (one, two) = (tube(&store, FIFO), tube(&store, FIFOTTL));
        let takers = [[one.clone(), two.clone()], [two.clone(), one.clone()]].map(|tubes| {
            let store = store.clone();
            thread::spawn(move || {
                let claim = store.take_any(&[&tubes[0], &tubes[1]], FOR_EVER).unwrap().unwrap();
                let text = body(&claim);
                claim.ack().unwrap();
                text
            })
        });
        let putter = with(&one, |tube| tube.put("one").unwrap());
        two.put("two").unwrap();
        let mut taken = takers.map(|taker| taker.join().unwrap());
        taken.sort_unstable();
        assert_eq!(taken, ["one", "two"]);
        putter.join().unwrap();
        end(&store);
    });
}

#[test]
fn a_sub_queue_that_becomes_free_serves_whoever_waits_for_it() {
    explore("a_sub_queue_that_becomes_free", || {
        let (store, _) = still();
        let tube = tube(&store, UTUBE);
        let takers = [false, true].map(|release| {
            with(&tube, move |tube| {
                let claim = tube.take(FOR_EVER).unwrap().unwrap();
                if release {
                    claim.release(ms(0)).unwrap();
                    tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id
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
        end(&store);
    });
}

#[test]
fn a_take_whose_task_is_deleted_in_this_moment_waits_for_another() {
    explore("a_take_whose_task_is_deleted", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let taker = taker(&tube);
        let deleter = with(&tube, |tube| {
            // Kept apart from its record, so that it is read in a step of its own.
            let id = tube.put(vec![b'a'; 5000]).unwrap().id;
            tube.delete(id).unwrap();
            tube.put("b").unwrap();
        });
        let claim = taker.join().unwrap();
        deleter.join().unwrap();
        assert!(claim.data() == b"b" || claim.data() == [b'a'; 5000]);
        drop(claim);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
        end(&store);
    });
}
