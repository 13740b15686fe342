//! Which transitions the generated steps reach.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use proptest_state_machine::ReferenceStateMachine;
use tubewell::Durability;

use super::generator::StepGenerator;
use super::rare_steps::rare_steps;
use super::reference::{Cause, Driver, Stage, Transition, Verb};
use super::store_in_a_file;
use super::system::System;
use crate::size::amount;

/// The generated steps reach every transition of every driver, and the model makes no other
/// transition. The cases are the same in every run, and the quick ones reach all: other cases are those of
/// `library_matches_reference_model`.
#[test]
fn generated_steps_cover_every_transition_of_every_driver() {
    const THREADS: usize = 2;
    let mut runner = TestRunner::deterministic();
    let steps = StepGenerator::sequential_strategy(100);
    let generated = (0..amount(150, 150, 20_000)).map(|_| {
        let (setup, steps, _) = steps.new_tree(&mut runner).unwrap().current();
        (setup, steps)
    });
    let cases = Mutex::new(rare_steps().chain(generated).collect::<Vec<_>>().into_iter());
    let met = Mutex::new(BTreeSet::new());
    #[cfg(all(debug_assertions, feature = "_peer"))]
    let calls = Mutex::new(BTreeSet::new());
    let run_cases = || {
        loop {
            let next = cases.lock().unwrap().next();
            let Some((setup, steps)) = next else { break };
            // Relaxed durability saves flushes, which this test does not check.
            let mut system =
                System::with_durability(&setup, store_in_a_file(), Durability::relaxed(), 50);
            for step in steps {
                system.step(step);
            }
            system.finish();
            met.lock().unwrap().extend(system.transitions().iter().copied());
        }
        #[cfg(all(debug_assertions, feature = "_peer"))]
        calls.lock().unwrap().extend(tubewell::calls::met());
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| _ = scope.spawn(run_cases)));
    let met = met.into_inner().unwrap();
    let all: BTreeSet<Transition> =
        Driver::ALL.into_iter().flat_map(expected_transitions).collect();
    let missed: Vec<_> = all.difference(&met).collect();
    let unknown: Vec<_> = met.difference(&all).collect();
    assert!(
        missed.is_empty() && unknown.is_empty(),
        "not covered: {missed:?}, unexpected: {unknown:?}"
    );
    #[cfg(all(debug_assertions, feature = "_peer"))]
    super::all_calls::assert_all_met(&calls.into_inner().unwrap(), CALLS_OF_NO_STEP);
}

/// The calls that no step makes, with the reasons.
#[cfg(all(debug_assertions, feature = "_peer"))]
const CALLS_OF_NO_STEP: &[(&str, &str)] = &[
    ("Space", "changes and answers nothing; in waits for capacity: tests/parity"),
    ("IsTimed", "asked by workers: tests/worker"),
    ("ScrapeTubes", "counts and ages that other calls have, as a text: tests/prometheus"),
    ("PutOrWait", "`Action::PutWait` makes it, on a thread of its own"),
    ("Limit", "made by workers: tests/worker/limits.rs"),
    ("DescribeHeld", "asked through connections only: tests/served.rs"),
    ("Sleep", "the steps of the model are values and tasks: tests/worker"),
    ("Join", "the steps of the model are values and tasks: tests/worker"),
];

