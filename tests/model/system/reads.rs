//! Comparisons of calls that change nothing, or memory alone.

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{Filter, Tube};

use super::System;
use super::convert::{name_of, state_of};
use super::reference::{Holder, State, TaskNo, TubeNo};

impl System {
    /// Compares what tubes, claims and sessions say of themselves.
    #[track_caller]
    pub(super) fn check_reads(&self) {
        for (no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            let info = handle.info().unwrap();
            assert_eq!(
                (info.name, info.driver.as_str()),
                (tube.name.clone(), name_of(tube.driver))
            );
            self.check_waits_of_tube(*no, &handle);
            self.check_listed_bodies(*no, &handle);
        }
        self.check_held_claims();
        self.check_described_sessions();
    }

    #[track_caller]
    fn check_waits_of_tube(&self, no: TubeNo, handle: &Tube) {
        let open = [State::Ready, State::Taken, State::Delayed, State::Blocked];
        let is_drained = open.iter().all(|state| self.model.count(no, *state) == 0);
        assert_eq!(handle.wait_drained(Duration::ZERO).unwrap(), is_drained);
        if let Some(has_task) = self.model.has_task_for_take(no) {
            assert_eq!(handle.wait_ready(Duration::ZERO).unwrap(), has_task);
        }
    }

    /// Compares the bodies of all tasks, listed page by page.
    #[track_caller]
    fn check_listed_bodies(&self, no: TubeNo, handle: &Tube) {
        for state in
            [tubewell::TaskState::Ready, tubewell::TaskState::Taken, tubewell::TaskState::Buried]
        {
            let (mut got, mut after) = (BTreeMap::<TaskNo, Vec<u8>>::new(), None);
            loop {
                let page = handle.query().tasks(Filter::new().state(state), after, 40).unwrap();
                got.extend(
                    page.items.into_iter().map(|it| (self.number(it.info.id), it.body.to_vec())),
                );
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let tasks = self.model.tasks(no).filter(|(_, task)| task.state() == state_of(state));
            let want = tasks.map(|(no, task)| (no, task.data.clone()));
            assert_eq!(got, want.collect(), "the {state:?} tasks");
        }
    }

    /// Compares which handles of claims stand, who has them, and what their holders report.
    #[track_caller]
    fn check_held_claims(&self) {
        for held in self.claims.values() {
            let (no, id) = (held.taken.task, held.claim.id());
            let holder = Holder { session: held.session, claim: Some(held.taken.claim) };
            let stands = self.model.has_claim(held.tube, no, holder);
            assert_eq!(held.claim.progress(self.steps, id).is_ok(), stands, "task {no}");
            let text = format!("step {}", self.steps);
            assert_eq!(held.claim.progress_text(&text).is_ok(), stands, "task {no}");
            let owner = held.claim.owner().unwrap();
            assert_eq!(owner.is_some(), stands, "the owner of task {no}");
            if !stands {
                continue;
            }
            let handle = self.store.find_tube(held.claim.tube()).unwrap();
            assert_eq!(owner, handle.query().owner(id).unwrap());
            assert_eq!(held.claim.steps().unwrap(), handle.query().steps(id).unwrap());
            let progress = handle.query().task(id).unwrap().info.progress.unwrap();
            assert_eq!((progress.done, progress.total), (self.steps, id));
            assert_eq!(progress.text.as_deref(), Some(text.as_str()));
        }
    }

    /// Compares how many claims each session has, and what it has said of itself.
    #[track_caller]
    fn check_described_sessions(&self) {
        let said = format!("step {}", self.steps);
        for client in &self.clients {
            let Some(session) = &client.session else { continue };
            session.describe("client", &said).unwrap();
            let owners = self.store.owners().unwrap();
            let owner = owners.iter().find(|owner| owner.session == client.id).unwrap();
            let about = (owner.kind.as_deref(), owner.metadata.as_deref());
            assert_eq!(about, (Some("client"), Some(said.as_str())));
            assert_eq!(owner.label.as_deref(), self.model.label(client.no));
            let has = |task: &super::reference::Task| {
                task.claim().is_some_and(|(_, session)| session == client.no)
            };
            let tasks = self.model.tubes().keys().flat_map(|tube| self.model.tasks(*tube));
            let want = tasks.filter(|(_, task)| has(task)).count() as u64;
            assert_eq!(owner.running + owner.overdue + owner.parked, want);
        }
    }
}
