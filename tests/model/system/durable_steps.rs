//! Durable steps, and comparisons of those that are stored.

use tubewell::{Claim, Error, Result, StepKind};

use super::System;

impl System {
    /// Compares the steps of all tasks.
    #[track_caller]
    pub(super) fn check_steps(&self) {
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let id = self.ids[&no];
                let got = handle.steps(id).unwrap().into_iter().map(|step| {
                    assert_eq!(step.kind, StepKind::Value);
                    step.name
                });
                let want = task.steps.keys().map(|name| name_of(*name));
                assert!(got.eq(want), "the steps of task {no}: {:?}", task.steps);
                let count = handle.peek(id).unwrap().info.steps as usize;
                assert_eq!(count, task.steps.len(), "the steps of task {no}");
            }
        }
    }
}

/// Runs a step with this value; `None` if this claim has already a step of the name.
pub(super) fn run_step(claim: &Claim, name: u8, value: u64) -> Option<Result<u64>> {
    match claim.step(&name_of(name), || Ok::<u64, Error>(value)) {
        Err(Error::Invalid { what }) if what.contains("named twice") => None,
        got => Some(got),
    }
}

fn name_of(name: u8) -> String {
    format!("step {name}")
}
