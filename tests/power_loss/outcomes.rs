//! Outcomes in the expected contents: tasks that are kept after their end, with their results, and
//! failure groups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Durability, Ending, Keep, Outcome, Result, TaskState, TubeInfo, TubeOptions};

use crate::history::Step;
use crate::image_run::{RecoveredStore, micros};
use crate::rng::Rng;
use crate::state::{Contents, Found, Kind, NEVER, Survival, Task};

/// Which ended tasks a tube keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    count: Option<u64>,
    age: Option<Duration>,
}

impl Retention {
    /// For the done tasks of a tube: two of three tubes keep some.
    pub fn of_done(rng: &mut Rng) -> Option<Retention> {
        (!rng.one_in(3)).then(|| Retention::random(rng))
    }

    /// For the buried tasks of a tube: one of three tubes limits them.
    pub fn of_buried(rng: &mut Rng) -> Option<Retention> {
        let drawn = rng.one_in(3).then(|| Retention::random(rng));
        drawn.filter(|drawn| drawn.count.is_some() || drawn.age.is_some())
    }

    /// No two tubes have the same age, so that no tasks of two tubes are forgotten at the same time.
    fn random(rng: &mut Rng) -> Retention {
        let count = (!rng.one_in(3)).then(|| rng.pick(&[0, 1, 2, 3, 8]));
        let age = Duration::from_micros(1_000_000 + rng.below(30_000_000));
        Retention { count, age: rng.one_in(3).then_some(age) }
    }

    fn keep(self) -> Keep {
        let keep = self.count.map_or(Keep::new(), |count| Keep::new().count(count));
        self.age.map_or(keep, |age| keep.age(age))
    }
}

impl Kind {
    pub fn with_retention(&self, mut options: TubeOptions) -> TubeOptions {
        if let Some(kept) = self.keep_done {
            options = options.keep_done(kept.keep());
        }
        if let Some(kept) = self.keep_buried {
            options = options.keep_buried(kept.keep());
        }
        options
    }

    pub fn retention_differs(&self, info: &TubeInfo) -> bool {
        let keep = |kept: Option<Retention>| kept.map(Retention::keep);
        (keep(self.keep_done), keep(self.keep_buried)) != (info.keep_done, info.keep_buried)
    }

    /// For a load that does not know the times of its calls.
    pub fn keep_without_limits(&mut self) {
        self.keep_done = self.keep_done.map(|_| Retention::default());
        self.keep_buried = None;
    }

    /// Whether it keeps a task that is done, until newer ones are.
    pub fn keeps_done(&self) -> bool {
        self.keep_done.is_some_and(|kept| kept.count != Some(0))
    }

    /// How a task is kept that is put back as done: until then, or as if it had ended now.
    pub fn keep_restored(&self, task: &mut Task, now: u64, until: Option<u64>) {
        let age = self.keep_done.and_then(|kept| kept.age).map(micros);
        task.kept_until = until.unwrap_or(age.map_or(NEVER, |age| now + age));
        task.ended = now.min(task.kept_until.saturating_sub(age.unwrap_or(0)));
    }

    fn retention(&self, state: TaskState) -> Option<Retention> {
        if state == TaskState::Done { self.keep_done } else { self.keep_buried }
    }
}

impl Contents {
    /// A task is done: removed, or kept with its result.
    pub fn finish(&mut self, id: u64, result: Option<Arc<[u8]>>) {
        let Some(task) = self.tasks.get(&id) else { return };
        if self.tubes[task.tube].keep_done.is_none() {
            self.tasks.remove(&id);
            return;
        }
        self.change(id, |task| {
            (task.state, task.parked, task.is_counted) = (TaskState::Done, None, false);
            (task.result, task.group, task.not_before) = (result, None, None);
        });
        self.keep(id);
    }

