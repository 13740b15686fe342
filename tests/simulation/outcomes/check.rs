//! Comparison of all tasks with the model.

use tubewell::{Ending, Filter, TaskState};

use super::{GROUPS, Simulation, Status, group_of, listed, result};

impl Simulation {
    /// Compares everything with the model.
    pub(super) fn compare_all(&self) {
        for (nth, policy) in self.policies.iter().enumerate() {
            let tube = &self.world.tubes[nth];
            let at = format!("tube {nth}, {policy:?}, {:?}", self.tasks);
            let ready = self.of(nth, |status| *status == Status::Ready);
            assert_eq!(listed(tube, TaskState::Ready), ready, "{at}");
            let taken = self.of(nth, |status| *status == Status::Taken);
            assert_eq!(listed(tube, TaskState::Taken), taken, "{at}");
            let (done, mut buried) = (self.by_end(nth, true), self.by_end(nth, false));
            assert_eq!(listed(tube, TaskState::Done), done, "{at}");
            assert_eq!(tube.statistics().unwrap().tasks.kept, done.len() as u64, "{at}");
            for group in GROUPS {
                let mut of_group = buried.clone();
                of_group.retain(|id| group_of(*id) == group);
                of_group.reverse();
                let page = tube
                    .query()
                    .list(Filter::new().group(group).newest_first(), None, 10_000)
                    .unwrap();
                let got: Vec<u64> = page.items.iter().map(|task| task.id).collect();
                assert_eq!(got, of_group, "{group}, {at}");
                let count = tube.query().groups().unwrap().into_iter().find(|it| it.name == group);
                assert_eq!(count.map_or(0, |it| it.count), of_group.len() as u64, "{at}");
            }
            if policy.buried.is_none() {
                buried.sort_unstable();
            }
            assert_eq!(listed(tube, TaskState::Buried), buried, "{at}");
            for ((_, id), task) in self.tasks.range((nth, 0)..(nth + 1, 0)) {
                let outcome = tube.ending(*id).unwrap();
                let is_right = match (&outcome, task.status) {
                    (None, Some(Status::Ready | Status::Taken)) | (Some(Ending::Gone), None) => {
                        true
                    }
                    (Some(Ending::Buried { failure }), Some(Status::Buried(_))) => {
                        failure.as_ref().is_some_and(|it| it.group == group_of(*id))
                    }
                    (Some(Ending::Done { result: got }), Some(Status::Done(_, has_result))) => {
                        *got == has_result.then(|| result(*id).into_bytes())
                    }
                    _ => false,
                };
                assert!(is_right, "task {id}: {outcome:?}, {task:?}, {policy:?}");
            }
        }
    }
}
