//! Outcomes under simulation: tubes of every durability that keep some done and some buried tasks,
//! by number and for a time. While the disk works, what is kept is that of a model. After a fault, a
//! kill or a power cut, a task that has ended for its caller has not come back, and every outcome
//! is one that a call has reported.

mod check;
mod recovery;

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, Failure, Keep, Outcome, Receipt, Result, TaskState, Tube, TubeOptions,
};

use crate::model::Micros;
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::{World, tube_of};

const MS: Micros = 1000;
const GROUPS: [&str; 2] = ["crash", "timeout"];

/// What a tube keeps of the tasks of one state.
#[derive(Clone, Copy, Debug)]
struct Kept {
    count: Option<u64>,
    age: Option<Micros>,
}

#[derive(Clone, Copy, Debug)]
struct Policy {
    /// `None` for nothing.
    done: Option<Kept>,
    /// `None` for all.
    buried: Option<Kept>,
    durability: Durability,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Taken,
    /// With the time of the end.
    Buried(Micros),
    /// With the time of the end, and whether it has a result.
    Done(Micros, bool),
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// `None` if it is not stored.
    status: Option<Status>,
    /// Whether a call has answered that it is over, and none has kicked it since.
    must_be_over: bool,
    /// When a call has ended it as done, whatever the answer.
    done_at: Micros,
}

