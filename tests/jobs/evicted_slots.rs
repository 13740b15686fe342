//! More sub-queues than a window has places, 2048: those that were evicted from it are found again.

use std::time::Duration;

use tubewell::driver::UTUBETTL;
use tubewell::{Claim, Put, Rate, TubeOptions};

use super::support::*;
use crate::options::only;

const SUB_QUEUES: usize = 2300;

fn name(nth: usize) -> String {
    format!("sub-queue {nth}")
}

fn for_each_name(call: impl Fn(&str)) {
    (0..SUB_QUEUES).for_each(|nth| call(&name(nth)));
}

fn limit(most: u32) -> TubeOptions {
    TubeOptions::new().sub_queue_limit(most)
}

fn ids(claims: &[Claim]) -> impl Iterator<Item = usize> {
    claims.iter().map(|claim| usize::try_from(claim.id()).unwrap())
}

/// What shuts the gates of all sub-queues, and what opens them again.
struct Gate {
    what: &'static str,
    options: fn() -> TubeOptions,
    shut: fn(&Case),
    open: fn(&Case),
}

const GATES: [Gate; 8] = [
    Gate {
        what: "pause of the tube",
        options: || limit(2),
        shut: |case| case.tube.admin().pause().unwrap(),
        open: |case| case.tube.admin().unpause().unwrap(),
    },
    Gate {
        what: "pauses of sub-queues",
        options: || limit(2),
        shut: |case| {
            for_each_name(|name| case.tube.admin().pause_sub_queue(name, Duration::MAX).unwrap());
        },
        open: |case| for_each_name(|name| case.tube.admin().unpause_sub_queue(name).unwrap()),
    },
    Gate {
        what: "pauses that elapse",
        options: || limit(2),
        shut: |case| {
            for_each_name(|name| case.tube.admin().pause_sub_queue(name, secs(5)).unwrap());
        },
        open: |case| case.advance(5_000),
    },
    Gate {
        what: "rate of sub-queues",
        options: || limit(2).sub_queue_rate(Rate::per(1, secs(5))),
        shut: |_| {},
        open: |case| case.advance(5_000),
    },
    Gate {
        what: "cooldown of sub-queues",
        options: || limit(2).sub_queue_cooldown(secs(5)),
        shut: |case| {
            let second = case.tube.take_many(2 * SUB_QUEUES, ZERO).unwrap();
            assert_eq!(second.len(), SUB_QUEUES);
            for claim in second {
                claim.release().unwrap();
            }
        },
        open: |case| case.advance(5_000),
    },
    Gate {
        what: "shared limits",
        options: || limit(2).shared_limits(true),
        shut: |case| for_each_name(|name| case.store.admin().set_limit(name, 1).unwrap()),
        open: |case| for_each_name(|name| case.store.admin().remove_limit(name).unwrap()),
    },
    Gate {
        what: "altered limit",
        options: || limit(2),
        shut: |case| case.tube.admin().alter(only(limit(1))).unwrap(),
        open: |case| case.tube.admin().alter(only(limit(2))).unwrap(),
    },
    Gate {
        what: "limit of taken tasks",
        options: || limit(2),
        shut: |case| case.tube.admin().alter(only(limit(2).max_taken(1))).unwrap(),
        open: |case| case.tube.admin().alter(only(limit(2))).unwrap(),
    },
];

/// The first task of each sub-queue is taken, so that the row by which a slot would be read again is
/// that of a task which cannot be taken.
#[test]
fn evicted_sub_queues_are_taken_from_in_order_once_their_gates_open() {
    for Gate { what, options, shut, open } in GATES {
        println!("{what}");
        for_each_driver_with(&[UTUBETTL], options(), |case| {
            let puts = (0..2 * SUB_QUEUES).map(|n| Put::new("x").sub_queue(name(n % SUB_QUEUES)));
            case.tube.put_many(puts).unwrap();
            let first = case.tube.take_many(SUB_QUEUES, ZERO).unwrap();
            assert!(ids(&first).eq(0..SUB_QUEUES));
            shut(case);
            assert_eq!(case.tube.take_many(1, ZERO).unwrap().len(), 0, "{what}");
            open(case);
            let second = case.tube.take_many(2 * SUB_QUEUES, ZERO).unwrap();
            assert!(ids(&second).eq(SUB_QUEUES..2 * SUB_QUEUES), "{what}: {}", second.len());
            assert_sound(&case.store);
        });
    }
}
