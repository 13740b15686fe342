//! Durable steps, and comparisons of those that are stored.

use tubewell::expert::StepKind;
use tubewell::{Claim, Error, Result};

use super::convert::{agree, two_refusals_apply};
use super::reference::Holder;
use super::steps::{SPAWNS, TaskTemplate};
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

    /// Puts a task as a step of a taken task, unless its claim has a step of this name.
    pub(super) fn spawn(
        &mut self,
        held: HeldClaim,
        name: u8,
        (to, template): &(usize, TaskTemplate),
    ) {
        if let Some((target, to_no, _)) = self.tube(0, *to) {
            let (put, draft) = self.draft(template, to_no, 0);
            let next_id = self.store.admin().next_id().unwrap();
            let holder = Holder { session: held.session, claim: Some(held.taken.claim) };
            let got = held.claim.spawn(&name_of(name), &target, put);
            if !is_named_twice(&got) {
                let parent = (held.tube, held.taken.task);
                let want = self.model.spawn(parent, holder, name, (to_no, &draft));
                if !two_refusals_apply(&got, &want)
                    && let Some((id, child)) = agree(got, want)
                {
                    if !self.ids.contains_key(&child) {
                        self.record_id(child, next_id);
                    }
                    assert_eq!(id, self.ids[&child], "the task of step {name}");
                }
            }
        }
        self.claims.insert(held.taken.claim, held);
    }

    /// Compares the steps of all tasks.
    #[track_caller]
    pub(super) fn check_steps(&self) {
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let id = self.ids[&no];
                let got = handle.query().steps(id).unwrap().into_iter().map(|step| {
                    let is_value = step.kind == StepKind::Value;
                    assert_eq!(is_value, step.spawned().is_none(), "{step:?}");
                    (step.spawned(), step.name)
                });
                let want = task.steps.iter().map(|(name, value)| {
                    let child = (*name >= SPAWNS).then(|| self.ids[value]);
                    (child, name_of(*name))
                });
                assert!(got.eq(want), "the steps of task {no}: {:?}", task.steps);
                let has_steps = handle.query().task(id).unwrap().info.has_steps;
                assert_eq!(has_steps, !task.steps.is_empty(), "the steps of task {no}");
            }
        }
    }
}

/// Runs a step with this value; `None` if this claim has already a step of the name.
fn run_step(claim: &Claim, name: u8, value: u64) -> Option<Result<u64>> {
    Some(claim.step(&name_of(name), || Ok::<u64, Error>(value))).filter(|it| !is_named_twice(it))
}

fn is_named_twice(answer: &Result<u64>) -> bool {
    matches!(answer, Err(Error::Invalid { what }) if what.contains("named twice"))
}

fn name_of(name: u8) -> String {
    if name < SPAWNS { format!("step {name}") } else { format!("task {name}") }
}
