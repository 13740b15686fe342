//! Outages, crashes and closes; the comparison with the model, and what must be left after them.

use std::collections::BTreeSet;
use std::time::Duration;

use tubewell::{TaskInfo, TaskState};

use super::gates::Gates;
use super::{KEYS, NAMES, NEVER, Simulation, Status, TUBES, Task, body};
use crate::model::Micros;
use crate::seeds::Checked;
use crate::simulator::micros;
use crate::world::Upset;

const STATES: [(TaskState, Status); 4] = [
    (TaskState::Ready, Status::Ready),
    (TaskState::Taken, Status::Taken),
    (TaskState::Buried, Status::Buried),
    (TaskState::Done, Status::Done),
];

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        if upset != Upset::Outage {
            self.release_taken();
        }
        self.world.settle();
        if self.are_gates_unknown {
            self.gates = self.read_gates();
        }
        let mut lost = std::mem::take(&mut self.unknown);
        let unflushed = std::mem::take(&mut self.unflushed);
        if upset.is_power_cut() {
            lost.extend(unflushed);
        }
        let was_sure = !self.world.is_unsure && lost.is_empty() && !self.are_gates_unknown;
        self.are_gates_unknown = false;
        if was_sure {
            self.world.cover("exact");
            return self.compare();
        }
        self.world.cover("learned");
        let found: Vec<(u64, Task)> = (0..TUBES).flat_map(|nth| self.read_tube(nth)).collect();
        self.learn_token_puts(&found, |id| lost.contains(&id));
        for (id, task) in self.tasks.iter_mut().filter(|(id, _)| lost.contains(id)) {
            let new = found.iter().find(|(of, _)| of == id).map(|(_, task)| *task);
            *task = new.unwrap_or(Task { status: None, ..*task });
        }
        for (id, task) in found {
            // A put that was not answered may have taken place, and a take may have failed.
            let known = self.tasks.entry(id).or_insert(task);
            let is_claim = |status| matches!(status, Some(Status::Ready | Status::Taken));
            if is_claim(known.status) && is_claim(task.status) {
                known.status = task.status;
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let stored = self.tasks.iter().filter(|(_, task)| task.status.is_some());
        for nth in 0..TUBES {
            let mut found = self.read_tube(nth);
            found.sort_by_key(|(id, _)| *id);
            let of_tube = stored.clone().filter(|(_, task)| task.tube == nth);
            let expected: Vec<(u64, Task)> = of_tube.map(|(id, task)| (*id, *task)).collect();
            assert_eq!(found, expected, "tube {nth}, {:?}", self.policies[nth]);
        }
        for key in KEYS {
            let found = self.world.store.by_key(key).unwrap();
            let found = found.map(|found| (found.id, found.tube));
            let expected = self.by_key(key).map(|id| (id, self.tasks[&id].tube.to_string()));
            assert_eq!(found, expected, "the task with {key:?}");
        }
        assert_eq!(self.read_gates(), self.gates.at(self.world.now));
        for limit in self.world.store.admin().limits().unwrap() {
            let shared = (0..TUBES).find(|nth| self.policies[*nth].is_shared);
            let holders = shared.map_or(0, |nth| self.holders(nth, &limit.name));
            assert_eq!(limit.taken, holders, "{limit:?}");
        }
    }
}

impl Simulation {
    /// The claims have ended with the process.
    fn release_taken(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.status == Some(Status::Taken)) {
            task.status = Some(Status::Ready);
        }
    }

    /// The tasks of a tube.
    fn read_tube(&self, nth: usize) -> Vec<(u64, Task)> {
        let tube = &self.world.tubes[nth];
        let mut ids = BTreeSet::new();
        let mut tasks = Vec::new();
        for (state, status) in STATES {
            let listed: Vec<TaskInfo> = tube.query().list(state, None, 10_000).unwrap().items;
            for info in listed {
                assert!(ids.insert(info.id), "task {} is listed twice", info.id);
                let data =
                    String::from_utf8(tube.query().task(info.id).unwrap().body.to_vec()).unwrap();
                let version = data.trim_end().parse().unwrap();
                assert_eq!(data, body(version));
                let name = |wanted: &str| NAMES.into_iter().find(|name| *name == wanted);
                let key = info.key.map(|key| KEYS.into_iter().find(|it| **it == *key).unwrap());
                let sub_queue = name(info.sub_queue.as_deref().unwrap()).unwrap();
                let (status, priority) = (Some(status), info.priority);
                tasks
                    .push((info.id, Task { tube: nth, key, sub_queue, priority, status, version }));
            }
        }
        tasks
    }

    fn read_gates(&self) -> Gates {
        let until = |left: Option<Duration>| {
            left.map_or(NEVER, |left| self.world.now.saturating_add(Micros::from(micros(left))))
        };
        let mut gates = Gates::default();
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            let info = tube.info().unwrap();
            if info.paused {
                gates.tubes.insert(nth, until(info.resumes_in));
            }
            for paused in tube.query().paused_sub_queues().unwrap() {
                let name = NAMES.into_iter().find(|name| *name == paused.name).unwrap();
                gates.sub_queues.insert((nth, name), until(paused.resumes_in));
            }
        }
        for limit in self.world.store.admin().limits().unwrap() {
            let name = NAMES.into_iter().find(|name| *name == limit.name).unwrap();
            gates.limits.insert(name, limit.most);
        }
        gates
    }
}
