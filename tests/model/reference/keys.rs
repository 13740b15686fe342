//! Puts of tasks with a key, which no other task has.

use std::collections::BTreeSet;

use super::{
    Answer, Cause, Draft, Model, OnKey, Refusal, Stage, State, Task, TaskNo, TubeNo, Verb,
};

impl Model {
    /// The task that has a key.
    pub fn by_key(&self, key: &str) -> Option<(TaskNo, &Task)> {
        let has_key = |task: &Task| task.key.as_deref() == Some(key);
        self.tasks.iter().find(|(_, task)| has_key(task)).map(|(no, task)| (*no, task))
    }

    /// Puts a task with the key of a task that exists.
    pub fn requeue(&mut self, tube: TubeNo, draft: &Draft) -> Answer<(TaskNo, State)> {
        self.check_options(tube, draft)?;
        if let Some(seen) = self.seen(tube, draft) {
            return Ok(seen);
        }
        if draft.key.as_deref().is_none_or(|key| self.by_key(key).is_none()) {
            return Err(Refusal::KeyNotFound);
        }
        self.put(tube, draft)
    }

    /// Puts a task, unless it was put before, or does what the draft says if another task has its key. `cause`: of a new task.
    /// `is_limited`: there may be no capacity. A refusal changes nothing.
    pub(super) fn place(
        &mut self,
        tube: TubeNo,
        draft: &Draft,
        cause: Cause,
        is_limited: bool,
    ) -> Answer<(TaskNo, State)> {
        if let Some(seen) = self.seen(tube, draft) {
            self.met_tokens.insert("seen");
            return Ok(seen);
        }
        let is_full = is_limited && !self.has_capacity(tube, 1);
        let Some((id, old)) = draft.key.as_deref().and_then(|key| self.by_key(key)) else {
            if is_full {
                return Err(Refusal::Full);
            }
            let parents = self.open_parents(tube, None, &draft.after)?;
            let task = self.new_task(tube, draft).blocked_by(parents);
            let (id, state) = self.insert_task(task, cause);
            self.remember(tube, draft, id);
            return Ok((id, state));
        };
        let (old_tube, stage) = (old.tube, old.stage());
        match draft.on_key {
            // The key of a schedule is never given up.
            _ if stage == Stage::Recurring => Err(Refusal::KeyInUse),
            OnKey::Reject => Err(Refusal::KeyInUse),
            OnKey::Keep => Ok((id, stage.state())),
            OnKey::Replace => {
                self.check_common_commit(old_tube, tube)?;
                if stage == Stage::Kept {
                    self.check_is_told(id)?;
                }
                if is_full && (old_tube != tube || stage == Stage::Kept) {
                    return Err(Refusal::Full);
                }
                let parents = self.parents_of_replaced(id, tube, &draft.after)?;
                self.remember(tube, draft, id);
                Ok(self.replace(id, tube, draft, parents))
            }
        }
    }

    /// A task begins anew in a tube, with what the draft says.
    fn replace(
        &mut self,
        id: TaskNo,
        tube: TubeNo,
        draft: &Draft,
        parents: BTreeSet<TaskNo>,
    ) -> (TaskNo, State) {
        let (before, from) = (self.tasks[&id].tube, self.tasks[&id].stage());
        self.note_leave(id);
        self.forget_burial(id);
        if from.state() == State::Taken {
            self.count_call(id, Verb::Lost, Some(from), State::Ready);
            self.note_claim_end(id, from, Stage::Ready);
        }
        if before != tube {
            self.leave(id, Verb::Move);
        }
        let had_times = self.tubes[&before].driver.timed();
        let (is_timed, is_sub_queued) = {
            let driver = self.tubes[&tube].driver;
            (driver.timed() && had_times, driver.sub_queued())
        };
        let old_moment = self.tasks[&id].not_before.filter(|_| is_timed);
        let not_before = draft.not_before.or(old_moment);
        let new = self.new_task(tube, &Draft { not_before, ..draft.clone() });
        let old = self.task(id);
        let task = Task {
            priority: draft.priority.unwrap_or(if is_timed { old.priority } else { new.priority }),
            ttr: draft.ttr.unwrap_or(if is_timed { old.ttr } else { new.ttr }),
            sub_queue: match draft.sub_queue {
                None if is_sub_queued => old.sub_queue.clone(),
                _ => new.sub_queue,
            },
            max_attempts: draft.max_attempts.or(old.max_attempts),
            max_runtime: draft.max_runtime.or(old.max_runtime.filter(|_| is_timed)),
            tags: if new.tags.is_empty() { old.tags.clone() } else { new.tags },
            put_at: old.put_at,
            takes: old.takes,
            forgiven: old.takes,
            failure: old.failure.take().filter(|_| from != Stage::Kept),
            history: old.history.clone(),
            spawned_by: old.spawned_by,
            on_parent: draft.after.rule_after(old.on_parent),
            ..new
        }
        .blocked_by(parents);
        let to = task.stage();
        *old = task;
        let mut before_put = from;
        if before != tube {
            self.arrive(id, Verb::Move);
            before_put = to;
        }
        self.note_arrival(id, Verb::Put);
        self.record_transition(id, Some(before_put), Cause::Replaced, to);
        (id, to.state())
    }
}
