//! Group F: of each sub-queue, at most one task is taken.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tubewell::driver::UTUBETTL;
use tubewell::{Put, Receipt, State};

use crate::support::*;

fn into(sub_queue: &str) -> Put {
    Put::new("x").sub_queue(sub_queue)
}

/// Puts a task into each of these sub-queues.
fn fill(case: &Case, sub_queues: &[&str]) {
    for sub_queue in sub_queues {
        case.add(into(sub_queue));
    }
}

/// F01
#[test]
fn the_next_task_of_a_sub_queue_is_taken_when_the_first_is_done() {
    each(SUB_QUEUED, |case| {
        fill(case, &["1", "1"]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F02
/// Here: the sub-queue of those that name none has no name, and so none named "nil" is like it.
#[test]
fn tasks_without_a_sub_queue_are_taken_one_at_a_time() {
    each(SUB_QUEUED, |case| {
        case.add(Put::new("a"));
        case.add(Put::new("b"));
        case.add(into("nil"));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.info(0).sub_queue, None);
        assert_eq!(case.take(), Some(2));
        assert_eq!(case.take(), None);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F02
#[test]
fn the_sub_queue_with_the_empty_name_is_that_of_the_unnamed() {
    each(SUB_QUEUED, |case| {
        case.add(into(""));
        case.add(Put::new("b"));
        assert_eq!(case.info(0).sub_queue, None);
        assert_eq!(case.take_all(), [0]);
    });
}

/// F03, F04
#[test]
fn a_task_tells_its_sub_queue() {
    each(SUB_QUEUED, |case| {
        fill(case, &["one", "two/\u{1F347}"]);
        assert_eq!(case.info(0).sub_queue.as_deref(), Some("one"));
        let claims = case.tube.take_many(2, ZERO).unwrap();
        let names: Vec<_> = claims.iter().map(|claim| claim.sub_queue().unwrap()).collect();
        assert_eq!(names, ["one", "two/\u{1F347}"]);
    });
}

/// F04, F05, F06, F07, F08
#[test]
fn each_sub_queue_goes_its_own_way() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x", "x", "y", "z"]);
        assert_eq!(case.take_all(), [0, 3, 4]);

        case.tube.ack(3).unwrap();
        assert_eq!(case.take(), None);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take(), Some(1));

        case.tube.release(1, ZERO).unwrap();
        assert_eq!(case.take(), Some(1));

        case.tube.bury(1).unwrap();
        assert_eq!(case.take(), Some(2));

        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(case.take(), None);
        case.tube.ack(2).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F09
#[test]
fn deleting_the_taken_task_frees_its_sub_queue() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F10
#[test]
fn deleting_the_first_ready_task_makes_the_next_the_first() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x", "x"]);
        case.tube.delete(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F11
#[test]
fn burying_the_first_ready_task_makes_the_next_the_first() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x", "x"]);
        case.tube.bury(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F10, F11
#[test]
fn a_task_that_leaves_a_busy_sub_queue_does_not_free_it() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(1).unwrap();
        case.tube.bury(2).unwrap();
        assert_eq!(case.take(), None);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take_all(), [3]);
    });
}

/// F12, F13
#[test]
fn one_who_waits_gets_the_next_task_when_a_sub_queue_is_freed() {
    let ends: [fn(&Case) -> Receipt; 3] = [
        |case| case.tube.ack(0).unwrap(),
        |case| case.tube.bury(0).unwrap(),
        |case| case.tube.delete(0).unwrap(),
    ];
    for end in ends {
        each(SUB_QUEUED, |case| {
            fill(case, &["x", "x"]);
            assert_eq!(case.take(), Some(0));
            let waiting = case.wait();
            assert_eq!(end(case).id, 0);
            assert_eq!(waiting.id(), Some(1));
        });
    }
}

/// F14
#[test]
fn one_who_waits_gets_the_next_task_when_the_first_is_put_off() {
    each(&[UTUBETTL], |case| {
        fill(case, &["x", "x"]);
        assert_eq!(case.take(), Some(0));
        let waiting = case.wait();
        case.tube.release(0, secs(10)).unwrap();
        assert_eq!(waiting.id(), Some(1));
    });
}

/// F15
#[test]
fn one_who_waits_gets_the_released_task_itself() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x"]);
        let holder = case.stranger();
        assert_eq!(take(&holder), Some(0));
        let waiting = case.wait();
        holder.release(0, ZERO).unwrap();
        assert_eq!(waiting.id(), Some(0));
        case.tube.ack(0).unwrap();
    });
}

/// F16
#[test]
fn the_most_urgent_task_of_a_sub_queue_goes_first() {
    each(&[UTUBETTL], |case| {
        let later = case.add(into("x").pri(1));
        let urgent = case.add(into("x").pri(0));
        assert_eq!(case.take(), Some(urgent));
        case.tube.release(urgent, ZERO).unwrap();
        assert_eq!(case.take(), Some(urgent));
        case.tube.ack(urgent).unwrap();
        assert_eq!(case.take(), Some(later));
    });
}

/// F17
#[test]
fn sub_queues_are_served_in_the_order_of_their_most_urgent_tasks() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").pri(5));
        case.add(into("x").pri(1));
        case.add(into("y").pri(3));
        assert_eq!(case.take_all(), [1, 2]);
        case.tube.ack(1).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// F18
#[test]
fn when_the_first_task_dies_the_next_is_the_first() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").ttl(ms(100)));
        case.add(into("x"));
        case.advance(200);
        assert_eq!(case.take(), Some(1));
    });
}

