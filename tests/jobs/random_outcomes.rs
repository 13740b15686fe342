//! Random calls on tubes that keep what has ended, compared with a model. In between the store is
//! closed or killed.

use std::collections::BTreeMap;

use tubewell::driver::{FIFO, UTUBE, UTUBETTL};
use tubewell::{
    Claim, Ending, Failure, Filter, Keep, Outcome, Put, Store, TaskState, Tube, TubeOptions,
};

use super::files::{after_a_kill, create_with};
use super::rng::Rng;
use super::support::*;
use super::wait::{Wait, wait_for};
use crate::size::amount;
use crate::stores;

const GROUPS: [&str; 3] = ["crash", "timeout", "timeout of a peer"];
const AGE: u64 = 20_000;

/// A task as the model has it.
#[derive(Clone, Debug, PartialEq)]
enum Task {
    Ready,
    Taken,
    /// With its group, and when it was buried.
    Buried(Option<&'static str>, u64),
    /// With its result, and when it was done.
    Done(Option<String>, u64),
}

#[derive(Clone, Copy)]
struct Limits {
    done: u64,
    buried: u64,
}

struct Run {
    rng: Rng,
    limits: Limits,
    file: StoreFile,
    store: Store,
    tube: Tube,
    sub_queued: bool,
    tasks: BTreeMap<u64, Task>,
    claims: Vec<Claim>,
    waits: Vec<(u64, Wait<Option<Ending>>)>,
    now: u64,
}

impl Run {
    fn new(seed: u64, driver: &'static str) -> Run {
        let mut rng = Rng::new(seed);
        let limits = Limits { done: rng.below(5), buried: rng.below(4) };
        let keep = |count| Keep::new().count(count).age(ms(AGE));
        let options = TubeOptions::new()
            .keep_done(keep(limits.done))
            .keep_buried(keep(limits.buried))
            .temporary(rng.one_in(4));
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, options);
        let sub_queued = SUB_QUEUED.contains(&driver);
        let (tasks, claims, waits) = (BTreeMap::new(), Vec::new(), Vec::new());
        Run { rng, limits, file, store, tube, sub_queued, tasks, claims, waits, now: 0 }
    }

    fn is_temporary(&self) -> bool {
        self.store.tubes().unwrap()[0].temporary
    }

    fn step(&mut self) {
        match self.rng.below(24) {
            0..=5 => self.put(),
            6..=9 => self.take(),
            10..=15 => self.end_claim(),
            16..=19 => self.administer(),
            20..=21 => self.advance(),
            22 if self.rng.one_in(8) => self.truncate(),
            23 if self.rng.one_in(4) => self.reopen(),
            _ => self.wait(),
        }
        self.check();
    }

    fn put(&mut self) {
        let body = "x".repeat(if self.rng.one_in(3) { 3_000 } else { 3 });
        let mut put = Put::new(body);
        if self.sub_queued {
            put = put.sub_queue(format!("sub {}", self.rng.below(4)));
        }
        let id = self.tube.put(put).unwrap().id;
        assert!(self.tasks.insert(id, Task::Ready).is_none());
    }

    fn take(&mut self) {
        if let Some(claim) = self.tube.try_take().unwrap() {
            assert_eq!(self.tasks.insert(claim.id(), Task::Taken), Some(Task::Ready));
            self.claims.push(claim);
        }
    }

