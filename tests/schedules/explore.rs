//! Runs a scenario under many schedules.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Scheduler,
    UncontrolledNondeterminismCheckScheduler as NondeterminismCheck,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use super::size::{amount, seeds};

/// Schedules of each kind for one seed. The first PCT schedule only counts steps.
const PER_SEED: usize = 50;
/// Random schedules of one seed that run twice, to check that a seed reproduces a failure.
const CHECKED: usize = 2;
/// Priority changes of a PCT schedule, plus one.
const DEPTH: usize = 4;
/// A scenario takes a few hundred steps. One that reaches this number is in an endless loop.
const STEPS: usize = 200_000;
/// In bytes. The engine runs on the stacks of the explored threads.
const STACK: usize = 1 << 20;

/// Runs a scenario under many schedules. If one of them fails, prints the seed that reproduces it
/// and panics.
pub fn explore(test: &str, scenario: fn()) {
    explore_some(test, PER_SEED, scenario);
}

/// As [`explore`], for a scenario that takes long: a fifth of the schedules for each seed.
pub fn explore_few(test: &str, scenario: fn()) {
    explore_some(test, PER_SEED / 5, scenario);
}

fn explore_some(test: &str, per_seed: usize, scenario: fn()) {
    for seed in seeds(amount(1, 2, 1000)) {
        let run = AssertUnwindSafe(|| {
            run(NondeterminismCheck::new(RandomScheduler::new_from_seed(seed, CHECKED)), scenario);
            run(RandomScheduler::new_from_seed(seed, per_seed), scenario);
            run(PctScheduler::new_from_seed(seed, DEPTH, per_seed), scenario);
        });
        if let Err(panic) = catch_unwind(run) {
            eprintln!(
                "\nTUBEWELL_SEED={seed} cargo test -p {} --features _shuttle --test schedules {test}",
                env!("CARGO_PKG_NAME")
            );
            resume_unwind(panic);
        }
    }
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || {
        crate::begin();
        scenario();
    });
}
