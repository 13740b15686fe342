//! Random moments, delays and clocks that are set, against a list of the tasks.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{Put, Store, TaskState, Tube, Update};

use super::files::create;
use super::not_before::START;
use super::rng::Rng;
use super::support::*;
use crate::size::amount;

const STEPS: usize = 300;

/// What a task is expected to be.
#[derive(Clone, Debug)]
struct Expected {
    state: TaskState,
    /// The time on the timeline at which its delay elapses.
    delayed_until: Duration,
    /// In the time of the wall clock.
    moment: Option<Duration>,
}

struct Run {
    file: StoreFile,
    driver: &'static str,
    store: Option<Store>,
    rng: Rng,
    tasks: BTreeMap<u64, Expected>,
}

#[test]
fn random_moments_agree_with_a_list_of_the_tasks() {
    for driver in TIMED {
        for seed in 0..amount(2, 8, 2000) {
            println!("driver {driver}, seed {seed}");
            let file = StoreFile::new();
            let (store, _) = create(&file, driver);
            let (rng, tasks) = (Rng::new(seed), BTreeMap::new());
            let mut run = Run { file, driver, store: Some(store), rng, tasks };
            for step in 0..STEPS {
                run.step(step);
            }
            assert_sound(run.store());
        }
    }
}

impl Run {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn tube(&self) -> Tube {
        self.store().find_tube("case").unwrap()
    }

    /// The timeline, and the wall clock.
    fn now(&self) -> (Duration, Duration) {
        let report = self.store().admin().clock_report().unwrap();
        (report.timeline, report.wall)
    }

    fn step(&mut self, step: usize) {
        match self.rng.below(16) {
            0..=3 => self.put(),
            4 | 5 => self.update(),
            6 | 7 => self.take_and_end(),
            8 => self.bury_or_kick(),
            9..=11 => {
                let by = self.time();
                self.file.clock.advance(by);
            }
            12 => {
                let by = self.time();
                self.file.clock.suspend(by);
            }
            13 | 14 => {
                let (ahead, back) = (self.time(), self.time());
                let wall = self.now().1;
                self.file.clock.set_wall((wall + ahead * 2).saturating_sub(back * 2));
                self.file.clock.advance(ZERO);
            }
            _ => {
                let (store, closed_for) = (self.store.take().unwrap(), self.time());
                self.store = Some(self.file.reopen_after(store, closed_for));
                self.file.clock.advance(ZERO);
            }
        }
        self.pass();
        self.check(step);
    }

    fn time(&mut self) -> Duration {
        secs(self.rng.below(20))
    }

    fn moment(&mut self) -> Option<Duration> {
        let (ahead, wall) = (self.time(), self.now().1);
        (self.rng.below(4) > 0).then(|| (wall + ahead).saturating_sub(secs(5)))
    }

    fn put(&mut self) {
        let (moment, (now, _)) = (self.moment(), self.now());
        let delay = if self.rng.below(3) == 0 { self.time() } else { ZERO };
        let sub = format!("own-{}", self.tasks.len());
        let mut put = Put::new("x").delay(delay);
        if SUB_QUEUED.contains(&self.driver) {
            put = put.sub_queue(sub);
        }
        put = moment.into_iter().fold(put, |put, moment| put.not_before(at(moment)));
        let receipt = self.tube().put(put).unwrap();
        let state = TaskState::Delayed;
        self.tasks.insert(receipt.id, Expected { state, delayed_until: now + delay, moment });
        self.pass();
        assert_eq!(receipt.state, self.tasks[&receipt.id].state);
    }

    fn update(&mut self) {
        let (moment, (now, _)) = (self.moment(), self.now());
        let delay = (self.rng.below(2) == 0).then(|| self.time());
        let Some((id, tube)) = self.any(&[TaskState::Ready, TaskState::Delayed]) else { return };
        let update = Update::new().not_before(moment.map(at));
        let update = delay.into_iter().fold(update, Update::delay);
        let receipt = tube.update(id, update).unwrap();
        let task = self.tasks.get_mut(&id).unwrap();
        (task.moment, task.state) = (moment, TaskState::Delayed);
        task.delayed_until = delay.map_or(task.delayed_until, |delay| now + delay);
        self.pass();
        assert_eq!(receipt.state, self.tasks[&id].state);
    }

    fn take_and_end(&mut self) {
        let Some(claim) = self.tube().try_take().unwrap() else {
            assert!(self.tasks.values().all(|task| task.state != TaskState::Ready));
            return;
        };
        let id = claim.id();
        assert_eq!(self.tasks[&id].state, TaskState::Ready);
        if self.rng.below(2) == 0 {
            claim.ack().unwrap();
            self.tasks.remove(&id);
            return;
        }
        let delay = if self.rng.below(2) == 0 { ZERO } else { self.time() };
        if self.rng.below(2) == 0 {
            let (back, wall) = (self.time(), self.now().1);
            self.file.clock.set_wall(wall - back);
            self.file.clock.advance(ZERO);
        }
        claim.release_in(delay).unwrap();
        let (now, _) = self.now();
        let task = self.tasks.get_mut(&id).unwrap();
        (task.state, task.delayed_until) = (TaskState::Delayed, now + delay);
    }

    fn bury_or_kick(&mut self) {
        if let Some((id, tube)) = self.any(&[TaskState::Buried]) {
            tube.kick(id).unwrap();
            let (now, _) = self.now();
            let task = self.tasks.get_mut(&id).unwrap();
            (task.state, task.delayed_until) = (TaskState::Delayed, now);
        } else if let Some((id, tube)) = self.any(&[TaskState::Ready, TaskState::Delayed]) {
            tube.admin().bury(id, None).unwrap();
            self.tasks.get_mut(&id).unwrap().state = TaskState::Buried;
        }
    }

    /// Any task in one of these states.
    fn any(&mut self, states: &[TaskState]) -> Option<(u64, Tube)> {
        let found = self.tasks.iter().filter(|(_, task)| states.contains(&task.state));
        let ids: Vec<u64> = found.map(|(id, _)| *id).collect();
        let at = self.rng.below(ids.len().max(1) as u64);
        Some((*ids.get(usize::try_from(at).unwrap())?, self.tube()))
    }

    /// Makes the tasks ready for which nothing is left to wait.
    fn pass(&mut self) {
        let (now, wall) = self.now();
        for task in self.tasks.values_mut().filter(|task| task.state == TaskState::Delayed) {
            if task.delayed_until <= now && task.moment.is_none_or(|moment| moment <= wall) {
                task.state = TaskState::Ready;
            }
        }
    }

    fn check(&self, step: usize) {
        let tube = self.tube();
        let (now, wall) = self.now();
        for (id, task) in &self.tasks {
            let info = tube.query().task(*id).unwrap().info;
            assert_eq!(info.state, task.state, "step {step}, task {id}: {task:?}");
            assert_eq!(info.not_before, task.moment.map(at), "step {step}, task {id}");
            let delay = task.delayed_until.saturating_sub(now);
            let left = task.moment.unwrap_or_default().saturating_sub(wall);
            let due_in = (task.state == TaskState::Delayed).then(|| delay.max(left));
            assert_eq!(info.due_in, due_in, "step {step}, task {id}: {task:?}");
        }
        if step.is_multiple_of(20) {
            assert_sound(self.store());
        }
    }
}

/// The moment at which the wall clock shows this time.
fn at(since_1970: Duration) -> SystemTime {
    assert!(since_1970 > START / 2);
    UNIX_EPOCH + since_1970
}
