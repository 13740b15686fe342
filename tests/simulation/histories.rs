//! Tags and histories under simulation, in tubes of every durability that keep some entries of each
//! task. While the disk works, the tags and the histories are those of a model. After a fault, a
//! kill or a power cut, each task has the tags and the history of one of its changes: of the last
//! one that was answered, or of one after it.

mod recovery;

use std::collections::BTreeMap;

use tubewell::{Durability, EventKind, FIFO, Failure, Keep, Put, Result, TaskState, TubeOptions};

use crate::by_id;
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::World;

const TAGS: [&str; 4] = ["red", "blue", "green", "red and blue"];

#[derive(Clone, Copy, Debug)]
struct Policy {
    durability: Durability,
    /// How many entries the history of a task has.
    limit: usize,
    keeps_done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    number: u64,
    /// Microseconds since the beginning.
    at: u64,
    what: EventKind,
    state: TaskState,
    /// Of an entry of a program.
    text: Option<String>,
    tube: usize,
}

/// What is stored of a task. One that is taken is stored as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    tube: usize,
    state: TaskState,
    tags: Vec<String>,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Task {
    stored: Stored,
    is_taken: bool,
    /// How many entries there have been.
    total: u64,
    /// The take that is stored with the next change.
    take: Option<Entry>,
}

/// What a task was after each of its changes; `None` if it was removed.
#[derive(Clone, Debug, Default)]
struct Versions {
    all: Vec<Option<Stored>>,
    /// How many of them are flushed, and how many are written, at least.
    flushed: usize,
    written: usize,
}

