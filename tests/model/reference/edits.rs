//! Changes of a task that are neither a claim nor an end, and deletes on a condition.

use super::{
    Answer, Cause, Micros, Model, NEVER, Refusal, Stage, State, Status, Task, TaskNo, TubeNo, Verb,
};

/// What an update changes of a task.
#[derive(Clone, Debug, Default)]
pub struct Update {
    pub data: Option<Vec<u8>>,
    pub priority: Option<u32>,
    pub delay: Option<Micros>,
    /// Another moment, or none.
    #[allow(clippy::option_option, reason = "the outer one: whether it changes")]
    pub not_before: Option<Option<Micros>>,
}

impl Model {
    /// Changes the priority of a task in any state. The same one again is no change.
    pub fn set_priority(&mut self, tube: TubeNo, id: TaskNo, priority: u32) -> Answer<State> {
        if !self.tube(tube)?.driver.timed() {
            return Err(Refusal::Unsupported);
        }
        let task = self.peek_no_schedule(tube, id)?;
        let (state, status) = (task.state(), task.status.clone());
        if task.priority != priority {
            self.change(id, Cause::Verb(Verb::Update), status);
            self.task(id).priority = priority;
        }
        Ok(state)
    }

    /// Changes a task that is ready, delayed, blocked or buried. A buried one cannot get a delay or a
    /// moment.
    pub fn update(&mut self, tube: TubeNo, id: TaskNo, update: &Update) -> Answer<State> {
        let timed = update.priority.is_some() || update.delay.is_some();
        let timed = timed || update.not_before.is_some();
        if timed && !self.tube(tube)?.driver.timed() {
            return Err(Refusal::Unsupported);
        }
        let task = self.peek(tube, id)?;
        if matches!(task.status, Status::Taken(_) | Status::Kept | Status::Recurring(_)) {
            return Err(Refusal::NotReady);
        }
        let mut changed = task.clone();
        if update.delay.is_some() || update.not_before.is_some() {
            self.put_off(&mut changed, update)?;
        }
        changed.priority = update.priority.unwrap_or(task.priority);
        let times = |it: &Task| (it.expires_at, it.ttl_from, it.not_before);
        let same = |a: &Task, b: &Task| {
            (a.priority, times(a), &a.status) == (b.priority, times(b), &b.status)
        };
        if update.data.is_some() || !same(task, &changed) {
            self.change(id, Cause::Verb(Verb::Update), changed.status.clone());
            let data = update.data.clone().unwrap_or_else(|| changed.data.clone());
            let history = self.task(id).history.clone();
            *self.task(id) = Task { data, history, ..changed };
        }
        // A waiting taker may get it then.
        let state = self.tasks[&id].state();
        self.serve();
        Ok(state)
    }

    /// Sets the delay of a task, from now on, or its moment. Its ttl begins when it is ready.
    fn put_off(&self, task: &mut Task, update: &Update) -> Answer<()> {
        let (until, is_blocked) = match task.status {
            Status::Ready => (0, false),
            Status::Delayed { until } => (until, false),
            Status::Blocked { until } => (until, true),
            _ => return Err(Refusal::NotReady),
        };
        let ttl_from = match task.ttl_from {
            Some(from) if !is_blocked => from,
            from => from.unwrap_or(until).max(self.now),
        };
        let until = match update.delay {
            None => until,
            Some(0) => 0,
            Some(delay) => self.now.saturating_add(delay),
        };
        if task.expires_at != NEVER {
            let ttl = task.expires_at.saturating_sub(ttl_from);
            task.expires_at = until.max(self.now).saturating_add(ttl);
        }
        task.ttl_from = None;
        task.not_before = update.not_before.unwrap_or(task.not_before);
        self.add_moment_to_ttl(task, until);
        task.status =
            if is_blocked { Status::Blocked { until } } else { Status::Delayed { until } };
        if !is_blocked && until == 0 {
            task.status = self.ready_or_waiting(task);
        }
        Ok(())
    }

    /// Deletes a task that is neither taken nor done.
    pub fn cancel_task(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        if matches!(self.peek(tube, id)?.state(), State::Taken | State::Done) {
            return Err(Refusal::NotReady);
        }
        self.delete(tube, id)
    }

    pub fn delete_if(&mut self, tube: TubeNo, id: TaskNo, state: State) -> Answer<State> {
        if self.peek(tube, id)?.state() != state {
            return Err(Refusal::WrongState);
        }
        self.delete(tube, id)
    }

    /// Deletes those of these tasks that exist, or none. Returns how many.
    pub fn delete_many(&mut self, tube: TubeNo, ids: &[TaskNo]) -> Answer<u64> {
        self.tube(tube)?;
        let found: Vec<TaskNo> =
            ids.iter().copied().filter(|id| self.peek(tube, *id).is_ok()).collect();
        self.check_no_children(&found)?;
        let mut deleted = 0;
        for id in &found {
            if self.peek(tube, *id).is_ok() {
                self.remove(*id, Cause::Verb(Verb::Delete));
                deleted += 1;
            }
        }
        self.serve();
        Ok(deleted)
    }

    /// Deletes the first tasks in a state, in the order in which they are listed.
    pub fn delete_where(&mut self, tube: TubeNo, state: State, limit: usize) -> Answer<u64> {
        self.tube(tube)?;
        let stages: &[Stage] = match state {
            State::Ready => &[Stage::Ready],
            State::Taken => &[Stage::Taken, Stage::Parked],
            State::Delayed => &[Stage::Delayed],
            State::Blocked => &[Stage::Blocked],
            State::Buried => &[Stage::Buried],
            State::Done => &[Stage::Kept],
            State::Recurring => &[Stage::Recurring],
        };
        let mut ids: Vec<TaskNo> =
            stages.iter().flat_map(|stage| self.in_order(tube, *stage)).collect();
        if stages.len() > 1 {
            ids.sort_unstable_by_key(|id| (self.tasks[id].priority, *id));
        }
        ids.truncate(limit);
        self.delete_many(tube, &ids)
    }

    /// Kicks the tasks of a failure group that were buried first.
    pub fn kick_group(&mut self, tube: TubeNo, group: &str, limit: usize) -> Answer<u64> {
        self.tube(tube)?;
        let mut ids = self.list_group(tube, group);
        ids.reverse();
        ids.truncate(limit);
        for id in &ids {
            self.kick_one(*id);
        }
        self.serve();
        Ok(ids.len() as u64)
    }
}
