//! Runs a story under many schedules.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Scheduler, UncontrolledNondeterminismCheckScheduler as Twice,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Schedules of each kind that come from one seed. The first of PCT only counts steps.
const OF_A_SEED: usize = 50;
/// Schedules of one seed that are run a second time: a seed must repeat what it found.
const TWICE: usize = 2;
/// Schedules of a story unless told otherwise.
const DEFAULT: usize = 200;
/// Changes of priority in a schedule of PCT, and one.
const DEPTH: usize = 4;
/// A story takes a few hundred steps; one that goes on so long turns in a circle.
const STEPS: usize = 200_000;
/// The engine works on the stacks of the explored threads.
const STACK: usize = 1 << 20;

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Runs a story under many schedules; panics with a seed that repeats it if one of them fails.
pub fn explore(test: &str, story: fn()) {
    let wanted = number("TUBEWELL_SCHEDULES");
    let (first, schedules) = match (number("TUBEWELL_SEED"), wanted) {
        (Some(seed), _) => (seed, 1),
        (None, Some(many)) => (RandomState::new().hash_one(test) >> 16, many),
        (None, None) => (1, DEFAULT as u64),
    };
    let seeds = schedules.div_ceil(2 * OF_A_SEED as u64);
    for seed in first..first + seeds {
        let run = AssertUnwindSafe(|| {
            run(Twice::new(RandomScheduler::new_from_seed(seed, TWICE)), story);
            run(RandomScheduler::new_from_seed(seed, OF_A_SEED), story);
            run(PctScheduler::new_from_seed(seed, DEPTH, OF_A_SEED), story);
        });
        if let Err(panic) = catch_unwind(run) {
            eprintln!(
                "\nTUBEWELL_SEED={seed} RUSTFLAGS='--cfg shuttle' cargo test --test schedules \
                 --target-dir target/shuttle {test}"
            );
            resume_unwind(panic);
        }
    }
}

fn run(scheduler: impl Scheduler + 'static, story: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        tubewell::explored::begin();
        story();
    });
}
