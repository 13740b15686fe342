//! Group F: at most one task of each sub-queue is taken at a time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tubewell::driver::UTUBETTL;
use tubewell::{Filter, Outcome, Put, Receipt, TaskState};

use super::support::*;

fn task_in(sub_queue: &str) -> Put {
    Put::new("x".into()).sub_queue(sub_queue)
}

/// Puts one task into each of these sub-queues.
fn put_into_each(case: &Case, sub_queues: &[&str]) {
    for sub_queue in sub_queues {
        case.add(task_in(sub_queue));
    }
}

/// F01
#[test]
fn ack_frees_sub_queue_for_next_task() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["1", "1"]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F02
/// Difference: tasks without a sub-queue share an unnamed one; a sub-queue named "nil" is another.
#[test]
fn tasks_without_sub_queue_are_taken_one_at_a_time() {
    for_each_driver(SUB_QUEUED, |case| {
        case.add(Put::new("a"));
        case.add(Put::new("b"));
        case.add(task_in("nil"));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.info(0).sub_queue, None);
        assert_eq!(case.take(), Some(2));
        assert_eq!(case.take(), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F02
#[test]
fn empty_sub_queue_name_means_no_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        case.add(task_in(""));
        case.add(Put::new("b"));
        assert_eq!(case.info(0).sub_queue, None);
        assert_eq!(case.take_all(), [0]);
    });
}

/// F03, F04
#[test]
fn peek_and_claim_return_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["one", "two/\u{1F347}"]);
        assert_eq!(case.info(0).sub_queue.as_deref(), Some("one"));
        let claims = case.tube.take_many(2, ZERO).unwrap();
        let names: Vec<_> = claims.iter().map(|claim| claim.sub_queue().unwrap()).collect();
        assert_eq!(names, ["one", "two/\u{1F347}"]);
    });
}

/// F04, F05, F06, F07, F08
#[test]
fn sub_queues_are_independent() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x", "x", "y", "z"]);
        assert_eq!(case.take_all(), [0, 3, 4]);

        case.tube.claimed(3).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(1));

        case.tube.claimed(1).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(1));

        case.tube.admin().bury(1, None).unwrap();
        assert_eq!(case.take(), Some(2));

        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.take(), None);
        case.tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// F09
#[test]
fn delete_of_taken_task_frees_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F10
#[test]
fn delete_of_head_makes_next_task_the_head() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x", "x"]);
        case.tube.delete(0).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F11
#[test]
fn bury_of_head_makes_next_task_the_head() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x", "x"]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F10, F11
#[test]
fn delete_and_bury_in_busy_sub_queue_do_not_free_it() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.delete(1).unwrap();
        case.tube.admin().bury(2, None).unwrap();
        assert_eq!(case.take(), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take_all(), [3]);
    });
}

/// F12, F13
#[test]
fn waiting_taker_gets_next_task_when_sub_queue_is_freed() {
    let ends: [fn(&Case) -> Receipt; 3] = [
        |case| case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap(),
        |case| case.tube.admin().bury(0, None).unwrap(),
        |case| case.tube.delete(0).unwrap(),
    ];
    for end in ends {
        for_each_driver(SUB_QUEUED, |case| {
            put_into_each(case, &["x", "x"]);
            assert_eq!(case.take(), Some(0));
            let waiting = case.begin_take();
            assert_eq!(end(case).id, 0);
            assert_eq!(waiting.id(), Some(1));
        });
    }
}

/// F14
#[test]
fn waiting_taker_gets_next_task_after_release_with_delay() {
    for_each_driver(&[UTUBETTL], |case| {
        put_into_each(case, &["x", "x"]);
        assert_eq!(case.take(), Some(0));
        let waiting = case.begin_take();
        case.tube.claimed(0).and_then(|claim| claim.release_in(secs(10))).unwrap();
        assert_eq!(waiting.id(), Some(1));
    });
}

/// F15
#[test]
fn waiting_taker_gets_released_task_of_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x"]);
        let holder = case.tube_in_new_session();
        assert_eq!(take(&holder), Some(0));
        let waiting = case.begin_take();
        holder.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(waiting.id(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// F16
#[test]
fn most_urgent_task_of_sub_queue_is_taken_first() {
    for_each_driver(&[UTUBETTL], |case| {
        let later = case.add(task_in("x").priority(1));
        let urgent = case.add(task_in("x").priority(0));
        assert_eq!(case.take(), Some(urgent));
        case.tube.claimed(urgent).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(urgent));
        case.tube.claimed(urgent).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(later));
    });
}

/// F17
#[test]
fn sub_queues_are_ordered_by_priority_of_their_heads() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").priority(5));
        case.add(task_in("x").priority(1));
        case.add(task_in("y").priority(3));
        assert_eq!(case.take_all(), [1, 2]);
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// F18
#[test]
fn expiry_of_head_makes_next_task_the_head() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").ttl(ms(100)));
        case.add(task_in("x"));
        case.advance(200);
        assert_eq!(case.take(), Some(1));
    });
}

