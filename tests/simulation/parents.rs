//! Tasks that wait for others under simulation, in tubes of every durability. While the disk works,
//! the tasks are those of a model. After a fault, a kill or a power cut, no task waits for one that
//! is over, and what has ended for its caller has not come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tubewell::{
    Claim, Durability, Error, FIFO, Filter, OnParent, Put, Result, TaskState, TubeOptions,
};

use crate::family::{End, Family, RULES, Task};
use crate::rng::Rng;
use crate::seeds::{Checked, Simulated, run_seeds};
use crate::world::{Upset, World, tube_of};

/// The key of a task that is put anew.
const KEY: &str = "again";

const STATES: [TaskState; 4] =
    [TaskState::Ready, TaskState::Taken, TaskState::Blocked, TaskState::Buried];

struct Simulation {
    world: World,
    durability: [Durability; 3],
    model: Family,
    /// The tasks whose end was answered, with their tubes.
    over: BTreeMap<u64, usize>,
    next: u64,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x0FA7;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        // In half of the runs a kill loses nothing that was answered.
        let durability = if rng.one_in(2) { [levels[0], levels[1], levels[0]] } else { levels };
        let options = durability.map(|durability| TubeOptions::new().durability(durability));
        Simulation {
            world: World::new(FIFO, options),
            durability,
            model: Family::default(),
            over: BTreeMap::new(),
            next: 0,
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        match rng.below(46) {
            0..12 => self.put(rng),
            12..18 => self.take(rng),
            18..25 => self.end_claim(rng),
            25..33 => self.administer(rng),
            33 => self.truncate(rng),
            34 => drop(self.world.store.flush()),
            35 => self.world.arm(rng),
            36..39 => self.crash(rng),
            39 => self.reopen(rng),
            40..42 => self.put_again(rng),
            42 => self.move_all(rng),
            43 => self.kick_where(rng),
            44 => self.delete_where(rng),
            _ => self.delete_many(rng),
        }
        // Children are told of the ends of their parents.
        self.world.clock.advance(Duration::ZERO);
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Checked for Simulation {
    fn compare(&self) {
        assert_eq!(self.found(), self.model.tasks);
    }

    fn learn(&mut self, upset: Upset) {
        let tasks = self.model.tasks.values_mut();
        // The claims have ended with the process.
        for task in tasks.filter(|task| upset != Upset::Outage && task.state == TaskState::Taken) {
            task.state = TaskState::Ready;
        }
        self.world.settle();
        self.over.retain(|_, nth| upset.keeps_all(self.durability[*nth]));
        let found = self.found();
        for (id, task) in &found {
            assert!(!self.over.contains_key(id), "{id} is back: {task:?}");
            for parent in &task.parents {
                assert!(found.contains_key(parent), "{task:?} waits for {parent}, which is over");
            }
            let is_blocked = task.state == TaskState::Blocked;
            assert!(is_blocked != task.parents.is_empty() || task.state == TaskState::Buried);
        }
        if !self.world.is_unsure
            && self.durability.into_iter().all(|durability| upset.keeps_all(durability))
        {
            self.world.cover("exact");
            assert_eq!(found, self.model.tasks);
        }
        self.model.tasks = found;
    }
}

impl Simulation {
    /// The answer of a call. `None` if the disk has failed: it may have taken place.
    fn done<T>(&mut self, verb: &'static str, answer: Result<T>) -> Option<T> {
        self.world.done(verb, answer).0
    }

    fn ids(&self) -> Vec<u64> {
        self.model.tasks.keys().copied().collect()
    }

    /// Some tasks to wait for; a few of them are over.
    fn some_ids(&mut self, rng: &mut Rng) -> Vec<u64> {
        let known = self.ids();
        let mut some = Vec::new();
        for _ in 0..rng.below(3) {
            if rng.one_in(8) && self.next > 0 {
                some.push(rng.below(self.next));
            } else if !known.is_empty() {
                some.push(rng.pick(&known));
            }
        }
        some
    }

    /// A task, and sometimes a crowd of them, after others.
    fn put(&mut self, rng: &mut Rng) {
        let (tube, of, ids, rule) =
            (rng.index(3), rng.index(3), self.some_ids(rng), rng.pick(&RULES));
        let count = if rng.one_in(30) { 100 } else { 1 };
        let put =
            Put::new(rule.to_string()).after(&self.world.tubes[of], ids.clone()).on_parent(rule);
        let answer = self.world.tubes[tube].put_many(vec![put; count]);
        let parents = self.model.open_of(&ids);
        let state = if parents.is_empty() { TaskState::Ready } else { TaskState::Blocked };
        let verb = if state == TaskState::Blocked { "put of a child" } else { "put" };
        for receipt in self.done(verb, answer).into_iter().flatten() {
            self.next = receipt.id + 1;
            assert!(self.world.is_unsure || receipt.state == state, "{receipt:?} after {ids:?}");
            let task = Task { tube, state, parents: parents.clone(), rule };
            self.model.tasks.insert(receipt.id, task);
        }
    }

    fn take(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let answer = self.world.tubes[nth].try_take();
        let Some(claim) = self.done("take", answer) else { return };
        let ready = |(_, task): &(&u64, &Task)| task.tube == nth && task.state == TaskState::Ready;
        let next = self.model.tasks.iter().find(ready).map(|(id, _)| *id);
        assert!(self.world.is_unsure || claim.as_ref().map(Claim::id) == next, "not the next task");
        let Some(claim) = claim else { return };
        assert!(!self.over.contains_key(&claim.id()), "task {} is over", claim.id());
        self.model.tasks.entry(claim.id()).and_modify(|task| task.state = TaskState::Taken);
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let nth = tube_of(&claim);
        let id = claim.id();
        if !claim.is_current().unwrap() || self.world.is_unsure {
            return drop(claim);
        }
        let is_parent = !self.model.children(id).is_empty();
        if rng.one_in(4) {
            if self.done("bury", claim.bury(None)).is_some() {
                self.model.end(id, End::Buried);
            }
            return;
        }
        let verb = if is_parent { "ack of a parent" } else { "ack" };
        if self.done(verb, claim.ack()).is_some() {
            self.over.insert(id, nth);
            self.model.end(id, End::Done);
        }
    }

    /// A call on one of the tasks that no consumer has taken.
    fn administer(&mut self, rng: &mut Rng) {
        let mut ids = self.ids();
        ids.retain(|id| self.model.tasks[id].state != TaskState::Taken);
        if ids.is_empty() || self.world.is_unsure {
            return;
        }
        let id = rng.pick(&ids);
        let Task { tube: nth, state, .. } = self.model.tasks[&id].clone();
        let tube = self.world.tubes[nth].clone();
        match rng.below(5) {
            0 => {
                let ids = self.some_ids(rng);
                let answer = tube.admin().add_parents(id, &self.world.tubes[0], &ids);
                let new = self.model.open_of(&ids);
                let is_refused =
                    matches!(answer, Err(Error::Cycle { .. } | Error::NotReady { .. }));
                if is_refused {
                    let is_cycle = new.iter().any(|parent| self.model.waits_for(*parent, id));
                    return assert!(is_cycle || state == TaskState::Buried, "{answer:?}");
                }
                if self.done("add_parents", answer).is_some() && !new.is_empty() {
                    let task = self.model.tasks.get_mut(&id).unwrap();
                    task.parents.extend(new);
                    task.state = TaskState::Blocked;
                }
            }
            1 => {
                if self.done("remove_parents", tube.admin().remove_parents(id, None)).is_some() {
                    let task = self.model.tasks.get_mut(&id).unwrap();
                    task.parents.clear();
                    if state == TaskState::Blocked {
                        task.state = TaskState::Ready;
                    }
                }
            }
            2 if state == TaskState::Buried => {
                if self.done("kick", tube.kick(id)).is_some() {
                    self.model.kick(id);
                }
            }
            3 => {
                let is_cancelled = rng.one_in(2) && state != TaskState::Taken;
                let (verb, answer) = if is_cancelled {
                    ("cancel", tube.cancel(id))
                } else {
                    ("delete", tube.delete(id))
                };
                if matches!(answer, Err(Error::HasDependents { .. })) {
                    return assert!(!self.model.children(id).is_empty());
                }
                if self.done(verb, answer).is_some() {
                    assert!(self.world.is_unsure || self.model.children(id).is_empty());
                    self.over.insert(id, nth);
                    self.model.tasks.remove(&id);
                }
            }
            _ if state == TaskState::Buried => {}
            _ => {
                if self.done("bury by id", tube.admin().bury(id, None)).is_some() {
                    self.model.end(id, End::Buried);
                }
            }
        }
    }

    /// Puts the task with the key, or puts it anew in any tube. It keeps its parents.
    fn put_again(&mut self, rng: &mut Rng) {
        let found = self.world.store.by_key(KEY);
        let Some(found) = self.done("by_key", found).filter(|_| !self.world.is_unsure) else {
            return;
        };
        let to = rng.index(3);
        let Some(old) = found.map(|found| found.id) else {
            let answer = self.world.tubes[to].put(Put::new(OnParent::Wait.to_string()).key(KEY));
            if let Some(receipt) = self.done("put with a key", answer) {
                self.next = receipt.id + 1;
                let (state, parents, rule) = (TaskState::Ready, BTreeSet::new(), OnParent::Wait);
                self.model.tasks.insert(receipt.id, Task { tube: to, state, parents, rule });
            }
            return;
        };
        let Some(task) = self.model.tasks.get_mut(&old) else { return };
        let is_blocked = !task.parents.is_empty();
        let rule = task.rule.to_string();
        let answer = self.world.tubes[to].requeue(KEY, rule);
        let state = if is_blocked { TaskState::Blocked } else { TaskState::Ready };
        if let Some(receipt) = self.done("requeue", answer) {
            assert_eq!((receipt.id, receipt.state), (old, state));
            self.model.tasks.entry(old).and_modify(|task| (task.tube, task.state) = (to, state));
        }
    }

    fn move_all(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let to = (nth + 1 + rng.index(2)) % 3;
        let answer = self.world.tubes[nth].admin().move_to(&self.world.tubes[to], Filter::new());
        if let Some(moved) = self.done("move_all", answer) {
            let mut tasks: Vec<&mut Task> =
                self.model.tasks.values_mut().filter(|task| task.tube == nth).collect();
            assert!(
                self.world.is_unsure || moved == tasks.len() as u64,
                "{moved} tasks have moved"
            );
            for task in &mut tasks {
                task.tube = to;
                if task.state == TaskState::Taken {
                    task.state = TaskState::Ready;
                }
            }
        }
    }

    fn kick_where(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let answer = self.world.tubes[nth].admin().kick(Filter::new().state(TaskState::Buried));
        if let Some(kicked) = self.done("kick_where", answer) {
            let buried = self.model.of(nth, TaskState::Buried);
            assert!(self.world.is_unsure || kicked == buried.len() as u64, "kicked {kicked}");
            for id in buried {
                self.model.kick(id);
            }
        }
    }

    fn delete_where(&mut self, rng: &mut Rng) {
        let (nth, state) = (rng.index(3), rng.pick(&[TaskState::Buried, TaskState::Blocked]));
        let ids = self.model.of(nth, state);
        // More than one step of the call may delete some of them before one is refused.
        if self.world.is_unsure || ids.len() > 500 {
            return;
        }
        let answer = self.world.tubes[nth].admin().delete(Filter::new().state(state));
        self.deleted("delete_where", nth, &ids, answer);
    }

    fn delete_many(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let ids: BTreeSet<u64> = self.some_ids(rng).into_iter().chain(self.some_ids(rng)).collect();
        if self.world.is_unsure {
            return;
        }
        let answer = self.world.tubes[nth].admin().delete(Filter::new().ids(&ids));
        let is_there = |id: &u64| self.model.tasks.get(id).is_some_and(|task| task.tube == nth);
        let ids: Vec<u64> = ids.into_iter().filter(is_there).collect();
        self.deleted("delete_many", nth, &ids, answer);
    }

    /// These tasks of a tube are deleted together, unless others wait for them.
    fn deleted(&mut self, verb: &'static str, nth: usize, ids: &[u64], answer: Result<u64>) {
        let mut waiting = ids.iter().flat_map(|id| self.model.children(*id));
        let are_waited_for = waiting.any(|child| !ids.contains(&child));
        if matches!(answer, Err(Error::HasDependents { .. })) {
            return assert!(are_waited_for, "{verb} of {ids:?} was refused");
        }
        if let Some(deleted) = self.done(verb, answer) {
            assert!(self.world.is_unsure || deleted == ids.len() as u64 && !are_waited_for);
            for id in ids {
                self.over.insert(*id, nth);
                self.model.tasks.remove(id);
            }
        }
    }

    fn truncate(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let answer = self.world.tubes[nth].admin().truncate();
        if self.done("truncate", answer).is_some() {
            self.model.truncate(nth);
        }
    }

    /// All tasks of the store.
    fn found(&self) -> BTreeMap<u64, Task> {
        let mut found = BTreeMap::new();
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            for state in STATES {
                for info in tube.query().list(state, None, 10_000).unwrap().items {
                    let body = tube.query().task(info.id).unwrap().body;
                    let rule = RULES.into_iter().find(|rule| body == rule.to_string());
                    let parents = BTreeSet::from_iter(tube.query().parents(info.id).unwrap());
                    assert_eq!(parents.len(), info.open_parents as usize);
                    let rule = rule.unwrap_or(OnParent::Wait);
                    found.insert(info.id, Task { tube: nth, state, parents, rule });
                }
            }
        }
        found
    }
}

#[test]
fn parents_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put of a child",
        "take",
        "ack of a parent",
        "bury",
        "bury by id",
        "kick",
        "delete",
        "cancel",
        "delete_many",
        "delete_where",
        "kick_where",
        "move_all",
        "put with a key",
        "requeue",
        "add_parents",
        "remove_parents",
        "truncate",
        "exact",
    ];
    run_seeds::<Simulation>("parents_match", &wanted);
}