/// All state transitions that a task of this driver can make.
fn expected_transitions(driver: Driver) -> BTreeSet<Transition> {
    use Stage::{Buried, Delayed, Done, Parked, Ready, Taken};
    let verb = Cause::Verb;
    let mut all = vec![
        (None, verb(Verb::Put), Ready),
        (None, Cause::Restored, Ready),
        (None, Cause::Restored, Buried),
        (None, Cause::Restored, Stage::Kept),
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
        (Some(Taken), verb(Verb::Step), Taken),
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
    all.extend(expected_transitions_of_keys(driver));
    all.extend(expected_transitions_of_movement(driver));
    all.extend(expected_transitions_of_parents(driver));
    if driver.timed() {
        all.extend([
            (None, verb(Verb::Put), Delayed),
            (None, Cause::Restored, Delayed),
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
    all.extend(expected_transitions_of_edits(driver));
    all.extend(expected_transitions_of_logs(driver));
    all.extend(expected_transitions_of_moments(driver));
    all.extend(expected_transitions_of_schedules(driver));
    if driver.bounded() {
        all.extend([(None, Cause::PutAfterWait, Ready), (None, Cause::PutAfterWait, Delayed)]);
    }
    all.into_iter().map(|(from, cause, to)| (driver, from, cause, to)).collect()
}

/// Those of updates, of new priorities, and of edits of tags.
fn expected_transitions_of_edits(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Blocked, Buried, Delayed, Kept, Parked, Ready, Taken};
    let all = [Ready, Taken, Parked, Blocked, Buried, Kept].map(|stage| (stage, stage));
    let timed = [(Ready, Delayed), (Delayed, Delayed), (Delayed, Ready)];
    let timed = timed.into_iter().filter(move |_| driver.timed());
    all.into_iter().chain(timed).map(|(from, to)| (Some(from), Cause::Verb(Verb::Update), to))
}

/// Those of entries that a program adds to histories.
fn expected_transitions_of_logs(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Blocked, Buried, Delayed, Kept, Parked, Ready, Taken};
    let stages = [Ready, Taken, Parked, Delayed, Blocked, Buried, Kept];
    let stages = stages.into_iter().filter(move |stage| *stage != Delayed || driver.timed());
    stages.map(|stage| (Some(stage), Cause::Verb(Verb::Log), stage))
}

/// Those of tasks whose moment is ahead.
fn expected_transitions_of_moments(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Buried, Delayed, Parked, Taken};
    let any = [Cause::ReleaseAll, Cause::Revoked, Cause::RevokeAll];
    let of_taken = any.into_iter().chain([Cause::ClaimDropped, Cause::Reopened]);
    let of_taken = of_taken.map(|cause| (Taken, cause));
    let of_parked = any.map(|cause| (Parked, cause));
    let kicked = (Buried, Cause::Verb(Verb::Kick));
    let all = of_taken.chain(of_parked).chain([kicked]).filter(move |_| driver.timed());
    all.map(|(from, cause)| (Some(from), cause, Delayed))
}

/// Those of schedules, and of the tasks that they put.
fn expected_transitions_of_schedules(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Delayed, Done, Ready, Recurring};
    let verb = Cause::Verb;
    let runs = [Ready, Delayed].into_iter().filter(move |to| *to != Delayed || driver.timed());
    let runs = runs.map(move |to| (None, verb(Verb::Spawn), to));
    let begins = [Verb::Schedule, Verb::Move].map(|it| (None, verb(it), Recurring));
    let ends = [verb(Verb::Move), verb(Verb::Delete), Cause::ScheduleEnded].into_iter();
    let ends = ends.chain([Cause::Truncated, Cause::TubeDropped, Cause::Reopened]);
    let ends = ends.map(|cause| (Some(Recurring), cause, Done));
    let changed = (Some(Recurring), verb(Verb::Schedule), Recurring);
    runs.chain(begins).chain(ends).chain([changed])
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

/// Those of tasks that are put anew by their keys.
fn expected_transitions_of_keys(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Buried, Delayed, Kept, Parked, Ready, Taken};
    let all = [Ready, Taken, Parked, Buried, Kept].map(|from| (from, Ready));
    let timed = [Ready, Taken, Parked, Delayed, Buried, Kept].map(|from| (from, Delayed));
    let timed = timed.into_iter().chain([(Delayed, Ready)]).filter(move |_| driver.timed());
    let replaced = all.into_iter().chain(timed);
    let replaced = replaced.map(|(from, to)| (Some(from), Cause::Replaced, to));
    // Into another tube, where the task arrives first.
    replaced.chain([(Some(Kept), Cause::Verb(Verb::Move), Stage::Done)])
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

/// Those of tasks that leave their tube, and of tasks that enter one.
fn expected_transitions_of_movement(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Buried, Delayed, Done, Parked, Ready, Taken};
    let (moved, advanced) = (Cause::Verb(Verb::Move), Cause::Verb(Verb::Advance));
    let all = [
        (Some(Ready), moved, Done),
        (Some(Taken), moved, Done),
        (Some(Parked), moved, Done),
        (Some(Buried), moved, Done),
        (None, moved, Ready),
        (None, moved, Buried),
        (Some(Taken), advanced, Done),
        (None, advanced, Ready),
    ];
    let timed = [(Some(Delayed), moved, Done), (None, moved, Delayed), (None, advanced, Delayed)];
    all.into_iter().chain(timed.into_iter().filter(move |_| driver.timed()))
}

/// Those of tasks that wait for others.
fn expected_transitions_of_parents(
    driver: Driver,
) -> impl Iterator<Item = (Option<Stage>, Cause, Stage)> {
    use Stage::{Blocked, Buried, Delayed, Done, Kept, Parked, Ready, Taken};
    let verb = Cause::Verb;
    let begins = [
        (None, verb(Verb::Put), Blocked),
        (None, Cause::Restored, Blocked),
        (None, verb(Verb::Move), Blocked),
        (None, verb(Verb::Advance), Blocked),
    ];
    let changes = [
        (Ready, verb(Verb::Block), Blocked),
        (Blocked, verb(Verb::Block), Blocked),
        (Blocked, verb(Verb::Unblock), Ready),
        (Blocked, verb(Verb::Unblock), Blocked),
        (Buried, verb(Verb::Unblock), Buried),
        (Blocked, verb(Verb::Update), Blocked),
        (Buried, verb(Verb::Kick), Blocked),
    ];
    let ends = [
        (Blocked, verb(Verb::Bury), Buried),
        (Blocked, verb(Verb::Delete), Done),
        (Blocked, verb(Verb::Resolve), Done),
        (Blocked, verb(Verb::Resolve), Kept),
        (Blocked, verb(Verb::Move), Done),
        (Blocked, Cause::Truncated, Done),
        (Blocked, Cause::TubeDropped, Done),
        (Blocked, Cause::Reopened, Done),
    ];
    let ends_of_parents = [
        (Blocked, Cause::ParentDone, Ready),
        (Blocked, Cause::ParentLeft, Ready),
        (Blocked, Cause::ParentBuried, Buried),
        (Blocked, Cause::ParentGone, Buried),
    ];
    let replaced = [Ready, Taken, Parked, Blocked, Buried, Kept]
        .map(|from| (from, Cause::Replaced, Blocked))
        .into_iter()
        .chain([(Blocked, Cause::Replaced, Ready)]);
    let timed = [
        (Delayed, verb(Verb::Block), Blocked),
        (Blocked, verb(Verb::Unblock), Delayed),
        (Blocked, verb(Verb::Ttl), Done),
        (Blocked, Cause::ParentDone, Delayed),
        (Blocked, Cause::ParentLeft, Delayed),
        (Delayed, Cause::Replaced, Blocked),
        (Blocked, Cause::Replaced, Delayed),
    ];
    let timed = timed.into_iter().filter(move |_| driver.timed());
    let all = changes.into_iter().chain(ends).chain(ends_of_parents).chain(replaced).chain(timed);
    let after_wait = (None, Cause::PutAfterWait, Blocked);
    let begins = begins.into_iter().chain(Some(after_wait).filter(|_| driver.bounded()));
    begins.chain(all.map(|(from, cause, to)| (Some(from), cause, to)))
}
