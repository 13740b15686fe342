//! Keys, tokens, priorities, gates, limits of sub-queues and moves under simulation: tubes that share
//! keys and limits, and tasks that go from tube to tube. While the disk works, each take gives the most
//! urgent task that no gate and no limit holds back, and each key has the task of a model. After a fault,
//! a kill or a power cut, every task and gate is as its last answered call has left it.

mod gates;
mod recovery;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use tubewell::{
    Claim, Durability, Error, Keep, OnKey, Outcome, Put, Result, TubeOptions, UTUBETTL,
};

use crate::model::Micros;
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::World;
use gates::Gates;
use tokens::TokenPut;

const MS: Micros = 1000;
const NEVER: Micros = Micros::MAX;
const TUBES: usize = 3;
const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 3] = ["x", "y", "z"];
const PRIORITIES: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Policy {
    durability: Durability,
    keeps_done: bool,
    max_taken: Option<u64>,
    sub_queue_limit: u32,
    is_shared: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Taken,
    Buried,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    tube: usize,
    key: Option<&'static str>,
    sub_queue: &'static str,
    priority: u32,
    /// `None` if it is not stored.
    status: Option<Status>,
    /// Its body.
    version: u64,
}

struct Simulation {
    world: World,
    policies: Vec<Policy>,
    /// All tasks ever put whose id is known.
    tasks: BTreeMap<u64, Task>,
    gates: Gates,
    token_puts: Vec<TokenPut>,
    versions: u64,
    /// Tasks whose last call has failed, so that it is not known what became of them.
    unknown: BTreeSet<u64>,
    /// Tasks whose last call is answered and may not be flushed.
    unflushed: BTreeSet<u64>,
    /// Whether a change of a gate has failed.
    are_gates_unknown: bool,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x6A7E;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let policies: Vec<Policy> = (0..TUBES).map(|_| random_policy(&mut rng)).collect();
        Simulation {
            world: World::new(UTUBETTL, policies.iter().map(|policy| policy.options())),
            policies,
            tasks: BTreeMap::new(),
            gates: Gates::default(),
            token_puts: Vec::new(),
            versions: 0,
            unknown: BTreeSet::new(),
            unflushed: BTreeSet::new(),
            are_gates_unknown: false,
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(TUBES);
        match rng.below(40) {
            0..7 => self.put(nth, rng),
            7 => self.put_with_token(nth, rng),
            8..10 => self.put_again(rng),
            10..19 => self.take(nth),
            19..26 => self.end_claim(rng),
            26..31 => self.administer(rng),
            31..34 => self.change_gates(nth, rng),
            34..36 => self.world.advance(rng.below(15 * MS)),
            36 => self.world.arm(rng),
            37..39 => self.crash(rng),
            _ => self.reopen(rng),
        }
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    /// A call that changes a task that exists. Returns whether it took place.
    fn change<T>(&mut self, verb: &'static str, answer: Result<T>, id: u64, new: Task) -> bool {
        let old = self.tasks[&id];
        let (answer, is_applied) = self.world.done(verb, answer);
        if is_applied {
            self.tasks.insert(id, new);
        }
        match answer {
            Some(_) => self.answered(&[id], &[old.tube, new.tube]),
            None => drop(self.unknown.insert(id)),
        }
        is_applied
    }

    /// A call on these tasks, in these tubes, is answered. A flush contains all calls before it.
    fn answered(&mut self, ids: &[u64], tubes: &[usize]) {
        if tubes.iter().any(|nth| self.policies[*nth].durability == Durability::Flush) {
            self.unflushed.clear();
        } else {
            self.unflushed.extend(ids);
        }
    }

    fn new_task(
        &mut self,
        nth: usize,
        key: Option<&'static str>,
        rng: &mut Rng,
    ) -> (Put<String>, Task) {
        self.versions += 1;
        let (version, sub_queue) = (self.versions, rng.pick(&NAMES));
        let priority = u32::try_from(rng.below(PRIORITIES.into())).unwrap();
        let put = Put::new(body(version)).sub_queue(sub_queue).priority(priority);
        let put = key.iter().fold(put, |put, key| put.key(*key));
        (put, Task { tube: nth, key, sub_queue, priority, status: Some(Status::Ready), version })
    }

    fn put(&mut self, nth: usize, rng: &mut Rng) {
        let key = Some(rng.pick(&KEYS)).filter(|_| rng.one_in(2) && !self.world.is_unsure);
        let (put, task) = self.new_task(nth, key, rng);
        let Some(old) = key.and_then(|key| self.by_key(key)) else {
            let answer = self.world.tubes[nth].put(put);
            if let (Some(receipt), _) = self.world.done("put", answer) {
                let old = self.tasks.insert(receipt.id, task);
                assert_eq!(old, None, "the id {} is used twice", receipt.id);
                self.answered(&[receipt.id], &[nth]);
            }
            return;
        };
        let on_key = rng.pick(&[OnKey::Reject, OnKey::Keep, OnKey::Replace, OnKey::Replace]);
        let answer = self.world.tubes[nth].put(put.on_key(on_key));
        let id = match &answer {
            Ok(receipt) => Some(receipt.id),
            Err(Error::KeyInUse { id, .. }) => Some(*id),
            Err(_) => None,
        };
        assert!(id.is_none_or(|id| id == old), "{key:?} is that of task {old}: {answer:?}");
        match on_key {
            OnKey::Replace => drop(self.change("replace", answer, old, task)),
            OnKey::Keep => drop(self.world.done("keep", answer)),
            _ => match answer {
                Ok(receipt) => panic!("{key:?} was put twice: {receipt:?}"),
                Err(Error::KeyInUse { .. }) => drop(self.world.done("reject", Ok(()))),
                Err(error) => drop(self.world.done("reject", Err::<(), _>(error))),
            },
        }
    }

    fn take(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].try_take();
        let (Some(claim), _) = self.world.done("take", answer) else { return };
        if !self.world.is_unsure {
            let ready = self.ready(nth);
            let next = ready.iter().copied().find(|id| !self.is_shut(nth, *id));
            let id = claim.as_ref().map(Claim::id);
            assert_eq!(id, next, "not the next of {ready:?}, {:?}", self.gates.at(self.world.now));
            if next != ready.first().copied() {
                self.world.cover("take beside a gate");
            } else if next != self.of(nth, Status::Ready).first().copied() {
                self.world.cover("take by priority");
            }
        }
        let Some(claim) = claim else { return };
        if let Some(task) = self.tasks.get_mut(&claim.id()) {
            task.status = Some(Status::Taken);
        }
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let id = claim.id();
        let Some(old) = self.tasks.get(&id).copied().filter(|_| claim.is_current().unwrap()) else {
            return;
        };
        let kept = Some(Status::Done).filter(|_| self.policies[old.tube].keeps_done);
        let is_applied = match rng.below(6) {
            0 => self.change("ack", claim.ack(), id, Task { status: kept, ..old }),
            1 => {
                let buried = Task { status: Some(Status::Buried), ..old };
                self.change("bury", claim.bury(None), id, buried)
            }
            2 => {
                drop(claim);
                false
            }
            _ => self.finish(claim, id, old, rng),
        };
        // A claim that was dropped, by a refused call too.
        if !is_applied && let Some(task) = self.tasks.get_mut(&id) {
            task.status = Some(Status::Ready);
        }
    }

