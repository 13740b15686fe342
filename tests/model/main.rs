//! The library against the reference model: random steps over all verbs, on tubes of all drivers in
//! a real file that is closed and opened again in between.
//!
//! A step names what it acts on by a choice, not by an id, and the choice is made when the step is
//! carried out, among what the model then knows: living tasks, held ones, and those long gone. So
//! a sequence keeps its meaning when steps are taken out of it. The model lives beside the library
//! and not with the generator because it follows the library where the specification leaves the
//! order of things open; see [`reference::Ties`].
//!
//! After every step every answer, every wake-up, the statistics, and every few steps all tasks, all
//! events and the file's own `verify` are compared.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod generator;
mod reference;
mod steps;
mod system;
mod words;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tempfile::TempDir;
use tubewell::Durability;

use generator::Steps;
use reference::{Cause, Driver, Mark, NEVER, Options, State, Verb};
use steps::{Action, Definition, Mood, Setup, Sketch, Step};
use system::{Home, System};

/// A folder of its own for each run.
fn in_a_file() -> Home {
    let folder = TempDir::new().unwrap();
    Box::new(move |options| options.open(folder.path().join("store.tubewell")).unwrap())
}

/// Carries them out.
struct Library;

impl StateMachineTest for Library {
    type SystemUnderTest = System;
    type Reference = Steps;

    fn init_test(setup: &Setup) -> System {
        System::new(setup, in_a_file())
    }

    fn apply(mut system: System, _: &Setup, step: Step) -> System {
        system.step(step);
        system
    }

    fn teardown(mut system: System, _: Setup) {
        system.finish();
    }
}

/// `PROPTEST_CASES` sets the number of cases, and they are others each time; without it they are
/// always the same. Those that failed once are tried first.
fn config() -> ProptestConfig {
    let failures = FileFailurePersistence::Direct("tests/model/regressions.txt");
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        failure_persistence: Some(Box::new(failures)),
        rng_seed: if asked { RngSeed::Random } else { RngSeed::Fixed(1) },
        ..ProptestConfig::default()
    }
}

prop_state_machine! {
    #![proptest_config(config())]

    #[test]
    fn the_library_answers_what_the_model_answers(sequential 20..120 => Library);
}

/// What becomes visible together is seen together: the most urgent goes to the first who waits.
#[test]
fn the_best_of_what_is_put_at_once_goes_to_the_first_who_waits() {
    for driver in [Driver::Fifottl, Driver::Limfifottl, Driver::Utubettl] {
        let options = Options::default();
        let tubes = vec![Definition { driver, options, relaxed: false }];
        let mut system = System::new(&Setup { tubes, grace: 0, mood: Mood::Waiting }, in_a_file());
        let draft = |pri| Sketch { pri: Some(pri), ..Sketch::default() };
        let drafts = [3, 1, 0, 2].map(draft).to_vec();
        for action in [
            Action::Wait { seat: 1, tubes: vec![0], timeout: NEVER, keep: true },
            Action::Wait { seat: 2, tubes: vec![0], timeout: NEVER, keep: true },
            Action::PutMany { seat: 0, tube: 0, drafts },
        ] {
            system.step(Step { action, look: true });
        }
        system.finish();
    }
}

/// All that can happen to a task of this driver.
fn transitions(driver: Driver) -> BTreeSet<Mark> {
    use State::{Buried, Delayed, Done, Ready, Taken};
    let verb = Cause::Verb;
    let mut all = vec![
        (None, verb(Verb::Put), Ready),
        (Some(Ready), verb(Verb::Take), Taken),
        (Some(Ready), verb(Verb::Bury), Buried),
        (Some(Ready), verb(Verb::Delete), Done),
        (Some(Ready), Cause::Truncated, Done),
        (Some(Ready), Cause::TubeDropped, Done),
        (Some(Ready), Cause::Reopened, Done),
        (Some(Taken), verb(Verb::Ack), Done),
        (Some(Taken), verb(Verb::Release), Ready),
        (Some(Taken), Cause::ClaimDropped, Ready),
        (Some(Taken), Cause::SessionEnded, Ready),
        (Some(Taken), Cause::ReleaseAll, Ready),
        (Some(Taken), Cause::Reopened, Ready),
        (Some(Taken), Cause::Reopened, Done),
        (Some(Taken), verb(Verb::Bury), Buried),
        (Some(Taken), verb(Verb::Delete), Done),
        (Some(Taken), Cause::Truncated, Done),
        (Some(Buried), verb(Verb::Kick), Ready),
        (Some(Buried), Cause::BuriedAlready, Buried),
        (Some(Buried), verb(Verb::Delete), Done),
        (Some(Buried), Cause::Truncated, Done),
        (Some(Buried), Cause::TubeDropped, Done),
        (Some(Buried), Cause::Reopened, Done),
    ];
    if driver.timed() {
        all.extend([
            (None, verb(Verb::Put), Delayed),
            (Some(Delayed), verb(Verb::Delay), Ready),
            (Some(Delayed), verb(Verb::Bury), Buried),
            (Some(Delayed), verb(Verb::Delete), Done),
            (Some(Delayed), Cause::Truncated, Done),
            (Some(Delayed), Cause::TubeDropped, Done),
            (Some(Delayed), Cause::Reopened, Done),
            (Some(Taken), verb(Verb::Release), Delayed),
            (Some(Taken), verb(Verb::Touch), Taken),
            (Some(Taken), Cause::Renewed, Taken),
            (Some(Taken), verb(Verb::Ttr), Ready),
            (Some(Ready), verb(Verb::Ttl), Done),
            (Some(Taken), verb(Verb::Ttl), Done),
            (Some(Buried), verb(Verb::Ttl), Done),
        ]);
    }
    if driver.bounded() {
        all.extend([(None, Cause::LetIn, Ready), (None, Cause::LetIn, Delayed)]);
    }
    all.into_iter().map(|(from, cause, to)| (driver, from, cause, to)).collect()
}

/// The steps that are chosen reach everything that the drivers do, and the model does nothing
/// else. The cases are always the same.
#[test]
fn every_transition_of_every_driver_is_met() {
    const CASES: usize = 400;
    let mut runner = TestRunner::deterministic();
    let steps = Steps::sequential_strategy(100);
    let mut met = BTreeSet::new();
    for _ in 0..CASES {
        let (setup, steps, _) = steps.new_tree(&mut runner).unwrap().current();
        // There is much to do, and little to learn from flushes here.
        let mut system = System::with(&setup, in_a_file(), Durability::relaxed(), 50);
        for step in steps {
            system.step(step);
        }
        system.finish();
        met.extend(system.marks().iter().copied());
    }
    let all: BTreeSet<Mark> = Driver::ALL.into_iter().flat_map(transitions).collect();
    let missed: Vec<_> = all.difference(&met).collect();
    let unknown: Vec<_> = met.difference(&all).collect();
    assert!(missed.is_empty() && unknown.is_empty(), "missed {missed:#?}, unknown {unknown:#?}");
}
