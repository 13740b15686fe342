//! Waits for the ends of tasks under simulation, in tubes of every durability: waits for a task that
//! was put before, puts that wait, and waits for tubes that are drained or have a task to take.
//! While the disk works, each wait is woken by the change that it waits for and by no other, and has
//! the answer of a model. After a fault, a kill or a power cut, no task is back whose end a wait
//! has returned.

mod recovery;
mod waits;

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{Claim, Durability, Ending, FIFO, Keep, Result, TubeOptions};

use crate::model::{Micros, NEVER};
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::{Upset, World};
use waits::{Wait, Waited};

const MS: Micros = 1000;
const TUBES: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Taken,
    Buried,
    /// It is done, with this result, and kept.
    Done(Option<Vec<u8>>),
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    tube: usize,
    status: Status,
}

struct Simulation {
    world: World,
    durability: [Durability; TUBES],
    keeps_done: [bool; TUBES],
    /// All tasks whose id is known, also those that have ended.
    tasks: BTreeMap<u64, Task>,
    claims: Vec<Claim>,
    waits: Vec<Wait>,
    /// The tasks whose end a call or a wait has returned, with their tubes.
    over: BTreeMap<u64, usize>,
    /// Whether a call met a failing disk: the model may be wrong.
    is_unsure: bool,
}

impl Simulated for Simulation {
    const SALT: u64 = 0xE4D5;
    type Claim = Claim;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        // In half of the runs a kill loses nothing that was answered.
        let durability = if rng.one_in(2) { [levels[0], levels[1], levels[0]] } else { levels };
        let keeps_done = [rng.one_in(2), rng.one_in(2), rng.one_in(2)];
        let options = |nth: usize| {
            let options = TubeOptions::new().durability(durability[nth]);
            if keeps_done[nth] { options.keep_done(Keep::new()) } else { options }
        };
        Simulation {
            world: World::new(FIFO, (0..TUBES).map(options)),
            durability,
            keeps_done,
            tasks: BTreeMap::new(),
            claims: Vec::new(),
            waits: Vec::new(),
            over: BTreeMap::new(),
            is_unsure: false,
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(TUBES);
        match rng.below(40) {
            0..3 => self.put(nth),
            3..7 => self.put_and_wait(nth, rng),
            7..13 => self.take(nth),
            13..20 => self.end_claim(rng),
            20..24 => self.administer(rng),
            24 => self.truncate(nth),
            25..32 => self.wait(nth, rng),
            32 => drop(self.waits.pop()),
            33..36 => self.advance(rng.below(15 * MS)),
            36 => self.world.arm(rng),
            37..39 => self.crash(rng),
            _ => self.reopen(),
        }
        self.is_unsure |= self.world.disk.tripped();
        self.poll_waits();
    }

    fn compare(&self) {
        if !self.is_unsure {
            assert_eq!(self.found(), self.stored());
        }
    }

    fn learn(&mut self, upset: Upset) {
        self.learn_all(upset);
    }

    fn world(&self) -> &World {
        &self.world
    }

    fn world_and_claims(&mut self) -> (&mut World, &mut Vec<Self::Claim>) {
        (&mut self.world, &mut self.claims)
    }

    fn into_world(self) -> World {
        self.world
    }
}

impl Simulation {
    /// The answer of a call, and whether it took place; the disk may have failed.
    fn done<T>(&mut self, verb: &'static str, answer: Result<T>) -> (Option<T>, bool) {
        self.is_unsure |= self.world.disk.tripped();
        self.world.done(verb, answer)
    }