/// E36, F18
/// Difference: an elapsed ttl removes a taken task, which frees its sub-queue.
#[test]
fn expiry_of_taken_task_frees_sub_queue() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").ttl(ms(100)));
        case.add(task_in("x"));
        assert_eq!(case.take(), Some(0));
        let waiting = case.begin_take();
        case.advance(100);
        assert_eq!(case.state(0), None);
        assert_eq!(waiting.id(), Some(1));
    });
}

/// F19
#[test]
fn task_of_expired_claim_is_head_again() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").ttr(ms(100)));
        case.add(task_in("x"));
        assert_eq!(case.take(), Some(0));
        case.advance(200);
        assert_eq!(case.take(), Some(0));
    });
}

/// F20
#[test]
fn delayed_task_waits_for_busy_sub_queue_after_delay_elapses() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").delay(ms(100)));
        case.add(task_in("x"));
        assert_eq!(case.take(), Some(1));
        case.advance(200);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), None);
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

/// F21
#[test]
fn delayed_task_returns_to_its_position_in_free_sub_queue() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").delay(ms(100)));
        case.add(task_in("x"));
        case.advance(200);
        assert_eq!(case.take(), Some(0));
    });
}

/// F22
#[test]
fn delayed_and_buried_tasks_do_not_keep_sub_queue_busy() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x"]);
        case.tube.admin().bury(0, None).unwrap();
        if case.timed() {
            case.add(task_in("x").delay(secs(10)));
        }
        let ready = case.add(task_in("x"));
        assert_eq!(case.take(), Some(ready));
    });
}

/// F24
#[test]
fn concurrent_workers_never_take_two_tasks_of_one_sub_queue() {
    const TASKS: u64 = 100;
    for_each_driver(SUB_QUEUED, |case| {
        for n in 0..TASKS {
            case.add(task_in(&format!("q{}", n % 4)));
        }
        let taken = Mutex::new(HashSet::new());
        let order = Mutex::new(BTreeMap::<String, Vec<u64>>::new());
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let tube = case.tube_in_new_session();
                    while done.load(Ordering::SeqCst) < TASKS {
                        let Some(claim) = tube.try_take().unwrap() else {
                            thread::yield_now();
                            continue;
                        };
                        let name = claim.sub_queue().unwrap().to_owned();
                        assert!(
                            taken.lock().unwrap().insert(name.clone()),
                            "two tasks of {name} are taken"
                        );
                        order.lock().unwrap().entry(name.clone()).or_default().push(claim.id());
                        thread::yield_now();
                        assert!(taken.lock().unwrap().remove(&name));
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
fn put_into_busy_sub_queue_does_not_extend_take_timeout() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x"]);
        assert_eq!(case.take(), Some(0));
        let mut waiting = WaitingTake::begin(case.tube.to_async().take_timeout(ms(300)));
        for _ in 0..2 {
            case.advance(100);
            case.add(task_in("x"));
        }
        case.advance(99);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), None);
    });
}

/// F27
#[test]
fn long_busy_sub_queue_does_not_block_other_sub_queues() {
    for_each_driver(SUB_QUEUED, |case| {
        case.tube.put_many((0..5000).map(|_| task_in("long"))).unwrap();
        assert_eq!(case.take(), Some(0));
        let other = case.add(task_in("other"));
        assert_eq!(case.take_all(), [other]);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// F27
#[test]
fn take_serves_many_sub_queues() {
    for_each_driver(SUB_QUEUED, |case| {
        let names: Vec<String> = (0..1000).map(|n| format!("q{n}")).collect();
        case.tube.put_many(names.iter().chain(&names).map(|name| task_in(name))).unwrap();
        let first: Vec<u64> = (0..1000).collect();
        assert_eq!(case.take_all(), first);
        let claims = first.iter().map(|id| case.tube.claimed(*id).unwrap()).collect();
        for answer in tubewell::Claim::end_many(claims, |_| Outcome::done()).unwrap() {
            answer.unwrap();
        }
        assert_eq!(case.take_all(), (1000..2000).collect::<Vec<u64>>());
    });
}

/// Q07
#[test]
fn kicked_task_alone_in_sub_queue_is_taken() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x"]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.take(), Some(0));
    });
}

/// Q08
#[test]
fn kicked_task_precedes_later_task_of_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into_each(case, &["x", "x"]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        put_into_each(case, &["x"]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.take(), None);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take_all(), [1]);
    });
}

/// Q11
#[test]
fn more_urgent_task_precedes_released_task() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").priority(1));
        assert_eq!(case.take(), Some(0));
        case.add(task_in("x").priority(0));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// Q11
#[test]
fn more_urgent_task_precedes_task_of_expired_claim() {
    for_each_driver(&[UTUBETTL], |case| {
        case.add(task_in("x").priority(1).ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.add(task_in("x").priority(0));
        case.advance(100);
        assert_eq!(case.take(), Some(1));
    });
}
