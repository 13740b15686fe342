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

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod convert;
mod generator;
mod reference;
mod steps;
mod system;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, RngSeed, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use tempfile::TempDir;
use tubewell::{Durability, Store, StoreOptions};

use generator::StepGenerator;
use reference::{Cause, Counting, Driver, NEVER, Options, Stage, Transition, Verb};
use steps::{
    Action, Among, ByClaim, ById, Choice, ClockMove, Definition, Group, Pick, Setup, Step,
    TaskTemplate, Workload,
};
use system::{OpenStore, StorePlace, System};

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

/// `PROPTEST_CASES` sets the number of cases and makes them different in each run. Without it the
/// cases are always the same. Cases recorded in `regressions.txt` run first.
fn config() -> ProptestConfig {
    let failures = FileFailurePersistence::Direct("tests/model/regressions.txt");
    let random = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
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
        let template = |pri| TaskTemplate { pri: Some(pri), ..TaskTemplate::default() };
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

/// All state transitions that a task of this driver can make.
fn expected_transitions(driver: Driver) -> BTreeSet<Transition> {
    use Stage::{Buried, Delayed, Done, Parked, Ready, Taken};
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
        // In a driver that is not timed only resumed claims have a time.
        (Some(Taken), verb(Verb::Ttr), Ready),
        (Some(Taken), verb(Verb::Release), Ready),
        (Some(Taken), Cause::ClaimDropped, Ready),
        (Some(Taken), Cause::SessionEnded, Ready),
        (Some(Taken), Cause::ReleaseAll, Ready),
        (Some(Taken), verb(Verb::Checkpoint), Taken),
        (Some(Taken), Cause::Revoked, Ready),
        (Some(Taken), Cause::Reopened, Ready),
        (Some(Taken), Cause::Reopened, Done),
        (Some(Taken), verb(Verb::Bury), Buried),
        (Some(Taken), verb(Verb::Delete), Done),
        (Some(Taken), Cause::Truncated, Done),
        (Some(Taken), Cause::Parked, Parked),
        (Some(Taken), Cause::Reopened, Parked),
        (Some(Parked), Cause::Resumed, Taken),
        (Some(Parked), Cause::Reopened, Parked),
        (Some(Parked), Cause::Reopened, Done),
        (Some(Parked), Cause::ReleaseAll, Ready),
        (Some(Parked), Cause::Revoked, Ready),
        (Some(Parked), verb(Verb::Ttr), Ready),
        (Some(Parked), verb(Verb::Bury), Buried),
        (Some(Parked), verb(Verb::Delete), Done),
        (Some(Parked), Cause::Truncated, Done),
        (Some(Buried), verb(Verb::Kick), Ready),
        (Some(Buried), Cause::AlreadyBuried, Buried),
        (Some(Buried), verb(Verb::Delete), Done),
        (Some(Buried), Cause::Truncated, Done),
        (Some(Buried), Cause::TubeDropped, Done),
        (Some(Buried), Cause::Reopened, Done),
    ];
    all.extend(expected_transitions_of_attempts(driver));
    all.extend(expected_transitions_of_outcomes(driver));
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
            (Some(Ready), verb(Verb::Ttl), Done),
            (Some(Taken), verb(Verb::Ttl), Done),
            (Some(Parked), verb(Verb::Ttl), Done),
            (Some(Buried), verb(Verb::Ttl), Done),
        ]);
    }
    if driver.bounded() {
        all.extend([(None, Cause::PutAfterWait, Ready), (None, Cause::PutAfterWait, Delayed)]);
    }
    all.into_iter().map(|(from, cause, to)| (driver, from, cause, to)).collect()
}

/// Those that depend on how many attempts a task has left, and those of killed processes.
fn expected_transitions_of_attempts(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Buried, Delayed, Parked, Ready, Taken};
    let verb = Cause::Verb;
    let all = [
        (Taken, verb(Verb::Fail), Ready),
        (Taken, verb(Verb::Fail), Buried),
        (Taken, verb(Verb::Snooze), Ready),
        (Taken, verb(Verb::Release), Buried),
        (Taken, verb(Verb::Ttr), Buried),
        (Taken, verb(Verb::Lost), Ready),
        (Taken, verb(Verb::Lost), Buried),
        (Taken, Cause::ClaimDropped, Buried),
        (Taken, Cause::SessionEnded, Buried),
        (Taken, Cause::ReleaseAll, Buried),
        (Taken, Cause::RevokeAll, Ready),
        (Taken, Cause::Reopened, Buried),
        (Taken, Cause::Killed, Ready),
        (Taken, Cause::Killed, Parked),
        (Parked, verb(Verb::Ttr), Buried),
        (Parked, Cause::ReleaseAll, Buried),
        (Parked, Cause::RevokeAll, Ready),
        (Parked, Cause::Killed, Parked),
        (Ready, Cause::SpentAtTake, Buried),
    ];
    let timed = [
        (Taken, verb(Verb::Fail), Delayed),
        (Taken, verb(Verb::Snooze), Delayed),
        (Taken, verb(Verb::Ttr), Delayed),
        (Taken, verb(Verb::Lost), Taken),
        (Taken, verb(Verb::Lost), Delayed),
        (Taken, Cause::SessionEnded, Delayed),
        (Parked, verb(Verb::Ttr), Delayed),
    ];
    let timed = timed.into_iter().filter(move |_| driver.timed());
    all.into_iter().chain(timed).map(|(from, cause, to)| (Some(from), cause, to))
}