    fn put(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].put("work");
        if let (Some(receipt), _) = self.done("put", answer) {
            self.added(receipt.id, nth);
        }
    }

    fn added(&mut self, id: u64, tube: usize) {
        let old = self.tasks.insert(id, Task { tube, status: Status::Ready });
        assert_eq!(old, None, "the id {id} is used twice");
        self.has_ready(tube);
    }

    fn take(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].try_take();
        let (Some(claim), _) = self.done("take", answer) else { return };
        let next = self.of(nth, &Status::Ready).first().copied();
        assert!(self.is_unsure || claim.as_ref().map(Claim::id) == next, "not task {next:?}");
        let Some(claim) = claim else { return };
        assert!(!self.over.contains_key(&claim.id()), "task {} is over", claim.id());
        self.tasks.insert(claim.id(), Task { tube: nth, status: Status::Taken });
        self.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        self.claims.retain(Claim::is_current);
        if self.claims.is_empty() || self.is_unsure {
            return;
        }
        let claim = self.claims.swap_remove(rng.index(self.claims.len()));
        let (id, result) = (claim.id(), claim.id().to_string().into_bytes());
        match rng.below(6) {
            0 | 1 => {
                let answer = claim.ack();
                self.ended("ack", id, answer, Status::Done(None));
            }
            2 | 3 => {
                let answer = claim.ack_with(result.clone());
                self.ended("ack_with", id, answer, Status::Done(Some(result)));
            }
            4 => {
                let answer = claim.bury();
                self.ended("bury", id, answer, Status::Buried);
            }
            _ => {
                let answer = claim.release(Duration::ZERO);
                self.done("release", answer);
                self.set(id, Status::Ready);
            }
        }
    }

    /// A call on any task, by any caller.
    fn administer(&mut self, rng: &mut Rng) {
        let stored = self.stored();
        if stored.is_empty() || self.is_unsure {
            return;
        }
        let ids: Vec<u64> = stored.keys().copied().collect();
        let id = rng.pick(&ids);
        let Task { tube: nth, status } = stored[&id].clone();
        let tube = self.world.tubes[nth].clone();
        match (status, rng.below(3)) {
            (_, 0) => self.ended("delete", id, tube.delete(id), Status::Gone),
            (Status::Buried, 1) => {
                if self.done("kick", tube.kick_task(id)).1 {
                    self.over.remove(&id);
                    self.set(id, Status::Ready);
                }
            }
            (Status::Done(_), _) => {}
            (status, _) => {
                let to = (nth + 1 + rng.index(TUBES - 1)) % TUBES;
                if self.done("move", tube.move_to(id, &self.world.tubes[to])).1 {
                    let status = if status == Status::Buried { status } else { Status::Ready };
                    self.tasks.insert(id, Task { tube: to, status: status.clone() });
                    self.over.entry(id).and_modify(|tube| *tube = to);
                    self.set(id, status);
                    self.is_drained(nth);
                }
            }
        }
    }

    fn truncate(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].truncate();
        let (answer, is_applied) = self.done("truncate", answer);
        let of_tube = self.tasks.iter().filter(|(_, task)| task.tube == nth);
        for id in of_tube.map(|(id, _)| *id).collect::<Vec<_>>() {
            if answer.is_some() {
                self.over.insert(id, nth);
            }
            if is_applied {
                self.tell(|waited| *waited == Waited::Task(id), Ending::Gone);
                self.set(id, Status::Gone);
            }
        }
    }

    /// A call that ends a task.
    fn ended<T>(&mut self, verb: &'static str, id: u64, answer: Result<T>, status: Status) {
        let (answer, is_applied) = self.done(verb, answer);
        let Some(Task { tube, status: old }) = self.tasks.get(&id).cloned() else { return };
        if answer.is_some() {
            self.over.insert(id, tube);
        }
        if !is_applied {
            // A refused call drops its claim.
            let status = if old == Status::Taken { Status::Ready } else { old };
            return self.set(id, status);
        }
        let ending = match &status {
            Status::Done(result) => Ending::Done { result: result.clone() },
            Status::Buried => Ending::Buried { failure: None },
            _ => Ending::Deleted,
        };
        self.tell(|waited| *waited == Waited::Task(id), ending);
        let is_kept = !matches!(status, Status::Done(_)) || self.keeps_done[tube];
        self.set(id, if is_kept { status } else { Status::Gone });
    }

    /// Gives a task another status, and answers the waits for its tube.
    fn set(&mut self, id: u64, status: Status) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let tube = task.tube;
        task.status = status;
        self.has_ready(tube);
        self.is_drained(tube);
    }

    fn has_ready(&mut self, nth: usize) {
        if !self.of(nth, &Status::Ready).is_empty() {
            self.tell(|waited| *waited == Waited::Ready(nth), Ending::Gone);
        }
    }

    fn is_drained(&mut self, nth: usize) -> bool {
        let is_drained =
            [Status::Ready, Status::Taken].iter().all(|status| self.of(nth, status).is_empty());
        if is_drained {
            self.tell(|waited| *waited == Waited::Drained(nth), Ending::Gone);
        }
        is_drained
    }

    fn advance(&mut self, by: Micros) {
        self.world.advance(by);
    }

    fn stored(&self) -> BTreeMap<u64, Task> {
        let stored = self.tasks.iter().filter(|(_, task)| task.status != Status::Gone);
        stored.map(|(id, task)| (*id, task.clone())).collect()
    }

    fn of(&self, nth: usize, status: &Status) -> Vec<u64> {
        let of_tube = self.tasks.iter().filter(|(_, task)| task.tube == nth);
        of_tube.filter(|(_, task)| task.status == *status).map(|(id, _)| *id).collect()
    }
}

/// A timeout, and when it elapses.
fn draw_timeout(now: Micros, rng: &mut Rng) -> (Option<Duration>, Micros) {
    let timeout = rng.pick(&[0, 10 * MS, 40 * MS, NEVER, NEVER]);
    let until = now.saturating_add(timeout);
    ((timeout != NEVER).then(|| Duration::from_micros(timeout)), until)
}

#[test]
fn waits_for_ends_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put",
        "put_and_wait",
        "put_and_wait without a timeout",
        "take",
        "ack",
        "ack_with",
        "bury",
        "release",
        "delete",
        "kick",
        "move",
        "truncate",
        "waits: task",
        "waits: drained",
        "waits: ready",
        "ended: task",
        "ended: drained",
        "ended: ready",
        "ended before: task",
        "ended before: drained",
        "ended before: ready",
        "timed out: task",
        "timed out: drained",
        "timed out: ready",
        "wait that the storage ends",
        "wait that a close ends",
        "close",
        "outage",
        "Kill",
        "PowerCut",
        "PartialPowerCut",
        "exact",
    ];
    run_seeds::<Simulation>("waits_for_ends_match", &wanted);
}
