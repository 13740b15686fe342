//! What must be left of claims after outages, crashes and closes.

use std::collections::BTreeMap;

use tubewell::{Error, TaskState};

use super::{Holder, Parked, Simulation, Task, begin_sessions};
use crate::seeds::Checked;
use crate::world::Upset;

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        if upset != Upset::Outage {
            self.end_process();
        }
        self.world.settle();
        self.expire();
        let is_flushed = self.world.is_flushed;
        let keeps_all = |nth: usize| is_flushed || upset.keeps_all(self.durability[nth]);
        self.over.retain(|_, nth| keeps_all(*nth));
        let found = self.found();
        let lost = self.over.keys().find(|id| found.contains_key(id));
        assert_eq!(lost, None, "the task is back after {upset:?}");
        for (id, parked) in &self.parked {
            let Some(nth) = self.tasks.get(id).map(|task| task.tube) else { continue };
            if parked.until > self.world.now && keeps_all(nth) {
                let holder = found.get(id).and_then(|task| task.holder.as_ref());
                let stands = holder.is_some_and(|it| it.until == parked.until);
                assert!(stands, "{id} is not parked after {upset:?}: {holder:?}, {parked:?}");
                self.world.cover("stands after a crash");
            }
        }
        let is_exact = !self.world.is_unsure && self.unknown.is_empty() && (0..3).all(keeps_all);
        if is_exact {
            self.world.cover("exact");
            assert_eq!(found, self.tasks, "after {upset:?}");
        }
        self.learn_found(found);
    }

    fn compare(&self) {
        assert_eq!(self.found(), self.tasks);
        self.check_claims();
    }
}

impl Simulation {
    /// The sessions have ended with the process. The claims that were parked are parked again.
    fn end_process(&mut self) {
        self.sessions = begin_sessions(&self.world);
        for (id, task) in &mut self.tasks {
            let was_resumed = task.holder.as_ref().is_some_and(|holder| !holder.is_parked);
            task.holder = self.parked.get(id).map(Parked::holder);
            if was_resumed && task.holder.is_some() {
                self.world.cover("resumed claim is parked again");
            }
        }
    }

    fn learn_found(&mut self, found: BTreeMap<u64, Task>) {
        self.unknown.retain(|id| found.get(id).is_some_and(Task::is_held));
        let mut known = std::mem::take(&mut self.parked);
        for (id, task) in &found {
            let Some(holder) = &task.holder else { continue };
            let mut parked = known.remove(id).filter(|it| it.until == holder.until);
            if holder.is_parked {
                self.unknown.remove(id);
                let (label, until) = (holder.label.clone(), holder.until);
                parked = parked.or(Some(Parked { label, until, token: None }));
            }
            self.parked.extend(parked.map(|parked| (*id, parked)));
        }
        self.tasks = found;
    }

    /// All tasks of the store, with their owners.
    pub(super) fn found(&self) -> BTreeMap<u64, Task> {
        let mut found = BTreeMap::new();
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            for state in [TaskState::Ready, TaskState::Taken] {
                for info in tube.query().list(state, None, 10_000).unwrap().items {
                    let owner = tube.query().owner(info.id).unwrap();
                    assert_eq!(owner.is_some(), state == TaskState::Taken, "{owner:?} of {info:?}");
                    let holder = owner.map(|owner| self.holder(owner));
                    found.insert(info.id, Task { tube: nth, holder });
                }
            }
        }
        for (id, nth) in &self.over {
            if !found.contains_key(id) {
                let owner = self.world.tubes[*nth].query().owner(*id);
                assert!(matches!(owner, Err(Error::NotFound { .. })), "{owner:?}");
            }
        }
        found
    }
}

impl Task {
    fn is_held(&self) -> bool {
        self.holder.is_some()
    }
}

impl Parked {
    fn holder(&self) -> Holder {
        Holder { label: self.label.clone(), until: self.until, is_parked: true }
    }
}
