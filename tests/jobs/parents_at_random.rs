//! Random calls on tasks that wait for each other, in two tubes, compared with a model. In between
//! the store is closed or killed.

use std::collections::BTreeMap;

use tubewell::driver::{FIFO, UTUBE, UTUBETTL};
use tubewell::{Error, Store, TaskState, Tube, TubeOptions};

use super::family::{End, Family, RULES, Task};
use super::files::{after_a_kill, draft};
use super::rng::Rng;
use super::support::*;
use crate::size::amount;
use crate::stores;

struct Run {
    rng: Rng,
    driver: &'static str,
    temporary: bool,
    file: StoreFile,
    store: Store,
    tubes: [Tube; 2],
    model: Family,
    next: u64,
}

impl Run {
    fn new(seed: u64, driver: &'static str) -> Run {
        let mut rng = Rng::new(seed);
        let temporary = rng.one_in(5);
        let (file, options) = (StoreFile::new(), TubeOptions::new().temporary(temporary));
        let store = file.open();
        let create = |name| store.create_tube(name, options.clone().driver(driver)).unwrap();
        let tubes = ["a", "b"].map(create);
        Run { rng, driver, temporary, file, store, tubes, model: Family::default(), next: 0 }
    }

    /// A task that is not over.
    fn any(&mut self) -> Option<(u64, Task)> {
        let ids: Vec<u64> = self.model.tasks.keys().copied().collect();
        let id = *ids.get(self.rng.index(ids.len().max(1)))?;
        Some((id, self.model.tasks[&id].clone()))
    }

    /// Some ids of tasks, most of which are not over.
    fn some_ids(&mut self) -> Vec<u64> {
        let mut ids = Vec::new();
        for _ in 0..self.rng.below(4) {
            ids.extend(self.any().map(|(id, _)| id));
            if self.rng.one_in(8) && self.next > 0 {
                ids.push(self.rng.below(self.next));
            }
        }
        ids
    }

    fn put(&mut self) {
        let (tube, of, ids) = (self.rng.index(2), self.rng.index(2), self.some_ids());
        let rule = self.rng.pick(&RULES);
        let put = draft(self.driver, &format!("{}", self.rng.below(5)));
        let put = put.after(&self.tubes[of], ids.clone()).on_parent(rule);
        let receipt = self.tubes[tube].put(put).unwrap();
        let parents = self.model.open_of(&ids);
        let state = if parents.is_empty() { TaskState::Ready } else { TaskState::Blocked };
        assert_eq!(receipt.state, state);
        self.next = receipt.id + 1;
        self.model.tasks.insert(receipt.id, Task { tube, state, parents, rule });
    }

    fn add_parents(&mut self, id: u64, task: &Task) {
        let (of, ids) = (self.rng.index(2), self.some_ids());
        let added = self.tubes[task.tube].admin().add_parents(id, &self.tubes[of], &ids);
        let open = self.model.open_of(&ids);
        let is_new = |parent: &&u64| !task.parents.contains(parent);
        if task.state == TaskState::Buried {
            assert!(matches!(added, Err(Error::NotReady { state: TaskState::Buried, .. })));
        } else if open.iter().filter(is_new).any(|parent| self.model.waits_for(*parent, id)) {
            assert_eq!(added, Err(Error::Cycle { id }));
        } else {
            let task = self.model.tasks.get_mut(&id).unwrap();
            task.parents.extend(open);
            if !task.parents.is_empty() {
                task.state = TaskState::Blocked;
            }
            assert_eq!(added.unwrap().state, task.state);
        }
    }

    fn remove_parents(&mut self, id: u64) {
        let ids = self.some_ids();
        let ids = (!self.rng.one_in(3)).then_some(&*ids);
        let task = self.model.tasks.get_mut(&id).unwrap();
        task.parents.retain(|parent| ids.is_some_and(|ids| !ids.contains(parent)));
        if task.parents.is_empty() && task.state == TaskState::Blocked {
            task.state = TaskState::Ready;
        }
        let state = task.state;
        let removed = self.tubes[task.tube].admin().remove_parents(id, ids);
        assert_eq!(removed.unwrap().state, state);
    }