    /// Passes a task on to another tube, and puts a task beside it.
    fn finish(&mut self, claim: Claim, id: u64, old: Task, rng: &mut Rng) -> bool {
        let (to, beside) = ((old.tube + 1) % TUBES, rng.index(TUBES));
        let (put, advanced) = self.new_task(to, None, rng);
        let (put_beside, task_beside) = self.new_task(beside, None, rng);
        let outcome = Outcome::advance(&self.world.tubes[to], put)
            .and_put(&self.world.tubes[beside], put_beside);
        let new = self.world.store.admin().next_id().unwrap();
        let answer = claim.end(outcome);
        let is_answered = answer.is_ok();
        let is_applied = self.change("finish", answer, id, Task { key: old.key, ..advanced });
        if is_answered {
            self.tasks.insert(new, task_beside);
            self.answered(&[id, new], &[old.tube, to, beside]);
        }
        is_applied
    }

    /// A call on any task, by any caller.
    fn administer(&mut self, rng: &mut Rng) {
        let stored = self.tasks.iter().filter(|(_, task)| task.status.is_some());
        let ids: Vec<u64> = stored.map(|(id, _)| *id).collect();
        if ids.is_empty() || self.world.is_unsure {
            return;
        }
        let id = rng.pick(&ids);
        let task = self.tasks[&id];
        let tube = self.world.tubes[task.tube].clone();
        let to = (task.tube + 1 + rng.index(TUBES - 1)) % TUBES;
        let gone = Task { status: None, ..task };
        match (task.status, rng.below(5)) {
            (_, 1) => {
                // The same one again would change nothing, and flush nothing.
                let by = 1 + u32::try_from(rng.below(u64::from(PRIORITIES) - 1)).unwrap();
                let priority = (task.priority + by) % PRIORITIES;
                let answer = tube.admin().set_priority(id, priority);
                self.change("set_priority", answer, id, Task { priority, ..task });
            }
            (Some(Status::Done), _) => {
                self.change("forget", tube.admin().forget(id), id, gone);
            }
            (_, 0) => drop(self.change("delete", tube.delete(id), id, gone)),
            (Some(Status::Buried), 2..4) => {
                let ready = Task { status: Some(Status::Ready), ..task };
                self.change("kick", tube.kick(id), id, ready);
            }
            (status, _) => {
                // The claim of a taken task ends.
                let status = status.map(|it| if it == Status::Taken { Status::Ready } else { it });
                let answer = tube.admin().move_to(&self.world.tubes[to], id);
                self.change("move", answer, id, Task { tube: to, status, ..task });
            }
        }
    }

