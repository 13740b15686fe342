//! Random steps on a store of the suites, which may be a connection.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use proptest_state_machine::ReferenceStateMachine;
use tubewell::{Durability, StoreOptions};

use super::generator::StepGenerator;
use super::steps::{Action, Step};
use super::stores;
use super::system::System;

const CASES: usize = 16;
const STEPS: usize = 60;

/// A connection has no part in the end of its owner.
fn is_of_a_connection(step: &Step) -> bool {
    !matches!(step.action, Action::Reopen { .. } | Action::Kill { .. })
}

/// The cases are the same in every run.
#[test]
fn store_of_the_suites_matches_reference_model() {
    let mut runner = TestRunner::deterministic();
    let steps = StepGenerator::sequential_strategy(STEPS);
    for _ in 0..CASES {
        let (setup, steps, _) = steps.new_tree(&mut runner).unwrap().current();
        let open = |options: StoreOptions| stores::serve(options.open_in_memory().unwrap());
        let mut system = System::with_durability(&setup, Box::new(open), Durability::relaxed(), 10);
        for step in steps.into_iter().filter(is_of_a_connection) {
            system.step(step);
        }
        system.check_all();
    }
}