/// E36, F18
/// Here: a ttl that is over ends a taken task, and so frees its sub-queue.
#[test]
fn when_the_taken_task_dies_its_sub_queue_is_free() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").ttl(ms(100)));
        case.add(into("x"));
        assert_eq!(case.take(), Some(0));
        let waiting = case.wait();
        case.advance(100);
        assert_eq!(case.state(0), None);
        assert_eq!(waiting.id(), Some(1));
    });
}

/// F19
#[test]
fn a_task_whose_hold_ran_out_is_the_first_again() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").ttr(ms(100)));
        case.add(into("x"));
        assert_eq!(case.take(), Some(0));
        case.advance(200);
        assert_eq!(case.take(), Some(0));
    });
}

/// F20
#[test]
fn a_delay_that_ends_in_a_busy_sub_queue_waits_for_it() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").delay(ms(100)));
        case.add(into("x"));
        assert_eq!(case.take(), Some(1));
        case.advance(200);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), None);
        case.tube.ack(1).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// F21
#[test]
fn a_delay_that_ends_in_a_free_sub_queue_takes_its_old_place() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").delay(ms(100)));
        case.add(into("x"));
        case.advance(200);
        assert_eq!(case.take(), Some(0));
    });
}

/// F22
#[test]
fn delayed_and_buried_tasks_do_not_keep_a_sub_queue_busy() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x"]);
        case.tube.bury(0).unwrap();
        if case.timed() {
            case.add(into("x").delay(secs(10)));
        }
        let ready = case.add(into("x"));
        assert_eq!(case.take(), Some(ready));
    });
}

/// F24
#[test]
fn workers_never_hold_two_tasks_of_one_sub_queue() {
    const TASKS: u64 = 100;
    each(SUB_QUEUED, |case| {
        for n in 0..TASKS {
            case.add(into(&format!("q{}", n % 4)));
        }
        let held = Mutex::new(HashSet::new());
        let order = Mutex::new(BTreeMap::<String, Vec<u64>>::new());
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let tube = case.stranger();
                    while done.load(Ordering::SeqCst) < TASKS {
                        let Some(claim) = tube.try_take().unwrap() else {
                            thread::yield_now();
                            continue;
                        };
                        let name = claim.sub_queue().unwrap().to_owned();
                        assert!(held.lock().unwrap().insert(name.clone()), "two of {name}");
                        order.lock().unwrap().entry(name.clone()).or_default().push(claim.id());
                        thread::yield_now();
                        assert!(held.lock().unwrap().remove(&name));
                        claim.ack().unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let order = order.into_inner().unwrap();
        assert_eq!(order.len(), 4);
        for ids in order.values() {
            assert_eq!(ids.len() as u64, TASKS / 4);
            assert!(ids.is_sorted(), "out of order: {ids:?}");
        }
        assert_eq!(case.tasks(), counts([("done", TASKS)]));
    });
}

/// F26
#[test]
fn tasks_for_a_busy_sub_queue_do_not_lengthen_a_wait() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x"]);
        assert_eq!(case.take(), Some(0));
        let mut waiting = Waiting::begin(case.tube.take_async(ms(300)));
        for _ in 0..2 {
            case.advance(100);
            case.add(into("x"));
        }
        case.advance(99);
        assert!(waiting.waits());
        case.advance(1);
        assert_eq!(waiting.id(), None);
    });
}

/// F27
#[test]
fn a_long_busy_sub_queue_does_not_hide_the_others() {
    each(SUB_QUEUED, |case| {
        case.tube.put_many((0..5000).map(|_| into("long"))).unwrap();
        assert_eq!(case.take(), Some(0));
        let other = case.add(into("other"));
        assert_eq!(case.take_all(), [other]);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F27
#[test]
fn many_sub_queues_are_all_served() {
    each(SUB_QUEUED, |case| {
        let names: Vec<String> = (0..1000).map(|n| format!("q{n}")).collect();
        case.tube.put_many(names.iter().chain(&names).map(|name| into(name))).unwrap();
        let first: Vec<u64> = (0..1000).collect();
        assert_eq!(case.take_all(), first);
        for answer in case.tube.ack_many(&first).unwrap() {
            answer.unwrap();
        }
        assert_eq!(case.take_all(), (1000..2000).collect::<Vec<u64>>());
    });
}

/// Q07
#[test]
fn a_kicked_task_that_is_alone_in_its_sub_queue_is_taken() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x"]);
        case.tube.bury(0).unwrap();
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(case.take(), Some(0));
    });
}

/// Q08
#[test]
fn a_kicked_task_shares_its_sub_queue_with_a_younger_one() {
    each(SUB_QUEUED, |case| {
        fill(case, &["x", "x"]);
        case.tube.bury(0).unwrap();
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        fill(case, &["x"]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
        case.tube.ack(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// Q11
#[test]
fn a_released_task_gives_way_to_a_more_urgent_one_that_came_since() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").pri(1));
        assert_eq!(case.take(), Some(0));
        case.add(into("x").pri(0));
        case.tube.release(0, ZERO).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// Q11
#[test]
fn a_task_whose_hold_ran_out_gives_way_to_a_more_urgent_one_that_came_since() {
    each(&[UTUBETTL], |case| {
        case.add(into("x").pri(1).ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.add(into("x").pri(0));
        case.advance(100);
        assert_eq!(case.take(), Some(1));
    });
}