    fn by_key(&self, key: &str) -> Option<u64> {
        let has_key = |task: &Task| task.status.is_some() && task.key == Some(key);
        self.tasks.iter().find(|(_, task)| has_key(task)).map(|(id, _)| *id)
    }

    /// The ready tasks of a tube, the most urgent one first.
    fn ready(&self, nth: usize) -> Vec<u64> {
        let mut ids = self.of(nth, Status::Ready);
        ids.sort_by_key(|id| (self.tasks[id].priority, *id));
        ids
    }

    /// The tasks of a tube with this status, in order of their ids.
    fn of(&self, nth: usize, status: Status) -> Vec<u64> {
        let of_tube = self.tasks.iter().filter(|(_, task)| task.tube == nth);
        of_tube.filter(|(_, task)| task.status == Some(status)).map(|(id, _)| *id).collect()
    }
}

impl Policy {
    fn options(self) -> TubeOptions {
        let options = TubeOptions::new()
            .durability(self.durability)
            .sub_queue_limit(self.sub_queue_limit)
            .shared_limits(self.is_shared);
        let options = self.max_taken.into_iter().fold(options, TubeOptions::max_taken);
        if self.keeps_done { options.keep_done(Keep::new()) } else { options }
    }
}

fn random_policy(rng: &mut Rng) -> Policy {
    Policy {
        durability: rng.pick(&[Durability::Flush, Durability::write()]),
        keeps_done: rng.one_in(2),
        max_taken: rng.pick(&[None, None, Some(2), Some(4)]),
        sub_queue_limit: rng.pick(&[1, 1, 2]),
        is_shared: rng.one_in(2),
    }
}

/// The body of a task; some have rows of several pages.
fn body(version: u64) -> String {
    format!("{version}{}", " ".repeat(if version.is_multiple_of(5) { 5000 } else { 5 }))
}

#[test]
fn keys_gates_and_moves_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "put",
        "replace",
        "keep",
        "reject",
        "put with a token",
        "seen",
        "put that did not take place",
        "take",
        "take beside a gate",
        "take by priority",
        "ack",
        "bury",
        "finish",
        "forget",
        "delete",
        "kick",
        "set_priority",
        "move",
        "pause",
        "pause a sub-queue",
        "set a limit",
        "remove a limit",
        "exact",
        "learned",
    ];
    run_seeds::<Simulation>("keys_gates_and_moves_match", &wanted);
}
