//! Outcomes: calls of any caller, and comparisons of how tasks have ended and of the failure
//! groups.

use tubewell::{Filter, Outcome, Receipt, Result, Tube};

use super::System;
use super::convert::agree;
use super::reference::{Stage, State, TaskNo};
use super::watches::ending_of;

impl System {
    /// Compares the failure groups of all tubes, and the ends of all tasks that are stored.
    #[track_caller]
    pub(super) fn check_outcomes(&self) {
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            let got = handle.query().groups().unwrap();
            let got: Vec<(String, u64)> = got.into_iter().map(|it| (it.name, it.count)).collect();
            assert_eq!(got, self.model.groups(*tube_no), "the failure groups of {}", tube.name);
            for (name, _) in got {
                let listed = self.tasks_of_group(&handle, &name);
                assert_eq!(listed, self.model.list_group(*tube_no, &name), "the group {name}");
            }
            for (no, task) in self.model.tasks(*tube_no) {
                if matches!(task.state(), State::Buried | State::Done) {
                    let want = self.model.ending(*tube_no, no);
                    let (got, want) = agree(handle.ending(self.ids[&no]), want).unwrap();
                    assert_eq!(got.map(ending_of), want, "the outcome of task {no}");
                }
                if task.stage() == Stage::Kept {
                    assert_eq!(handle.query().task(self.ids[&no]).unwrap().body, task.data);
                }
            }
        }
    }

    /// The tasks of a failure group, listed in pages.
    #[track_caller]
    fn tasks_of_group(&self, tube: &Tube, name: &str) -> Vec<TaskNo> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page =
                tube.query().list(Filter::new().group(name).newest_first(), after, 3).unwrap();
            assert!(page.items.len() <= 3);
            assert!(page.items.iter().all(|info| info.group.as_deref() == Some(name)));
            all.extend(page.items.iter().map(|info| self.number(info.id)));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }
}

/// The result of a task that is acked or resolved in a step.
pub(super) fn result_of(step: u64, size: usize) -> Vec<u8> {
    let mut result = format!("{step}.result").into_bytes();
    result.resize(size, b'*');
    result
}

pub(super) fn resolve(
    tube: &Tube,
    id: u64,
    result: Option<&[u8]>,
    deferred: bool,
) -> Result<Receipt> {
    let done = result.map_or_else(Outcome::done, Outcome::result);
    if deferred {
        tube.to_async().admin().resolve(id, done).wait()
    } else {
        tube.admin().resolve(id, done)
    }
}

pub(super) fn forget(tube: &Tube, id: u64, deferred: bool) -> Result<Receipt> {
    if deferred { tube.to_async().admin().forget(id).wait() } else { tube.admin().forget(id) }
}

pub(super) fn kick_task(tube: &Tube, id: u64, deferred: bool) -> Result<Receipt> {
    if deferred { tube.to_async().kick(id).wait() } else { tube.kick(id) }
}