    /// A call on a task.
    fn call(&mut self, id: u64, task: &Task) {
        let tube = &self.tubes[task.tube];
        match self.rng.below(9) {
            0 => self.add_parents(id, task),
            1 => self.remove_parents(id),
            2 => {
                assert_eq!(tube.admin().bury(id, None).unwrap().state, TaskState::Buried);
                if task.state != TaskState::Buried {
                    self.model.end(id, End::Buried);
                }
            }
            3 => match tube.delete(id) {
                Ok(_) => {
                    assert_eq!(self.model.children(id), [0; 0]);
                    self.model.tasks.remove(&id);
                }
                Err(refused) => {
                    let count = self.model.children(id).len() as u64;
                    assert!(count > 0);
                    assert_eq!(refused, Error::HasDependents { id, count });
                }
            },
            4 => {
                tube.admin().resolve(id, ()).unwrap();
                self.model.end(id, End::Done);
            }
            5 if task.state == TaskState::Buried => {
                let is_blocked = !task.parents.is_empty();
                let state = if is_blocked { TaskState::Blocked } else { TaskState::Ready };
                assert_eq!(tube.kick(id).unwrap().state, state);
                self.model.tasks.get_mut(&id).unwrap().state = state;
            }
            _ => match tube.claim(id) {
                Ok(claim) => {
                    assert_eq!(task.state, TaskState::Ready);
                    claim.ack().unwrap();
                    self.model.end(id, End::Done);
                }
                Err(Error::NotReady { state, .. }) => {
                    assert_eq!(state, task.state);
                    assert_ne!(state, TaskState::Ready);
                }
                Err(error) => panic!("{error:?}"),
            },
        }
    }

    fn truncate(&mut self) {
        let tube = self.rng.index(2);
        self.tubes[tube].admin().truncate().unwrap();
        self.model.truncate(tube);
    }

    fn reopen(&mut self) {
        if self.rng.one_in(2) && !self.temporary {
            // The chores may not have been done.
            let (killed_file, killed) = after_a_kill(&self.file);
            assert_sound(&killed);
            killed_file.clock.advance(ZERO);
            check(&self.model, &["a", "b"].map(|name| killed.find_tube(name).unwrap()));
            assert_sound(&killed);
            return;
        }
        stores::close(&self.store);
        self.store = self.file.open();
        self.tubes = ["a", "b"].map(|name| self.store.find_tube(name).unwrap());
        // An open after a close goes on with the ids.
        if self.temporary {
            self.model.tasks.clear();
        }
    }

    fn step(&mut self) {
        match (self.rng.below(40), self.any()) {
            (0, _) => self.truncate(),
            (1, _) => self.reopen(),
            (2..=14, _) | (_, None) => self.put(),
            (_, Some((id, task))) => self.call(id, &task),
        }
        if self.rng.one_in(3) {
            assert_sound(&self.store);
        }
        if self.rng.one_in(20) {
            self.reopen();
        }
        self.file.clock.advance(ZERO);
        check(&self.model, &self.tubes);
    }
}

/// Compares all tasks with the model.
fn check(model: &Family, tubes: &[Tube; 2]) {
    for (id, task) in &model.tasks {
        let tube = &tubes[task.tube];
        let info = tube.query().task(*id).unwrap().info;
        assert_eq!(
            (info.state, info.open_parents as usize),
            (task.state, task.parents.len()),
            "{id}"
        );
        let parents: Vec<u64> = task.parents.iter().copied().collect();
        assert_eq!(tube.query().parents(*id).unwrap(), parents);
        assert_eq!(tube.query().children(*id).unwrap(), model.children(*id));
    }
    for (number, tube) in tubes.iter().enumerate() {
        let counts = tube.statistics().unwrap().tasks;
        let of = |state: TaskState| {
            let tasks = model.tasks.values().filter(|task| task.tube == number);
            tasks.filter(|task| task.state == state).count() as u64
        };
        let expected = [TaskState::Ready, TaskState::Blocked, TaskState::Buried].map(of);
        assert_eq!([counts.ready, counts.blocked, counts.buried], expected);
        assert_eq!(counts.total, expected.iter().sum::<u64>());
    }
}

#[test]
fn random_calls_on_tasks_with_parents_agree_with_the_model() {
    let mut seen = BTreeMap::new();
    for seed in 0..amount(2, 7, 2000) {
        for driver in [FIFO, UTUBE, UTUBETTL] {
            println!("seed {seed}, driver {driver}");
            let mut run = Run::new(seed, driver);
            for _ in 0..120 {
                run.step();
                for task in run.model.tasks.values() {
                    *seen.entry((task.state, task.parents.len().min(3))).or_insert(0) += 1;
                }
            }
            assert_sound(&run.store);
        }
    }
    for (state, parents) in [
        (TaskState::Ready, 0),
        (TaskState::Blocked, 1),
        (TaskState::Blocked, 3),
        (TaskState::Buried, 0),
        (TaskState::Buried, 2),
    ] {
        assert!(seen[&(state, parents)] > amount(10, 100, 100), "{seen:?}");
    }
}
