//! Attempts under simulation: tubes with a limit of attempts, every counting and durability, backoff
//! and a reclaim delay. While the disk works, every attempt, state and due time is that of a model.
//! After a fault, a kill or a power cut, no task may have fewer attempts than hand-outs that its
//! counting must have kept, and none is handed out more often than it may be attempted.

mod recovery;

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{
    Backoff, Claim, Counting, Durability, Error, FIFOTTL, Failure, Filter, Outcome, Receipt,
    Result, TaskInfo, TaskState, Tube, TubeOptions,
};

use crate::by_id;
use crate::model::Micros;
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::simulator::micros;
use crate::world::{World, tube_of};

const MS: Micros = 1000;
const TTR: Micros = 40 * MS;

#[derive(Clone, Copy, Debug)]
struct Policy {
    limit: u32,
    counting: Counting,
    durability: Durability,
    /// The first delay; each further one is twice as long.
    backoff: Micros,
    reclaim_delay: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Delayed(Micros),
    /// With the deadline of the claim.
    Taken(Micros),
    Buried,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    status: Status,
    attempts: u32,
    /// The hand-outs of which none may be forgotten. Forgiven ones do not count.
    handed_out: u32,
    /// Whether its put or a take of it was flushed, and no ack was tried.
    must_exist: bool,
    /// A holder has buried it before its last attempt.
    buried_early: bool,
}

struct Simulation {
    world: World,
    policies: Vec<Policy>,
    tasks: BTreeMap<(usize, u64), Task>,
    /// How many claims have become overdue, unless a fault has hidden some.
    lost: Option<u64>,
}

