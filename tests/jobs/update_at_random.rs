//! Random updates beside all other verbs, against a list of the tasks.

use std::collections::BTreeMap;

use tubewell::{
    Claim, Durability, Error, Failure, Filter, Keep, Put, TaskState, Tube, TubeOptions, Update,
};

use super::rng::Rng;
use super::support::*;
use crate::size::amount;

const STEPS: usize = 400;

/// What a task is expected to be.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    priority: u32,
    sub: String,
    body: Vec<u8>,
    state: TaskState,
}

struct Run<'a> {
    tube: &'a Tube,
    rng: Rng,
    tasks: BTreeMap<u64, Expected>,
    claims: Vec<Claim>,
    /// How many tasks of a sub-queue may be taken.
    limit: usize,
}

#[test]
fn random_updates_agree_with_a_list_of_the_tasks() {
    for durability in [Durability::Flush, Durability::relaxed()] {
        for seed in 0..amount(2, 5, 1000) {
            let keep = TubeOptions::new().keep_done(Keep::new()).durability(durability);
            for_each_driver_with(TIMED, keep.clone(), |case| run(case, seed, 1));
            let limited = keep.sub_queue_limit(3);
            for_each_driver_with(&[tubewell::UTUBETTL], limited, |case| run(case, seed, 3));
        }
    }
}

fn run(case: &Case, seed: u64, limit: usize) {
    println!("seed {seed}, limit {limit}");
    let (tasks, claims) = (BTreeMap::new(), Vec::new());
    let mut run = Run { tube: &case.tube, rng: Rng::new(seed), tasks, claims, limit };
    for _ in 0..STEPS {
        run.step(case);
    }
    run.check_all();
    assert_sound(&case.store);
    run.drain(case.sub_queued());
}