    pub fn remove_results(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.result.is_some()) {
            Arc::make_mut(task).result = None;
        }
    }

    pub fn bury(&mut self, id: u64, failure: Option<&'static str>) {
        self.change(id, |task| {
            (task.state, task.parked, task.is_counted) = (TaskState::Buried, None, false);
            (task.group, task.failure) = (failure, failure.or(task.failure));
        });
        self.keep(id);
    }

    /// Keeps a task that is done or buried now, as its tube does, and removes the oldest ones.
    pub fn keep(&mut self, id: u64) {
        self.keep_ended_at(id, self.now);
    }

    /// As `keep`, for a task that has ended at this time. How long it is kept begins now.
    pub fn keep_ended_at(&mut self, id: u64, ended: u64) {
        let Some(Task { tube, state, .. }) = self.tasks.get(&id).map(|task| &**task) else {
            return;
        };
        let (tube, state, now) = (*tube, *state, self.now);
        let retention = self.tubes[tube].retention(state);
        let age = retention.and_then(|kept| kept.age).map_or(NEVER, micros);
        self.change(id, |task| (task.ended, task.kept_until) = (ended, now.saturating_add(age)));
        self.trim(tube, state);
    }

    /// Removes the oldest tasks of those in a state that exceed the number that their tube keeps.
    pub fn trim(&mut self, tube: &str, state: TaskState) {
        let retention = self.tubes[tube].retention(state);
        let Some(most) = retention.and_then(|kept| kept.count) else { return };
        let mut kept = self.ended(tube, state);
        kept.sort_unstable();
        let excess = kept.len().saturating_sub(usize::try_from(most).unwrap());
        for (_, id) in &kept[..excess] {
            self.tasks.remove(id);
        }
    }

    /// Kicks up to `count` buried tasks of a tube; returns their number. The first ones are
    /// those of the least priority and id, or those that were buried first if the tube limits them.
    pub fn kick(&mut self, tube: &str, count: u64) -> u64 {
        let mut buried = self.ended(tube, TaskState::Buried);
        if self.tubes[tube].keep_buried.is_none() {
            for (rank, id) in &mut buried {
                *rank = self.tasks[id].priority.into();
            }
        }
        buried.sort_unstable();
        buried.truncate(usize::try_from(count).unwrap());
        let now = self.now;
        for (_, id) in &buried {
            self.change(*id, |task| task.kick(now));
        }
        buried.len() as u64
    }

    /// The tasks of a tube in this state, with the time at which each one has ended.
    fn ended(&self, tube: &str, state: TaskState) -> Vec<(u64, u64)> {
        let of_tube = self.tasks.iter().filter(|(_, task)| task.tube == tube);
        of_tube
            .filter(|(_, task)| task.state == state)
            .map(|(id, task)| (task.ended, *id))
            .collect()
    }

    /// The failure groups of a tube, with their counts and their tasks.
    fn groups(&self, tube: &str) -> BTreeMap<String, (u64, Vec<u64>)> {
        let mut groups: BTreeMap<String, (u64, Vec<u64>)> = BTreeMap::new();
        for (id, task) in self.tasks.iter().filter(|(_, task)| task.tube == tube) {
            if let Some(group) = task.group {
                let (count, ids) = groups.entry(group.to_owned()).or_default();
                *count += 1;
                ids.push(*id);
            }
        }
        groups
    }

    /// Describes the first difference of the results and the failure groups, if any.
    pub fn difference_of_outcomes(&self, found: &Found) -> Option<String> {
        for (id, ending) in &found.endings {
            let result = self.tasks[id].result.as_deref().map(<[u8]>::to_vec);
            if *ending != Some(Ending::Done { result }) {
                let found = format!("{ending:?}").chars().take(100).collect::<String>();
                return Some(format!("the result of task {id}: {found}, {:?}", self.tasks[id]));
            }
        }
        let stored = self.tubes.iter().filter(|(_, kind)| !kind.temporary);
        for (tube, expected) in stored.map(|(tube, _)| (*tube, self.groups(tube))) {
            if found.groups.get(tube) != Some(&expected) {
                let found = found.groups.get(tube);
                return Some(format!("failure groups of {tube:?}: {found:?}, not {expected:?}"));
            }
        }
        None
    }
}

impl RecoveredStore<'_> {
    /// Ends a task of a tube that keeps done ones, with a result, and forgets the newest of those
    /// that were done before.
    pub fn resolve_and_forget(&self, contents: &mut Contents, steps: &mut Vec<Step>) -> Result<()> {
        let of_state = |contents: &Contents, is: fn(TaskState) -> bool| {
            let is_overdue = |task: &Task| task.next_change() <= self.expected.now;
            let mut tasks = contents.tasks.iter().rev();
            let found = tasks.find(|(_, task)| {
                let keeps = contents.tubes[task.tube].keep_done.is_some();
                keeps && is(task.state) && !is_overdue(task)
            });
            found.map(|(id, task)| (*id, task.tube))
        };
        let done = of_state(contents, |state| state == TaskState::Done);
        let open =
            of_state(contents, |state| matches!(state, TaskState::Ready | TaskState::Buried));
        if let Some((id, tube)) = open {
            let issued = self.disk.position();
            let result = b"after recovery".as_slice();
            let receipt =
                self.store.find_tube(tube)?.admin().resolve(id, Outcome::result(result))?;
            contents.finish(id, Some(result.into()));
            let step = self.step_of(tube, "resolve after recovery", issued, contents);
            steps.push(Step { commit: Some(receipt.commit), ..step });
        }
        // The resolved task may have taken its place.
        if let Some((id, tube)) = done.filter(|(id, _)| contents.tasks.contains_key(id)) {
            let issued = self.disk.position();
            let receipt = self.store.find_tube(tube)?.admin().forget(id)?;
            contents.tasks.remove(&id);
            let step = self.step_of(tube, "forget after recovery", issued, contents);
            steps.push(Step { commit: Some(receipt.commit), ..step });
        }
        Ok(())
    }

    fn step_of(&self, tube: &str, what: &'static str, issued: usize, contents: &Contents) -> Step {
        let step = self.step(what, issued, contents);
        let is_flushed = contents.tubes[tube].survival(Durability::Flush) == Survival::FromAnswer;
        Step { durable_from: step.durable_from.filter(|_| is_flushed), ..step }
    }
}
