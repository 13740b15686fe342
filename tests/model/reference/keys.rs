//! Puts of tasks with a key, which no other task has.

use super::{
    Answer, Cause, Draft, Model, NEVER, OnKey, Refusal, Stage, State, Status, Task, TaskNo, TubeNo,
    Verb,
};

impl Model {
    /// The task that has a key.
    pub fn by_key(&self, key: &str) -> Option<(TaskNo, &Task)> {
        let has_key = |task: &Task| task.key.as_deref() == Some(key);
        self.tasks.iter().find(|(_, task)| has_key(task)).map(|(no, task)| (*no, task))
    }

    /// Puts a task with the key of a task that exists.
    pub fn requeue(&mut self, tube: TubeNo, draft: &Draft) -> Answer<(TaskNo, State)> {
        self.check_put(tube, draft)?;
        if draft.key.as_deref().is_none_or(|key| self.by_key(key).is_none()) {
            return Err(Refusal::KeyNotFound);
        }
        self.put(tube, draft)
    }

    /// Puts a task, or does what the draft says if another task has its key. `cause`: of a new task.
    /// A refusal changes nothing.
    pub(super) fn place(
        &mut self,
        tube: TubeNo,
        draft: &Draft,
        cause: Cause,
    ) -> Answer<(TaskNo, State)> {
        let Some((id, old)) = draft.key.as_deref().and_then(|key| self.by_key(key)) else {
            if !self.has_capacity(tube, 1) {
                return Err(Refusal::Full);
            }
            return Ok(self.insert_task(tube, draft, cause));
        };
        let (old_tube, stage) = (old.tube, old.stage());
        match draft.on_key {
            OnKey::Reject => Err(Refusal::KeyInUse),
            OnKey::Keep => Ok((id, stage.state())),
            OnKey::Replace if old_tube != tube => Err(Refusal::Invalid),
            OnKey::Replace if stage == Stage::Kept && !self.has_capacity(tube, 1) => {
                Err(Refusal::Full)
            }
            OnKey::Replace => Ok(self.replace(id, draft)),
        }
    }

    /// A task begins anew, with what the draft says.
    fn replace(&mut self, id: TaskNo, draft: &Draft) -> (TaskNo, State) {
        let (tube, from) = (self.tasks[&id].tube, self.tasks[&id].stage());
        if from.state() == State::Taken {
            self.count_call(id, Verb::Lost, State::Ready);
        }
        let status = self.status_of(draft);
        let (now, ttl) = (self.now, draft.ttl.unwrap_or(self.tubes[&tube].options.ttl()));
        let task = self.task(id);
        task.data.clone_from(&draft.data);
        task.pri = draft.pri.unwrap_or(task.pri);
        if let Some(name) = &draft.sub_queue {
            task.sub_queue = Some(name.clone()).filter(|name| !name.is_empty());
        }
        task.ttr = draft.ttr.unwrap_or(task.ttr);
        task.max_attempts = draft.max_attempts.or(task.max_attempts);
        task.expires_at = now.saturating_add(ttl).saturating_add(draft.delay);
        task.forgiven = task.takes;
        task.failure.take_if(|_| from == Stage::Kept);
        (task.group, task.result) = (None, None);
        (task.ended, task.kept_until) = (0, NEVER);
        self.change(id, Cause::Replaced, status);
        (id, self.tasks[&id].state())
    }

    pub(super) fn status_of(&self, draft: &Draft) -> Status {
        match draft.delay {
            0 => Status::Ready,
            delay => Status::Delayed { until: self.now.saturating_add(delay) },
        }
    }
}