impl Run<'_> {
    fn step(&mut self, case: &Case) {
        match self.rng.below(16) {
            0..=3 => self.put(case.sub_queued()),
            4 | 5 => self.take(case.sub_queued()),
            6 => self.end_claim(),
            7 | 8 => self.set_priority(),
            9..=11 => self.update(),
            12 => self.cancel(),
            13 => self.bury(),
            14 => self.kick(),
            _ => self.delete_many(),
        }
    }

    fn body(&mut self) -> Vec<u8> {
        let size = self.rng.pick(&[0, 3, 1024, 1025, 4000]);
        vec![self.rng.pick(b"abcdef"); size]
    }

    fn priority(&mut self) -> u32 {
        self.rng.pick(&[0, 1, 2, 3])
    }

    /// Any id, mostly of a task.
    fn any(&mut self) -> u64 {
        let next = self.tasks.keys().next_back().map_or(0, |last| last + 1);
        self.rng.below(next + 1)
    }

    fn put(&mut self, sub_queued: bool) {
        let (body, priority) = (self.body(), self.priority());
        let sub = if sub_queued { format!("{}", self.rng.below(4)) } else { String::new() };
        let mut put = Put::new(body.clone()).priority(priority);
        if sub_queued {
            put = put.sub_queue(sub.clone());
        }
        let id = self.tube.put(put).unwrap().id;
        self.tasks.insert(id, Expected { priority, sub, body, state: TaskState::Ready });
    }

    /// The task that a take gets.
    fn best(&self, sub_queued: bool) -> Option<u64> {
        let is_busy = |sub: &str| {
            let taken =
                self.tasks.values().filter(|it| it.state == TaskState::Taken && it.sub == sub);
            sub_queued && taken.count() >= self.limit
        };
        let ready = self.tasks.iter().filter(|(_, it)| it.state == TaskState::Ready);
        let free = ready.filter(|(_, it)| !is_busy(&it.sub));
        free.map(|(id, it)| (it.priority, *id)).min().map(|(_, id)| id)
    }

    fn take(&mut self, sub_queued: bool) {
        let claim = self.tube.try_take().unwrap();
        assert_eq!(claim.as_ref().map(Claim::id), self.best(sub_queued));
        let Some(claim) = claim else { return };
        let it = self.tasks.get_mut(&claim.id()).unwrap();
        assert_eq!((claim.body(), claim.priority()), (&*it.body, it.priority));
        it.state = TaskState::Taken;
        self.claims.push(claim);
    }

    fn end_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let nth = self.rng.index(self.claims.len());
        let claim = self.claims.swap_remove(nth);
        let id = claim.id();
        let (ended, state) = match self.rng.below(4) {
            0 => (claim.ack(), TaskState::Done),
            1 => (claim.release(), TaskState::Ready),
            2 => (claim.release_in(secs(1000)), TaskState::Delayed),
            _ => (claim.bury(Failure::new("group", "message")), TaskState::Buried),
        };
        assert_eq!(ended.unwrap().state, state);
        self.tasks.get_mut(&id).unwrap().state = state;
    }

    /// The claim on a task has ended, if there was one.
    fn forget_claim(&mut self, id: u64) {
        if let Some(nth) = self.claims.iter().position(|claim| claim.id() == id) {
            assert_not_taken(self.claims.swap_remove(nth).ack(), id);
        }
    }

    fn set_priority(&mut self) {
        let (id, priority) = (self.any(), self.priority());
        match self.tasks.get_mut(&id) {
            None => assert_not_found(self.tube.admin().set_priority(id, priority), id),
            Some(it) => {
                assert_eq!(self.tube.admin().set_priority(id, priority).unwrap().state, it.state);
                it.priority = priority;
            }
        }
    }

    fn update(&mut self) {
        let id = self.any();
        let body = self.rng.one_in(2).then(|| self.body());
        let priority = self.rng.one_in(2).then(|| self.priority());
        let delay = self.rng.one_in(3).then(|| secs(self.rng.below(2) * 1000));
        let mut update = Update::new();
        update = body.clone().into_iter().fold(update, Update::body);
        update = priority.into_iter().fold(update, Update::priority);
        update = delay.into_iter().fold(update, Update::delay);
        let updated = self.tube.update(id, update);
        let Some(it) = self.tasks.get_mut(&id) else { return assert_not_found(updated, id) };
        let is_refused = [TaskState::Taken, TaskState::Done].contains(&it.state)
            || (it.state == TaskState::Buried && delay.is_some());
        if is_refused {
            let state = it.state;
            assert!(matches!(updated, Err(Error::NotReady { state: its, .. }) if its == state));
            return;
        }
        it.body = body.unwrap_or_else(|| it.body.clone());
        it.priority = priority.unwrap_or(it.priority);
        if let Some(delay) = delay {
            it.state = if delay.is_zero() { TaskState::Ready } else { TaskState::Delayed };
        }
        assert_eq!(updated.unwrap().state, it.state);
    }

    fn cancel(&mut self) {
        let id = self.any();
        let cancelled = self.tube.cancel(id);
        match self.tasks.get(&id).map(|it| it.state) {
            None => assert_not_found(cancelled, id),
            Some(state @ (TaskState::Taken | TaskState::Done)) => {
                assert!(
                    matches!(cancelled, Err(Error::NotReady { state: its, .. }) if its == state)
                );
            }
            Some(_) => {
                cancelled.unwrap();
                self.tasks.remove(&id);
            }
        }
    }

    fn bury(&mut self) {
        let id = self.any();
        if let Some(it) = self.tasks.get_mut(&id).filter(|it| it.state != TaskState::Done) {
            self.tube.admin().bury(id, None).unwrap();
            it.state = TaskState::Buried;
            self.forget_claim(id);
        }
    }

    fn kick(&mut self) {
        let buried = self.tasks.iter().filter(|(_, it)| it.state == TaskState::Buried);
        let mut buried: Vec<_> = buried.map(|(id, it)| (it.priority, *id)).collect();
        buried.sort_unstable();
        let count = self.rng.index(3);
        buried.truncate(count);
        assert_eq!(
            self.tube.admin().kick(Filter::new().limit(count as u64)).unwrap(),
            buried.len() as u64
        );
        for (_, id) in buried {
            self.tasks.get_mut(&id).unwrap().state = TaskState::Ready;
        }
    }

    fn delete_many(&mut self) {
        if !self.rng.one_in(4) {
            return;
        }
        let ids: Vec<u64> = (0..self.rng.below(4)).map(|_| self.any()).collect();
        let before = self.tasks.len();
        for id in &ids {
            self.tasks.remove(id);
        }
        assert_eq!(
            self.tube.admin().delete(Filter::new().ids(&ids)).unwrap(),
            (before - self.tasks.len()) as u64
        );
        for id in ids {
            self.forget_claim(id);
        }
    }

    fn check_all(&self) {
        for (id, it) in &self.tasks {
            let task = self.tube.query().task(*id).unwrap();
            assert_eq!((task.info.state, task.info.priority), (it.state, it.priority), "task {id}");
            assert_eq!(task.body, it.body, "task {id}");
        }
    }

    /// Takes and acks all that is left, in order.
    fn drain(&mut self, sub_queued: bool) {
        self.claims.clear();
        for it in self.tasks.values_mut().filter(|it| it.state == TaskState::Taken) {
            it.state = TaskState::Ready;
        }
        while let Some(best) = self.best(sub_queued) {
            let claim = self.tube.try_take().unwrap().unwrap();
            assert_eq!(claim.id(), best);
            claim.ack().unwrap();
            self.tasks.remove(&best);
        }
        assert!(self.tube.try_take().unwrap().is_none());
    }
}