/// Those of resolved tasks, and of tasks that are kept after their end.
fn expected_transitions_of_outcomes(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Buried, Delayed, Done, Kept, Ready, Taken};
    let verb = Cause::Verb;
    let all = [
        (Taken, verb(Verb::Ack), Kept),
        (Ready, verb(Verb::Resolve), Kept),
        (Ready, verb(Verb::Resolve), Done),
        (Buried, verb(Verb::Resolve), Kept),
        (Buried, verb(Verb::Resolve), Done),
        (Buried, Cause::Aged, Done),
        (Buried, Cause::Trimmed, Done),
        (Kept, verb(Verb::Forget), Done),
        (Kept, verb(Verb::Delete), Done),
        (Kept, Cause::Aged, Done),
        (Kept, Cause::Trimmed, Done),
        (Kept, Cause::Truncated, Done),
        (Kept, Cause::TubeDropped, Done),
        (Kept, Cause::Reopened, Done),
    ];
    let timed = [(Delayed, verb(Verb::Resolve), Kept), (Delayed, verb(Verb::Resolve), Done)];
    let timed = timed.into_iter().filter(move |_| driver.timed());
    all.into_iter().chain(timed).map(|(from, cause, to)| (Some(from), cause, to))
}

/// Steps to transitions that need several steps in a row on the same task. A kill after a checkpoint
/// leaves a ready task without an attempt left, since takes that are counted lazily are stored with
/// it. Parked claims end in several ways, some of them with the last attempt of their task.
fn steps_to_rare_transitions(driver: Driver) -> (Setup, Vec<Step>) {
    let tube = |counting| {
        let options = Options { max_attempts: Some(1), counting, ..Options::default() };
        Definition { driver, options, durability: None }
    };
    let unlimited = Definition { driver, options: Options::default(), durability: None };
    let tubes = vec![tube(Counting::Lazily), tube(Counting::Written), unlimited];
    let setup = Setup { tubes, grace: 0, workload: Workload::MostlyParks };
    let first = Choice(0);
    let put =
        |tube| Action::Put { client: 0, tube, template: TaskTemplate::default(), deferred: false };
    let take = |tube| Action::Take { client: 0, tube, keep: true };
    let by_claim = |verb| Action::ByClaim { claim: first, verb };
    let park = |hold| by_claim(ByClaim::Park { hold, deferred: false });
    let resume = |keep| Action::ResumeClaim { client: 0, token: first, any: false, keep };
    let kill = Action::Kill { dead_for: ClockMove::By(0) };
    let advance = Action::Advance { by: ClockMove::By(1000) };
    let release_all = |tube| Action::ReleaseAll { tube, forgive: false };
    let snooze = by_claim(ByClaim::Snooze { delay: 0, deferred: false });
    let actions = [
        put(0),
        take(0),
        by_claim(ByClaim::Checkpoint { size: 3, deferred: false }),
        kill.clone(),
        take(0),
        put(1),
        take(1),
        park(NEVER),
        release_all(1),
        put(1),
        take(1),
        park(1000),
        resume(false),
        advance.clone(),
        put(2),
        take(2),
        park(NEVER),
        resume(true),
        kill,
        Action::Truncate { tube: 2 },
        put(2),
        take(2),
        park(NEVER),
        release_all(2),
        take(2),
        park(1000),
        resume(false),
        advance,
        take(2),
        park(NEVER),
        Action::ReleaseAll { tube: 2, forgive: true },
        take(2),
        snooze,
        put(1),
        take(1),
        release_all(1),
    ];
    (setup, actions.map(|action| Step { action, poll: true }).to_vec())
}

/// The generated steps reach every transition of every driver, and the model makes no other
/// transition. The cases are the same in every run.
#[test]
fn generated_steps_cover_every_transition_of_every_driver() {
    const CASES: usize = 600;
    let mut runner = TestRunner::deterministic();
    let steps = StepGenerator::sequential_strategy(100);
    let mut met = BTreeSet::new();
    let generated = (0..CASES).map(|_| {
        let (setup, steps, _) = steps.new_tree(&mut runner).unwrap().current();
        (setup, steps)
    });
    for (setup, steps) in Driver::ALL.map(steps_to_rare_transitions).into_iter().chain(generated) {
        // Relaxed durability saves flushes, which this test does not check.
        let mut system =
            System::with_durability(&setup, store_in_a_file(), Durability::relaxed(), 50);
        for step in steps {
            system.step(step);
        }
        system.finish();
        met.extend(system.transitions().iter().copied());
    }
    let all: BTreeSet<Transition> =
        Driver::ALL.into_iter().flat_map(expected_transitions).collect();
    let missed: Vec<_> = all.difference(&met).collect();
    let unknown: Vec<_> = met.difference(&all).collect();
    assert!(
        missed.is_empty() && unknown.is_empty(),
        "not covered: {missed:?}, unexpected: {unknown:?}"
    );
}