impl Simulated for Simulation {
    const SALT: u64 = 0xA77E;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let policies: Vec<Policy> = (0..3).map(|_| random_policy(&mut rng)).collect();
        Simulation {
            world: World::new(FIFOTTL, policies.iter().map(Policy::options)),
            policies,
            tasks: BTreeMap::new(),
            lost: Some(0),
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let nth = rng.index(self.policies.len());
        match rng.below(40) {
            0..8 => self.put(nth),
            8..18 => self.take(nth),
            18..30 => self.end_claim(rng),
            30 => self.kick(nth),
            31..36 => self.advance(rng.below(30 * MS)),
            36 => drop(self.done(self.world.store.flush())),
            37 => self.world.arm(rng),
            38 => self.crash(rng),
            _ => self.reopen(rng),
        }
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    fn tube(&self, nth: usize) -> Tube {
        self.world.tubes[nth].clone()
    }

    /// The answer of a call, unless the storage has failed.
    fn done<T>(&mut self, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(
                Error::OutcomeUnknown { .. }
                | Error::Unavailable { .. }
                | Error::Io { .. }
                | Error::DiskFull { .. }
                | Error::NotTaken { .. },
            ) if self.world.disk.tripped() => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn put(&mut self, nth: usize) {
        let answer = self.tube(nth).put("work");
        let Some(receipt) = self.done(answer) else { return };
        let task = Task {
            status: Status::Ready,
            attempts: 0,
            handed_out: 0,
            must_exist: self.policies[nth].durability == Durability::Flush,
            buried_early: false,
        };
        self.tasks.insert((nth, receipt.id), task);
    }

    fn take(&mut self, nth: usize) {
        let policy = self.policies[nth];
        let answer = self.tube(nth).try_take();
        let Some(claim) = self.done(answer) else { return };
        let mut next = None;
        for ((_, id), task) in self.tasks.range_mut((nth, 0)..(nth + 1, 0)) {
            match task.status {
                // A fault has hidden the end of its last attempt: the take buries it.
                Status::Ready if task.attempts == policy.limit => task.status = Status::Buried,
                Status::Ready => {
                    next = Some(*id);
                    break;
                }
                _ => {}
            }
        }
        if !self.world.disk.tripped() {
            let got = claim.as_ref().map(Claim::id);
            let task = got.map(|id| self.tasks.get(&(nth, id)));
            assert_eq!(got, next, "not the next task: {task:?}, {policy:?}");
        }
        let Some(claim) = claim else { return };
        self.world.trace.push(format!("attempt {} of {}", claim.attempt(), claim.id()));
        let task = self.tasks.get_mut(&(nth, claim.id())).expect("a known task");
        task.attempts += 1;
        task.handed_out += 1;
        assert_eq!(claim.attempt(), task.attempts, "{task:?}");
        assert!(task.attempts <= policy.limit, "handed out too often: {task:?}");
        task.must_exist |= policy.counting == Counting::Flushed;
        task.status = Status::Taken(self.world.now + TTR);
        self.world.claims.push(claim);
    }

    /// Ends one of the claims, which may have ended already.
    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let nth = tube_of(&claim);
        let (key, policy, now) = ((nth, claim.id()), self.policies[nth], self.world.now);
        let Some(mut task) = self.tasks.get(&key).copied() else { return };
        let is_held = matches!(task.status, Status::Taken(_)) && claim.attempt() == task.attempts;
        if !self.world.disk.tripped() {
            assert_eq!(claim.is_current().unwrap(), is_held, "{task:?}");
        }
        let delay = rng.pick(&[0, 0, 7 * MS]);
        let (wait, failure) = (Duration::from_micros(delay), Failure::new("crash", "it fails"));
        let is_last = task.attempts == policy.limit;
        let after = |delay: Micros| match delay {
            _ if is_last => Status::Buried,
            0 => Status::Ready,
            delay => Status::Delayed(now + delay),
        };
        let forgiven = if delay > 0 { Status::Delayed(now + delay) } else { Status::Ready };
        let state = |answer: Result<Receipt>| answer.map(|receipt| receipt.state);
        let (name, answer, status) = match rng.below(9) {
            0 => ("ack", state(claim.ack()), None),
            1 => ("snooze", state(claim.end(Outcome::snooze(wait))), Some(forgiven)),
            2 => ("revoke", by_id::revoke(&self.tube(nth), claim.id()), Some(Status::Ready)),
            3 => ("bury_with", state(claim.bury(failure)), Some(Status::Buried)),
            4 => ("release", state(claim.release_in(wait)), Some(after(delay))),
            5 => ("fail_in", state(claim.end(Outcome::fail_in(wait, failure))), Some(after(delay))),
            6 => {
                drop(claim);
                if is_held {
                    self.tasks.entry(key).and_modify(|task| task.status = after(0));
                    self.world.cover("drop");
                }
                return;
            }
            _ => ("fail", state(claim.fail(failure)), Some(after(backoff(policy, task.attempts)))),
        };
        task.must_exist &= name != "ack";
        task.buried_early |= name == "bury_with";
        let is_forgiven = name == "snooze" || name == "revoke";
        if !is_held && !self.world.disk.tripped() {
            // A revoke finds the claim of the next holder, if there is one.
            match answer {
                Err(Error::NotTaken { .. } | Error::NotFound { .. }) => return,
                Ok(_) if name == "revoke" && matches!(task.status, Status::Taken(_)) => {}
                answer => panic!("{name}: {answer:?} of a claim that has ended, {task:?}"),
            }
        } else {
            let is_unknown = matches!(answer, Err(Error::OutcomeUnknown { .. }));
            if is_forgiven || name == "ack" || is_unknown {
                // Whatever the outcome, the attempt may be forgiven.
                self.tasks.insert(key, task);
            }
            let Some(reached) = self.done(answer) else {
                let forgive = |task: &mut Task| task.handed_out = task.handed_out.saturating_sub(1);
                if is_forgiven {
                    self.tasks.entry(key).and_modify(forgive);
                }
                return;
            };
            let state = status.map_or(TaskState::Done, state_of);
            // If the storage fails at the last attempt, the task is ready, and the next take buries it.
            let is_hidden = self.world.disk.tripped() && reached == TaskState::Ready;
            assert!(reached == state || is_hidden, "{name}: {reached:?}, {task:?}");
        }
        self.world.cover(name);
        if is_forgiven {
            task.attempts -= 1;
            task.handed_out = task.handed_out.saturating_sub(1);
        }
        match status {
            Some(status) => self.tasks.insert(key, Task { status, ..task }),
            None => self.tasks.remove(&key),
        };
    }

    fn kick(&mut self, nth: usize) {
        let answer = self.tube(nth).admin().kick(Filter::new());
        let is_unknown = matches!(answer, Err(Error::OutcomeUnknown { .. }));
        if self.done(answer).is_none() && !is_unknown {
            return;
        }
        for (_, task) in self.tasks.range_mut((nth, 0)..(nth + 1, 0)) {
            if task.status == Status::Buried {
                let (status, attempts, handed_out) = (Status::Ready, 0, 0);
                *task = Task { status, attempts, handed_out, buried_early: false, ..*task };
            }
        }
    }

    /// Claims and delays of tasks do not affect each other.
    fn advance(&mut self, by: Micros) {
        let before = self.world.now;
        self.world.advance(by);
        for ((nth, _), task) in &mut self.tasks {
            let policy = self.policies[*nth];
            if let Status::Taken(until) = task.status {
                let end = until + policy.reclaim_delay;
                let is_overdue = (before + 1..=self.world.now).contains(&until);
                if is_overdue && policy.reclaim_delay > 0 {
                    self.lost = self.lost.map(|lost| lost + 1);
                }
                if end <= self.world.now {
                    task.status = match backoff(policy, task.attempts) {
                        _ if task.attempts == policy.limit => Status::Buried,
                        0 => Status::Ready,
                        delay => Status::Delayed(end + delay),
                    };
                }
            }
            if matches!(task.status, Status::Delayed(until) if until <= self.world.now) {
                task.status = Status::Ready;
            }
        }
    }

    /// Compares everything with the model.
    fn compare_all(&self) {
        for (nth, policy) in self.policies.iter().enumerate() {
            let mut found = BTreeMap::new();
            found.extend(tasks_of(&self.tube(nth)).into_iter().map(|info| (info.id, info)));
            for ((_, id), task) in self.tasks.range((nth, 0)..(nth + 1, 0)) {
                let info = found.remove(id).unwrap_or_else(|| panic!("{id} is gone: {task:?}"));
                let due = match task.status {
                    Status::Delayed(until) | Status::Taken(until) => {
                        Some(until.saturating_sub(self.world.now))
                    }
                    Status::Ready | Status::Buried => None,
                };
                let got = (info.state, info.attempts, info.attempts_left, info.due_in.map(micros));
                let left = Some(policy.limit - task.attempts);
                let want = (state_of(task.status), task.attempts, left, due);
                assert_eq!(got, want, "{policy:?}: {info:?}, {task:?}");
                let has_failed = task.status == Status::Buried && !task.buried_early;
                assert!(info.failure.is_some() || !has_failed, "{info:?}");
            }
            assert!(found.is_empty(), "not put: {found:?}");
        }
        if let Some(lost) = self.lost {
            let all = self.world.store.statistics().unwrap();
            assert_eq!(all.values().map(|tube| tube.calls.lost).sum::<u64>(), lost);
        }
    }
}

impl Policy {
    fn options(&self) -> TubeOptions {
        let backoff = Backoff::exponential(Duration::from_micros(self.backoff));
        TubeOptions::new()
            .ttr(Duration::from_micros(TTR))
            .max_attempts(self.limit)
            .count_takes(self.counting)
            .durability(self.durability)
            .backoff(if self.backoff > 0 { backoff } else { Backoff::none() })
            .reclaim_delay(Duration::from_micros(self.reclaim_delay))
            .metrics(self.limit % 2 * 3)
    }
}

fn random_policy(rng: &mut Rng) -> Policy {
    Policy {
        limit: rng.pick(&[1, 2, 3]),
        counting: rng.pick(&[Counting::Lazily, Counting::Written, Counting::Flushed]),
        durability: rng.pick(&[Durability::Flush, Durability::write(), Durability::relaxed()]),
        backoff: rng.pick(&[0, 5 * MS]),
        reclaim_delay: rng.pick(&[0, 15 * MS]),
    }
}

/// The delay after an attempt.
fn backoff(policy: Policy, attempt: u32) -> Micros {
    policy.backoff << (attempt - 1)
}

fn state_of(status: Status) -> TaskState {
    match status {
        Status::Ready => TaskState::Ready,
        Status::Delayed(_) => TaskState::Delayed,
        Status::Taken(_) => TaskState::Taken,
        Status::Buried => TaskState::Buried,
    }
}

fn tasks_of(tube: &Tube) -> Vec<TaskInfo> {
    let states = [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried];
    let list = |state| tube.query().list(state, None, 10_000).unwrap().items;
    states.into_iter().flat_map(list).collect()
}

#[test]
fn attempts_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = ["ack", "snooze", "revoke", "bury_with", "release", "fail_in", "fail", "drop"];
    run_seeds::<Simulation>("attempts_match", &wanted);
}
