//! Compares the library with the reference model. Random steps call all verbs on tubes of all
//! drivers, in a real file that is closed and reopened in between.
//!
//! A step selects its task, claim or wait with a [`steps::Choice`] instead of an id. The choice is
//! resolved when the step runs, among the items that the model knows at that time: stored tasks,
//! held tasks, or all tasks ever put. A sequence therefore keeps its meaning when shrinking removes
//! steps from it. The model runs beside the library and not in the generator, because it follows
//! the library where the specification leaves an order open; see [`reference::TieBreak`].
//!
//! Every step compares all answers, all wake-ups and the statistics. Every few steps also compare
//! all tasks and all events, and call `verify`.

#[cfg(all(debug_assertions, feature = "_peer"))]
#[path = "../common/all_calls.rs"]
mod all_calls;
mod convert;
mod coverage;
pub mod generator;
mod random_steps;
mod rare_steps;
pub mod reference;
mod restored_tasks;
mod schedules;
pub mod steps;
pub mod system;

use std::cell::Cell;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, RngSeed};
use proptest_state_machine::{StateMachineTest, prop_state_machine};
use tempfile::TempDir;
use tubewell::{Store, StoreOptions};

use generator::StepGenerator;
use reference::{Driver, NEVER, Options};
use steps::{
    Action, Among, ById, Choice, Definition, Group, Pick, Setup, Step, TaskTemplate, Workload,
};
use system::{OpenStore, StorePlace, System};

use crate::size::{Size, amount};
use crate::{options, stores};

/// Opens the store in a temporary folder, one for each run.
fn store_in_a_file() -> OpenStore {
    Box::new(Folder { folder: TempDir::new().unwrap(), kills: Cell::new(0) })
}

/// A folder with one file for each process that was killed, and that of the current one.
struct Folder {
    folder: TempDir,
    kills: Cell<u32>,
}

impl Folder {
    fn path(&self) -> PathBuf {
        self.folder.path().join(format!("{}.tubewell", self.kills.get()))
    }
}

impl StorePlace for Folder {
    fn open(&self, options: StoreOptions) -> Store {
        options.open(self.path()).unwrap()
    }

    fn kill(&self) {
        let old = self.path();
        self.kills.set(self.kills.get() + 1);
        std::fs::copy(old, self.path()).unwrap();
    }
}

/// Runs the generated steps.
struct Library;

impl StateMachineTest for Library {
    type SystemUnderTest = System;
    type Reference = StepGenerator;

    fn init_test(setup: &Setup) -> System {
        System::new(setup, store_in_a_file())
    }

    fn apply(mut system: System, _: &Setup, step: Step) -> System {
        system.step(step);
        system
    }

    fn teardown(mut system: System, _: Setup) {
        system.finish();
    }
}

/// The cases are the same in every run, but those of a long one. Cases recorded in `regressions.txt` run
/// first.
fn config() -> ProptestConfig {
    let failures = FileFailurePersistence::Direct("tests/model/regressions.txt");
    let random = Size::of_this_run() == Size::Soak;
    ProptestConfig {
        cases: amount(64, 256, 100_000),
        failure_persistence: Some(Box::new(failures)),
        rng_seed: if random { RngSeed::Random } else { RngSeed::Fixed(1) },
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn library_matches_reference_model(sequential 20..120 => Library);
}

/// The tasks of a batch become visible together, so the most urgent one goes to the first taker.
#[test]
fn most_urgent_task_of_a_batch_goes_to_first_waiting_taker() {
    for driver in [Driver::Fifottl, Driver::Limfifottl, Driver::Utubettl] {
        let options = Options::default();
        let tubes = vec![Definition { driver, options, durability: None }];
        let mut system = System::new(
            &Setup { tubes, grace: 0, workload: Workload::MostlyWaits },
            store_in_a_file(),
        );
        let template =
            |priority| TaskTemplate { priority: Some(priority), ..TaskTemplate::default() };
        let templates = [3, 1, 0, 2].map(template).to_vec();
        for action in [
            Action::Wait { client: 1, tubes: vec![0], timeout: NEVER, keep: true },
            Action::Wait { client: 2, tubes: vec![0], timeout: NEVER, keep: true },
            Action::PutMany { client: 0, tube: 0, templates },
        ] {
            system.step(Step { action, poll: true });
        }
        system.finish();
    }
}

#[test]
fn callers_that_wait_for_the_end_of_a_task_learn_how_it_ended() {
    for (driver, verb) in [
        (Driver::Fifo, ById::Ack),
        (Driver::Utube, ById::Bury),
        (Driver::Fifottl, ById::Fail { delay: None, group: Group::Timeout }),
        (Driver::Limfifottl, ById::Delete),
        (Driver::Utubettl, ById::Release { delay: 0 }),
    ] {
        let options = Options { max_attempts: Some(1), ..Options::default() };
        let tubes = vec![Definition { driver, options, durability: None }];
        let mut system = System::new(
            &Setup { tubes, grace: 0, workload: Workload::MostlyWaits },
            store_in_a_file(),
        );
        let pick = |among| Pick { tube: 0, among, index: Choice(0) };
        let wait = || Action::WaitDone { pick: pick(Among::EverPut), waits: true };
        let (template, held) = (TaskTemplate::default(), pick(Among::Held));
        for action in [
            wait(),
            Action::Put { client: 0, tube: 0, template: template.clone(), deferred: false },
            wait(),
            Action::Take { client: 0, tube: 0, keep: false },
            wait(),
            Action::ById { client: 0, pick: held, verb, deferred: false },
            wait(),
            Action::Put { client: 0, tube: 0, template, deferred: false },
            Action::WaitDone { pick: pick(Among::Present), waits: true },
            Action::Truncate { tube: 0 },
        ] {
            system.step(Step { action, poll: true });
        }
        system.finish();
    }
}