struct Simulation {
    world: World,
    policies: Vec<Policy>,
    /// All tasks ever put whose id is known.
    tasks: BTreeMap<(usize, u64), Task>,
    /// Whether a call on a tube met a failing disk: the model may be wrong about the tube.
    is_unsure: Vec<bool>,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x07C0;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let policies: Vec<Policy> = (0..3).map(|_| random_policy(&mut rng)).collect();
        Simulation {
            world: World::new(FIFO, policies.iter().map(Policy::options)),
            is_unsure: vec![false; policies.len()],
            policies,
            tasks: BTreeMap::new(),
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(self.policies.len());
        match rng.below(40) {
            0..9 => self.put(nth),
            9..17 => self.take(nth),
            17..25 => self.end_claim(rng),
            25..31 => self.administer(nth, rng),
            31..35 => self.advance(rng.below(15 * MS)),
            35 => drop(self.world.store.flush()),
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
    /// The answer of a call, and whether it took place; the disk may have failed.
    fn done<T>(&mut self, nth: usize, verb: &'static str, answer: Result<T>) -> (Option<T>, bool) {
        self.world.trace.push(format!("in {nth}"));
        self.is_unsure[nth] |= self.world.disk.tripped();
        self.world.done(verb, answer)
    }

    fn put(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].put("work");
        if let (Some(receipt), _) = self.done(nth, "put", answer) {
            let status = Some(Status::Ready);
            let task = Task { status, must_be_over: false, done_at: 0 };
            let old = self.tasks.insert((nth, receipt.id), task);
            assert!(old.is_none(), "the id {} is used twice", receipt.id);
        }
    }

    fn take(&mut self, nth: usize) {
        let answer = self.world.tubes[nth].try_take();
        let (Some(claim), _) = self.done(nth, "take", answer) else { return };
        let next = self.of(nth, |status| *status == Status::Ready).first().copied();
        if !self.is_unsure[nth] {
            assert_eq!(claim.as_ref().map(Claim::id), next, "not the next task");
        }
        let Some(claim) = claim else { return };
        let ready = Task { status: Some(Status::Ready), must_be_over: false, done_at: 0 };
        let task = self.tasks.entry((nth, claim.id())).or_insert(ready);
        assert!(!task.must_be_over, "it is over: {task:?}");
        task.status = Some(Status::Taken);
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let nth = tube_of(&claim);
        let id = claim.id();
        if !claim.is_current().unwrap() {
            return;
        }
        let status = match rng.below(6) {
            0 => {
                let answer = claim.ack();
                self.ended(nth, id, "ack", answer, Status::Done(self.world.now, false))
            }
            1..4 => {
                let answer = claim.end(Outcome::result(result(id)));
                self.ended(nth, id, "ack_with", answer, Status::Done(self.world.now, true))
            }
            _ => {
                let answer = claim.bury(failure(id));
                self.ended(nth, id, "bury_with", answer, Status::Buried(self.world.now))
            }
        };
        // A refused call drops its claim.
        if !status {
            self.set(nth, id, Some(Status::Ready));
        }
    }

    /// A call on one of the tasks that nobody has taken, by any caller.
    fn administer(&mut self, nth: usize, rng: &mut Rng) {
        let ids = self.of(nth, |status| *status != Status::Taken);
        if ids.is_empty() || self.is_unsure[nth] {
            return;
        }
        let (id, tube) = (rng.pick(&ids), self.world.tubes[nth].clone());
        let is_done = matches!(self.tasks[&(nth, id)].status, Some(Status::Done(..)));
        let is_buried = matches!(self.tasks[&(nth, id)].status, Some(Status::Buried(_)));
        match rng.below(4) {
            0 if is_done => self.removed(nth, id, "forget", tube.admin().forget(id)),
            0 | 1 if !is_done => {
                let answer = tube.admin().resolve(id, Outcome::result(result(id).as_bytes()));
                self.ended(nth, id, "resolve", answer, Status::Done(self.world.now, true));
            }
            2 if is_buried => {
                let (_, is_applied) = self.done(nth, "kick", tube.kick(id));
                if is_applied {
                    self.set(nth, id, Some(Status::Ready));
                    self.tasks.entry((nth, id)).and_modify(|task| task.must_be_over = false);
                }
            }
            2 => {
                let refused = [tube.kick(id).is_err(), tube.admin().forget(id).is_err() || is_done];
                self.is_unsure[nth] |= self.world.disk.tripped();
                assert_eq!(refused, [true; 2]);
                if is_done {
                    self.set(nth, id, None);
                }
            }
            _ => self.removed(nth, id, "delete", tube.delete(id)),
        }
    }

    fn removed(&mut self, nth: usize, id: u64, verb: &'static str, answer: Result<Receipt>) {
        let (answer, is_applied) = self.done(nth, verb, answer);
        if is_applied {
            self.set(nth, id, None);
        }
        self.tasks.entry((nth, id)).and_modify(|task| task.must_be_over |= answer.is_some());
    }

    /// A call that ends a task. Returns whether it took place.
    fn ended(
        &mut self,
        nth: usize,
        id: u64,
        verb: &'static str,
        answer: Result<Receipt>,
        status: Status,
    ) -> bool {
        let (answer, is_applied) = self.done(nth, verb, answer);
        let policy = self.policies[nth];
        let (kept, is_done) = match status {
            Status::Done(..) => (policy.done, true),
            _ => (policy.buried, false),
        };
        let task = self.tasks.get_mut(&(nth, id)).unwrap();
        task.must_be_over |= answer.is_some();
        if !is_applied {
            return false;
        }
        if is_done {
            task.done_at = self.world.now;
        }
        let is_kept = !is_done || kept.is_some_and(|kept| kept.count != Some(0));
        task.status = is_kept.then_some(status);
        if let Some(most) = kept.and_then(|kept| kept.count) {
            let all = self.by_end(nth, is_done);
            let excess = all.len().saturating_sub(usize::try_from(most).unwrap());
            for id in &all[..excess] {
                self.set(nth, *id, None);
            }
        }
        true
    }

    fn set(&mut self, nth: usize, id: u64, status: Option<Status>) {
        self.tasks.entry((nth, id)).and_modify(|task| task.status = status);
    }

    fn advance(&mut self, by: Micros) {
        self.world.advance(by);
        self.forget_aged();
    }

    fn forget_aged(&mut self) {
        for ((nth, _), task) in &mut self.tasks {
            let policy = self.policies[*nth];
            let (at, kept) = match task.status {
                Some(Status::Done(at, _)) => (at, policy.done),
                Some(Status::Buried(at)) => (at, policy.buried),
                _ => continue,
            };
            let age = kept.and_then(|kept| kept.age);
            if age.is_some_and(|age| at + age <= self.world.now) {
                task.status = None;
            }
        }
    }

    /// The stored tasks of a tube with such a status, in order of their ids.
    fn of(&self, nth: usize, is_wanted: impl Fn(&Status) -> bool) -> Vec<u64> {
        let tasks = self.tasks.range((nth, 0)..(nth + 1, 0));
        let wanted = tasks.filter(|(_, task)| task.status.as_ref().is_some_and(&is_wanted));
        wanted.map(|((_, id), _)| *id).collect()
    }

    /// The done or the buried tasks of a tube, the one that ended first is the first.
    fn by_end(&self, nth: usize, is_done: bool) -> Vec<u64> {
        let mut ids = self.of(nth, |status| match status {
            Status::Done(..) => is_done,
            Status::Buried(_) => !is_done,
            _ => false,
        });
        ids.sort_by_key(|id| match self.tasks[&(nth, *id)].status {
            Some(Status::Done(at, _) | Status::Buried(at)) => (at, *id),
            _ => (0, *id),
        });
        ids
    }
}

impl Policy {
    fn options(&self) -> TubeOptions {
        let options = TubeOptions::new().durability(self.durability);
        let options = self.done.into_iter().map(keep).fold(options, TubeOptions::keep_done);
        self.buried.into_iter().map(keep).fold(options, TubeOptions::keep_buried)
    }
}

fn random_policy(rng: &mut Rng) -> Policy {
    let kept = |rng: &mut Rng| Kept {
        count: rng.pick(&[None, Some(0), Some(1), Some(3)]),
        age: rng.pick(&[None, Some(0), Some(30 * MS), Some(100 * MS)]),
    };
    let limited = |kept: &Kept| kept.count.is_some() || kept.age.is_some();
    Policy {
        done: Some(kept(rng)).filter(|_| !rng.one_in(5)),
        buried: Some(kept(rng)).filter(limited),
        durability: rng.pick(&[Durability::Flush, Durability::write(), Durability::relaxed()]),
    }
}

fn keep(kept: Kept) -> Keep {
    let keep = kept.count.map_or(Keep::new(), |count| Keep::new().count(count));
    kept.age.map_or(keep, |age| keep.age(Duration::from_micros(age)))
}

/// The result of a task; some have rows of several pages.
fn result(id: u64) -> String {
    format!("{id}{}", "r".repeat(if id.is_multiple_of(3) { 5000 } else { 5 }))
}

fn group_of(id: u64) -> &'static str {
    GROUPS[usize::from(id.is_multiple_of(2))]
}

fn failure(id: u64) -> Failure {
    Failure::new(group_of(id), format!("task {id} fails"))
}

fn listed(tube: &Tube, state: TaskState) -> Vec<u64> {
    tube.query().list(state, None, 10_000).unwrap().items.iter().map(|task| task.id).collect()
}

#[test]
fn outcomes_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = ["ack", "ack_with", "bury_with", "resolve", "forget", "kick", "delete", "exact"];
    run_seeds::<Simulation>("outcomes_match", &wanted);
}
