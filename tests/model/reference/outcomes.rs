//! Outcomes: how tasks have ended, and what is kept of those that are done or buried.
//!
//! A tube may keep the tasks that are done: the newest ones up to a number, each for a time. They
//! take no place of its capacity. It may limit in the same way which buried tasks it keeps.

use super::{
    Answer, Cause, Ending, Keep, Micros, Model, NEVER, OnParent, Refusal, Stage, State, Status,
    Task, TaskNo, TubeNo, Verb,
};

impl Model {
    // ---- verbs of any caller

    /// Ends a task that nobody has taken as its holder would.
    pub fn resolve(&mut self, tube: TubeNo, id: TaskNo, result: Option<Vec<u8>>) -> Answer<State> {
        if matches!(self.peek(tube, id)?.state(), State::Taken | State::Done | State::Recurring) {
            return Err(Refusal::NotReady);
        }
        self.end_done(id, Cause::Verb(Verb::Resolve), result);
        self.serve();
        Ok(State::Done)
    }

    /// Removes a task that is done and kept.
    pub fn forget(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        if self.peek(tube, id)?.state() != State::Done {
            return Err(Refusal::NotDone);
        }
        self.remove(id, Cause::Verb(Verb::Forget));
        Ok(State::Done)
    }

    /// The failure groups, by name, with the number of buried tasks in each.
    pub fn groups(&self, tube: TubeNo) -> Vec<(String, u64)> {
        let buried = || self.tasks(tube).filter(|(_, task)| task.stage() == Stage::Buried);
        let mut names: Vec<&String> =
            buried().filter_map(|(_, task)| task.group.as_ref()).collect();
        names.sort_unstable();
        names.dedup();
        let count = |name| buried().filter(|(_, task)| task.group.as_ref() == Some(name)).count();
        names.into_iter().map(|name| (name.clone(), count(name) as u64)).collect()
    }

    /// The buried tasks of a failure group, the one that was buried last first.
    pub fn list_group(&self, tube: TubeNo, name: &str) -> Vec<TaskNo> {
        let is_in =
            |task: &Task| task.stage() == Stage::Buried && task.group.as_deref() == Some(name);
        let mut ids: Vec<TaskNo> =
            self.tasks(tube).filter(|(_, task)| is_in(task)).map(|(id, _)| id).collect();
        ids.sort_unstable_by_key(|id| self.rank_by_end(*id));
        ids.reverse();
        ids
    }

    /// The tasks of a stage in the order in which they are listed: of takes, but of their ends if
    /// they are done, or buried and their number or time is limited.
    pub fn in_order(&self, tube: TubeNo, stage: Stage) -> Vec<TaskNo> {
        let tasks = self.tasks(tube).filter(|(_, task)| task.stage() == stage);
        let mut ids: Vec<TaskNo> = tasks.map(|(id, _)| id).collect();
        let by_end = match stage {
            Stage::Kept => true,
            Stage::Buried => self.tubes[&tube].options.keep_buried().is_some(),
            _ => false,
        };
        if by_end {
            ids.sort_unstable_by_key(|id| self.rank_by_end(*id));
        } else if stage != Stage::Recurring {
            ids.sort_unstable_by_key(|id| (self.tasks[id].priority, *id));
        }
        ids
    }

    // ---- ends

    /// A task is done. It is kept if its tube keeps any.
    pub(super) fn end_done(&mut self, id: TaskNo, cause: Cause, result: Option<Vec<u8>>) {
        self.answer_watches(id, &Ending::Done(result.clone()));
        self.free_first_children(id);
        let keep = self.tubes[&self.tasks[&id].tube].options.keep_done;
        match keep.filter(|keep| keep.count != Some(0)) {
            None => self.remove(id, cause),
            Some(keep) => {
                self.change(id, cause, Status::Kept);
                let task = self.task(id);
                (task.result, task.group) = (result, None);
                task.parents.clear();
                task.on_parent = OnParent::Wait;
                (task.not_before, task.ttl_from) = (None, None);
                task.steps.clear();
                self.keep_ended(id, Some(keep));
            }
        }
    }

    /// A task is buried, in a failure group or in none.
    pub(super) fn end_buried(&mut self, id: TaskNo, cause: Cause, group: Option<&str>) {
        self.keep_ttl_of_delay(id);
        self.change(id, cause, Status::Buried);
        self.bury_children(id);
        self.answer_buried(id);
        let keep = self.tubes[&self.tasks[&id].tube].options.keep_buried();
        self.task(id).group = group.map(str::to_owned);
        self.keep_ended(id, keep);
    }

    /// Notes the end of a task, and removes those that exceed the number that its tube keeps: the
    /// ones that ended first.
    fn keep_ended(&mut self, id: TaskNo, keep: Option<Keep>) {
        let now = self.now;
        let task = self.task(id);
        task.ended = now;
        task.keep_for(keep.and_then(|keep| keep.age));
        let (tube, stage) = (task.tube, task.stage());
        self.trim(tube, stage, keep);
    }

    /// Removes the tasks of a stage that exceed the number that their tube keeps.
    /// Removes the tasks of a stage that exceed their number: the ones that ended first.
    pub(super) fn trim(&mut self, tube: TubeNo, stage: Stage, keep: Option<Keep>) {
        let Some(most) = keep.and_then(|keep| keep.count) else { return };
        let kept = self.in_order(tube, stage);
        let excess = kept.len().saturating_sub(usize::try_from(most).unwrap_or(usize::MAX));
        for id in &kept[..excess] {
            self.remove(*id, Cause::Trimmed);
        }
    }

    fn rank_by_end(&self, id: TaskNo) -> (Micros, TaskNo) {
        (self.tasks[&id].ended, id)
    }
}

impl Task {
    /// Notes until when it is kept, from its end on.
    pub(super) fn keep_for(&mut self, age: Option<Micros>) {
        self.kept_until = age.map_or(NEVER, |age| self.ended.saturating_add(age));
    }

    /// When its ttl elapses, or the time for which it is kept after its end.
    pub(super) fn removed_at(&self) -> Micros {
        match self.stage() {
            Stage::Kept => self.kept_until,
            Stage::Buried => self.kept_until.min(self.expires_at),
            _ => self.expires_at,
        }
    }

    /// Whether the ttl is what removes it. The ttl of a task that is done does not count any more.
    pub(super) fn expires_before_forgotten(&self) -> bool {
        self.stage() != Stage::Kept && self.expires_at <= self.removed_at()
    }

    /// The time of its ttl or, if it is done, the end of the time for which it is kept.
    pub fn stored_until(&self) -> Micros {
        if self.stage() == Stage::Kept { self.kept_until } else { self.expires_at }
    }
}