struct Simulation {
    world: World,
    policies: Vec<Policy>,
    tasks: BTreeMap<u64, Task>,
    versions: BTreeMap<u64, Versions>,
    /// Whether the store was closed. If that has failed, some claims may have ended with it.
    is_closed: bool,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x7A65;
    const FLUSHES: bool = true;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        let policies = levels.map(|durability| Policy {
            durability,
            limit: rng.pick(&[0, 2, 4, 20]),
            keeps_done: rng.one_in(2),
        });
        Simulation {
            world: World::new(FIFO, policies.map(Policy::options)),
            policies: policies.to_vec(),
            tasks: BTreeMap::new(),
            versions: BTreeMap::new(),
            is_closed: false,
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        match rng.below(40) {
            0..8 => self.put(rng),
            8..14 => self.take(rng),
            14..20 => self.end_claim(rng),
            20..34 => self.change_one(rng),
            34 => self.world.advance(rng.below(5_000_000)),
            35 => drop(self.world.store.flush()),
            36 => self.world.arm(rng),
            37 | 38 => self.crash(rng),
            _ => {
                self.is_closed = true;
                self.reopen(rng);
                self.is_closed = false;
            }
        }
        self.world.is_unsure |= self.world.disk.tripped();
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    // ---- calls

    fn put(&mut self, rng: &mut Rng) {
        let (tube, tags) = (rng.index(3), draw_tags(rng));
        let put = tags.iter().fold(Put::new("x"), |put, tag| put.tag(tag.as_str()));
        let answer = self.world.tubes[tube].put(put);
        // The id of a task whose put has failed is not known.
        let (Some(receipt), _) = self.world.done("put", answer) else { return };
        let stored = Stored { tube, state: TaskState::Ready, tags, entries: Vec::new() };
        let task = Task { stored, is_taken: false, total: 0, take: None };
        let old = self.tasks.insert(receipt.id, task);
        assert!(old.is_none(), "the id {} is used twice", receipt.id);
        self.note(receipt.id, EventKind::Put, None);
        self.answered(self.policies[tube].durability);
    }

    fn take(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let answer = self.world.tubes[nth].try_take();
        let Some(claim) = self.world.done("take", answer).0.flatten() else { return };
        let entry = self.entry(EventKind::Take, TaskState::Taken, nth, None);
        if let Some(task) = self.tasks.get_mut(&claim.id()) {
            (task.is_taken, task.take) = (true, Some(entry));
        }
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let id = claim.id();
        if !claim.is_current().unwrap() || !self.tasks.get(&id).is_some_and(|task| task.is_taken) {
            return;
        }
        let (ready, buried, done) = (TaskState::Ready, TaskState::Buried, TaskState::Done);
        let (verb, what, state, answer) = match rng.below(5) {
            0 | 1 => ("ack", EventKind::Ack, done, claim.ack()),
            2 => ("bury", EventKind::Bury, buried, claim.bury(None)),
            3 => {
                let answer = claim.fail(Failure::new("crash", "it fails"));
                ("fail", EventKind::Fail, ready, answer)
            }
            _ => {
                drop(claim);
                self.world.cover("release");
                return self.end(id, EventKind::Release, ready);
            }
        };
        if !self.done(verb, answer, id, |it| it.end(id, what, state)) {
            // A refused call drops its claim. No caller waits until that is stored.
            self.end(id, EventKind::Release, ready);
        }
    }

    /// A call on one of the tasks, by any caller.
    fn change_one(&mut self, rng: &mut Rng) {
        let ids: Vec<u64> = self.tasks.keys().copied().collect();
        if ids.is_empty() || self.world.is_unsure {
            return;
        }
        let id = rng.pick(&ids);
        let (task, wanted) = (self.tasks[&id].clone(), draw_tags(rng));
        let (nth, state) = (task.stored.tube, task.stored.state);
        let tube = self.world.tubes[nth].clone();
        match rng.below(10) {
            0..3 => {
                let mut tags = task.stored.tags;
                for tag in &wanted {
                    if !tags.contains(tag) {
                        tags.push(tag.clone());
                    }
                }
                let answer = tube.admin().add_tags(id, &wanted);
                self.done("add_tags", answer, id, |it| it.set_tags(id, tags))
            }
            3 | 4 => {
                let mut tags = task.stored.tags;
                tags.retain(|tag| !wanted.contains(tag));
                let answer = tube.admin().remove_tags(id, &wanted);
                self.done("remove_tags", answer, id, |it| it.set_tags(id, tags))
            }
            5..8 if self.policies[nth].limit > 0 => {
                let text = format!("entry {}", self.world.trace.len());
                let answer = tube.admin().log(id, &text);
                self.done("log", answer, id, |it| it.note(id, EventKind::Log, Some(text)))
            }
            8 if state == TaskState::Buried => {
                let answer = tube.kick(id);
                self.done("kick", answer, id, |it| it.end(id, EventKind::Kick, TaskState::Ready))
            }
            8 if rng.one_in(2) => self.done("delete", tube.delete(id), id, |it| it.remove(id)),
            9 if state != TaskState::Done => {
                let to = (nth + 1 + rng.index(2)) % 3;
                let answer = by_id::move_to(&tube, &self.world.tubes[to], id);
                self.done("move", answer, id, |it| it.move_to(id, to))
            }
            _ => false,
        };
    }

    /// Makes the change of a call, and returns whether it took place. The commit of a move has the
    /// strongest durability of its tubes.
    fn done<T>(
        &mut self,
        verb: &'static str,
        answer: Result<T>,
        id: u64,
        change: impl FnOnce(&mut Simulation),
    ) -> bool {
        let from = self.tasks[&id].stored.tube;
        let count = self.versions[&id].all.len();
        let (answer, is_applied) = self.world.done(verb, answer);
        if is_applied {
            change(self);
        }
        let has_changed = self.versions[&id].all.len() > count;
        if answer.is_some() && has_changed {
            let to = self.tasks.get(&id).map_or(from, |task| task.stored.tube);
            for nth in [from, to] {
                self.answered(self.policies[nth].durability);
            }
        }
        is_applied
    }

    // ---- the model

    /// A task ends, or goes on; its claim ends.
    fn end(&mut self, id: u64, what: EventKind, state: TaskState) {
        let task = self.tasks.get_mut(&id).unwrap();
        task.is_taken = false;
        task.stored.state = state;
        if state == TaskState::Done && !self.policies[task.stored.tube].keeps_done {
            return self.remove(id);
        }
        self.note(id, what, None);
    }

    fn set_tags(&mut self, id: u64, tags: Vec<String>) {
        let task = self.tasks.get_mut(&id).unwrap();
        if task.stored.tags != tags {
            task.stored.tags = tags;
            self.note(id, EventKind::Update, None);
        }
    }

    fn move_to(&mut self, id: u64, to: usize) {
        let task = self.tasks.get_mut(&id).unwrap();
        (task.stored.tube, task.is_taken) = (to, false);
        self.note(id, EventKind::Move, None);
    }

    fn remove(&mut self, id: u64) {
        self.tasks.remove(&id);
        self.versions.get_mut(&id).unwrap().all.push(None);
    }

    /// Adds an entry for a change. The entry of its take comes first.
    fn note(&mut self, id: u64, what: EventKind, text: Option<String>) {
        let task = &self.tasks[&id];
        let (nth, limit) = (task.stored.tube, self.policies[task.stored.tube].limit);
        let state = if task.is_taken { TaskState::Taken } else { task.stored.state };
        let entry = self.entry(what, state, nth, text);
        let task = self.tasks.get_mut(&id).unwrap();
        for entry in task.take.take().into_iter().chain([entry]) {
            task.stored.entries.push(Entry { number: task.total, ..entry });
            task.total += 1;
            task.trim(limit);
        }
        let stored = Some(task.stored.clone());
        self.versions.entry(id).or_default().all.push(stored);
    }

    fn entry(&self, what: EventKind, state: TaskState, tube: usize, text: Option<String>) -> Entry {
        Entry { number: 0, at: self.world.now, what, state, text, tube }
    }

    /// A call in a tube of this durability is answered. A flush and a record have all calls before it.
    fn answered(&mut self, durability: Durability) {
        for versions in self.versions.values_mut() {
            let all = versions.all.len();
            match durability {
                Durability::Flush => (versions.flushed, versions.written) = (all, all),
                Durability::Write { .. } => versions.written = all,
                Durability::Relaxed { .. } => {}
            }
        }
    }
}

impl Task {
    /// Keeps the first entry, and the newest of the others.
    fn trim(&mut self, limit: usize) {
        while self.stored.entries.len() > limit {
            self.stored.entries.remove(1.min(limit));
        }
        if limit == 0 {
            self.total = 0;
        }
    }
}

impl Policy {
    fn options(self) -> TubeOptions {
        let limit = u32::try_from(self.limit).unwrap();
        let options = TubeOptions::new().durability(self.durability).history(limit);
        if self.keeps_done { options.keep_done(Keep::new()) } else { options }
    }
}

fn draw_tags(rng: &mut Rng) -> Vec<String> {
    TAGS.iter().filter(|_| rng.one_in(3)).map(ToString::to_string).collect()
}

#[test]
fn tags_and_histories_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put",
        "take",
        "ack",
        "bury",
        "fail",
        "release",
        "add_tags",
        "remove_tags",
        "log",
        "kick",
        "delete",
        "move",
        "exact",
        "learned",
        "earlier version",
    ];
    run_seeds::<Simulation>("tags_and_histories_match", &wanted);
}