    fn end_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let at = self.rng.index(self.claims.len());
        let claim = self.claims.swap_remove(at);
        let id = claim.id();
        match self.rng.below(6) {
            0 => {
                claim.ack().unwrap();
                self.end(id, Task::Done(None, self.now));
            }
            1 | 2 => {
                let result = self.result();
                claim.end(Outcome::result(&*result)).unwrap();
                self.end(id, Task::Done(Some(result), self.now));
            }
            3 | 4 => {
                let group = self.rng.pick(&GROUPS);
                claim.bury(Failure::new(group, "why")).unwrap();
                self.end(id, Task::Buried(Some(group), self.now));
            }
            _ => {
                claim.release().unwrap();
                self.tasks.insert(id, Task::Ready);
            }
        }
    }

    fn result(&mut self) -> String {
        let length = self.rng.pick(&[0, 7, 4_000]);
        "r".repeat(length)
    }

    /// A call on a task in any state, by any caller.
    fn administer(&mut self) {
        let ids: Vec<u64> = self.tasks.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = self.rng.pick(&ids);
        let task = self.tasks[&id].clone();
        match self.rng.below(5) {
            0 => {
                let result = self.result();
                let resolved = self.tube.admin().resolve(id, Outcome::result(result.as_bytes()));
                let expected = matches!(task, Task::Ready | Task::Buried(..));
                assert_eq!(resolved.is_ok(), expected, "{task:?}: {resolved:?}");
                if expected {
                    self.end(id, Task::Done(Some(result), self.now));
                }
            }
            1 => {
                let forgotten = self.tube.admin().forget(id).is_ok();
                assert_eq!(forgotten, matches!(task, Task::Done(..)), "{task:?}");
                if forgotten {
                    self.gone(id, Ending::Gone);
                }
            }
            2 => {
                let kicked = self.tube.kick(id).is_ok();
                assert_eq!(kicked, matches!(task, Task::Buried(..)), "{task:?}");
                if kicked {
                    self.tasks.insert(id, Task::Ready);
                }
            }
            3 => {
                let buried = self.tube.admin().bury(id, None).is_ok();
                assert_eq!(buried, !matches!(task, Task::Done(..)), "{task:?}");
                if matches!(task, Task::Ready | Task::Taken) {
                    self.claims.retain(|claim| claim.id() != id);
                    self.end(id, Task::Buried(None, self.now));
                }
            }
            _ => {
                self.tube.delete(id).unwrap();
                self.claims.retain(|claim| claim.id() != id);
                self.gone(id, Ending::Deleted);
            }
        }
    }

    fn advance(&mut self) {
        let millis = self.rng.pick(&[0, 1, 1_000, AGE / 2]);
        self.file.clock.advance(ms(millis));
        self.now += millis;
        self.forget_aged();
    }

    fn forget_aged(&mut self) {
        let now = self.now;
        self.tasks.retain(|_, task| match task {
            Task::Buried(_, ended) | Task::Done(_, ended) => *ended + AGE > now,
            Task::Ready | Task::Taken => true,
        });
        self.store.flush().unwrap();
    }

    fn truncate(&mut self) {
        self.tube.admin().truncate().unwrap();
        self.claims.clear();
        self.tasks.clear();
        for (_, wait) in self.waits.drain(..) {
            assert_eq!(wait.answer(), Ok(Some(Ending::Gone)));
        }
    }

    /// Closes or kills the store, and opens it later.
    fn reopen(&mut self) {
        self.waits.clear();
        let is_temporary = self.is_temporary();
        let millis = self.rng.pick(&[0, 1_000, AGE / 2]);
        if self.rng.one_in(2) {
            let (mut file, store) = after_a_kill(&self.file);
            // The claims are of the killed store: they end without a release.
            for claim in self.claims.drain(..) {
                let _ = claim.detach();
            }
            file.clock = self.file.clock.clone();
            (self.store, self.file) = (store, file);
        } else {
            self.claims.clear();
            stores::close(&self.store);
            self.file.clock.advance(ms(millis));
            self.now += millis;
            self.store = self.file.open();
        }
        self.tube = self.store.find_tube("case").unwrap();
        self.file.clock.advance(ZERO);
        self.store.admin().catch_up().unwrap();
        if is_temporary {
            self.tasks.clear();
        }
        for task in self.tasks.values_mut().filter(|task| **task == Task::Taken) {
            *task = Task::Ready;
        }
        self.forget_aged();
    }

    /// Begins a wait for a task that is not over.
    fn wait(&mut self) {
        let open = self.tasks.iter().filter(|(_, task)| matches!(task, Task::Ready | Task::Taken));
        let open: Vec<u64> = open.map(|(id, _)| *id).collect();
        if !open.is_empty() {
            let id = self.rng.pick(&open);
            self.waits.push((id, wait_for(&self.tube, id)));
        }
    }

    /// A task has ended: its waits are answered, and the oldest ones are forgotten.
    fn end(&mut self, id: u64, task: Task) {
        let is_done = matches!(task, Task::Done(..));
        self.answer(id, |ending| assert!(is_ending_of(ending, &task), "{ending:?} of {task:?}"));
        self.tasks.insert(id, task);
        let most = if is_done { self.limits.done } else { self.limits.buried };
        let mut kept: Vec<(u64, u64)> = self
            .tasks
            .iter()
            .filter_map(|(id, task)| match task {
                Task::Done(_, ended) if is_done => Some((*ended, *id)),
                Task::Buried(_, ended) if !is_done => Some((*ended, *id)),
                _ => None,
            })
            .collect();
        kept.sort_unstable();
        let excess = kept.len().saturating_sub(usize::try_from(most).unwrap());
        for (_, id) in &kept[..excess] {
            self.tasks.remove(id);
        }
    }

    fn gone(&mut self, id: u64, expected: Ending) {
        self.tasks.remove(&id);
        self.answer(id, |ending| assert_eq!(*ending, expected));
    }

    fn answer(&mut self, id: u64, check: impl Fn(&Ending)) {
        let (answered, rest) =
            std::mem::take(&mut self.waits).into_iter().partition(|it| it.0 == id);
        self.waits = rest;
        let answered: Vec<(u64, Wait<Option<Ending>>)> = answered;
        for (_, wait) in answered {
            check(&wait.answer().unwrap().unwrap());
        }
    }

    fn check(&mut self) {
        for (id, wait) in &self.waits {
            assert!(matches!(self.tasks[id], Task::Ready | Task::Taken));
            wait.assert_waits();
        }
        for id in 0..self.store.admin().next_id().unwrap().min(400) {
            let outcome = self.tube.ending(id).unwrap();
            let state = state(&self.tube, id);
            match self.tasks.get(&id) {
                None => assert_eq!((outcome, state), (Some(Ending::Gone), None), "task {id}"),
                Some(Task::Ready) => assert_eq!((outcome, state), (None, Some(TaskState::Ready))),
                Some(Task::Taken) => assert_eq!((outcome, state), (None, Some(TaskState::Taken))),
                Some(task) => {
                    let ending = outcome.unwrap();
                    assert!(is_ending_of(&ending, task), "task {id}: {ending:?}, not {task:?}");
                }
            }
        }
        let count = |filter: fn(&Task) -> bool| {
            self.tasks.values().filter(|task| filter(task)).count() as u64
        };
        let tasks = self.tube.statistics().unwrap().tasks;
        assert_eq!(tasks.kept, count(|task| matches!(task, Task::Done(..))));
        assert_eq!(tasks.buried, count(|task| matches!(task, Task::Buried(..))));
        assert_eq!(tasks.ready, count(|task| *task == Task::Ready));
        for group in GROUPS {
            let of_group = self
                .tasks
                .iter()
                .filter(|(_, task)| matches!(task, Task::Buried(Some(name), _) if *name == group));
            let mut expected: Vec<(u64, u64)> = of_group
                .map(|(id, task)| match task {
                    Task::Buried(_, ended) => (*ended, *id),
                    _ => (0, *id),
                })
                .collect();
            expected.sort_unstable_by(|one, other| other.cmp(one));
            let listed = self
                .tube
                .query()
                .list(Filter::new().group(group).newest_first(), None, 1_000)
                .unwrap()
                .items;
            let listed: Vec<u64> = listed.into_iter().map(|task| task.id).collect();
            assert_eq!(listed, expected.iter().map(|(_, id)| *id).collect::<Vec<u64>>());
            let groups = self.tube.query().groups().unwrap();
            let counted = groups.iter().find(|it| it.name == group).map_or(0, |it| it.count);
            assert_eq!(counted, listed.len() as u64);
        }
    }
}

/// Whether this is the ending of a task that is done or buried. The last failure may be of an
/// earlier bury.
fn is_ending_of(ending: &Ending, task: &Task) -> bool {
    match (ending, task) {
        (Ending::Done { result }, Task::Done(expected, _)) => {
            result.as_deref() == expected.as_deref().map(str::as_bytes)
        }
        (Ending::Buried { failure }, Task::Buried(Some(group), _)) => {
            failure.as_ref().is_some_and(|failure| failure.group == *group)
        }
        (Ending::Buried { .. }, Task::Buried(None, _)) => true,
        _ => false,
    }
}

#[test]
fn random_calls_agree_with_a_model_of_retention() {
    let seeds = amount(1, 2, 1000);
    for driver in [FIFO, UTUBE, UTUBETTL] {
        for seed in 0..seeds {
            println!("driver {driver}, seed {seed}");
            let mut run = Run::new(seed, driver);
            for _ in 0..120 {
                run.step();
            }
            assert_sound(&run.store);
        }
    }
}
