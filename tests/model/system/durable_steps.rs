//! Durable steps, and comparisons of those that are stored.

use tubewell::{Claim, Error, Result, StepKind};

use super::convert::agree;
use super::reference::Holder;
use super::{HeldClaim, System};

impl System {
    /// Runs a step of a taken task, unless its claim has one of this name.
    pub(super) fn run_step(&mut self, held: HeldClaim, name: u8) {
        let (no, value) = (held.taken.task, self.steps);
        let holder = Holder { session: held.session, claim: Some(held.taken.claim) };
        if let Some(got) = run_step(&held.claim, name, value) {
            let want = self.model.run_step((held.tube, no), holder, name, value);
            if let Some((got, want)) = agree(got, want) {
                assert_eq!(got, want, "step {name} of task {no}");
            }
        }
        self.claims.insert(held.taken.claim, held);
    }

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
                let has_steps = handle.peek(id).unwrap().info.has_steps;
                assert_eq!(has_steps, !task.steps.is_empty(), "the steps of task {no}");
            }
        }
    }
}

/// Runs a step with this value; `None` if this claim has already a step of the name.
fn run_step(claim: &Claim, name: u8, value: u64) -> Option<Result<u64>> {
    match claim.step(&name_of(name), || Ok::<u64, Error>(value)) {
        Err(Error::Invalid { what }) if what.contains("named twice") => None,
        got => Some(got),
    }
}

fn name_of(name: u8) -> String {
    format!("step {name}")
}
