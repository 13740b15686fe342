//! Movement: tasks that go on in another tube, and what is put with the end of a task.
//!
//! A task that goes on leaves its tube, which counts it as done, and enters the other one. It is the
//! same task for callers that wait for its end.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Answer, Cause, DEFAULT_PRIORITY, Draft, Holder, Model, NEVER, OnKey, Refusal, Stage, State,
    Status, Task, TaskNo, TubeNo, Verb,
};

/// The end of a task, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Finish {
    pub result: Option<Vec<u8>>,
    pub puts: Vec<(TubeNo, Draft)>,
    /// Where the task goes on instead of ending.
    pub advance: Option<(TubeNo, Draft)>,
}

impl Model {
    // ---- verbs of any caller

    /// Moves a task in its state. A taken task is ready there, and its attempt is forgiven.
    pub fn move_to(&mut self, from: TubeNo, id: TaskNo, to: TubeNo) -> Answer<State> {
        self.tube(from)?;
        self.tube(to)?;
        self.check_move(from, to)?;
        if matches!(self.peek(from, id)?.state(), State::Done | State::Recurring) {
            return Err(Refusal::NotReady);
        }
        if !self.has_capacity(to, 1) {
            return Err(Refusal::Full);
        }
        self.check_moved(id, to)?;
        self.move_one(id, to);
        let state = self.tasks[&id].state();
        self.trim_moved(id);
        self.serve();
        Ok(state)
    }

    /// Moves all tasks that are not over, in order. If the other tube is full, those before it move.
    /// What is put meanwhile stays.
    pub fn move_all(&mut self, from: TubeNo, to: TubeNo) -> Answer<u64> {
        self.tube(from)?;
        self.tube(to)?;
        self.check_move(from, to)?;
        let (mut left, mut total) = (self.in_order_of_moves(from), 0);
        loop {
            let before = self.clone();
            let mut moved = Vec::new();
            for id in &left {
                if !self.has_capacity(to, 1) {
                    break;
                }
                if let Err(refusal) = self.check_moved(*id, to) {
                    *self = before;
                    return Err(refusal);
                }
                self.move_one(*id, to);
                moved.push(*id);
            }
            left.drain(..moved.len());
            total += moved.len() as u64;
            for id in &moved {
                self.trim_moved(*id);
            }
            self.serve();
            // The retention of buried tasks may have made space.
            match (left.is_empty(), moved.is_empty()) {
                (true, _) => return Ok(total),
                (false, true) => return Err(Refusal::Full),
                (false, false) => {}
            }
        }
    }

    // ---- verbs of the holder

    /// Ends a task or lets it go on, and puts tasks: all or nothing. Returns the state of the task,
    /// and the new tasks.
    pub fn finish(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        finish: &Finish,
    ) -> Answer<(State, Vec<(TaskNo, State)>)> {
        if finish.result.is_some() && finish.advance.is_some() {
            return Err(Refusal::Invalid);
        }
        self.held(tube, id, holder)?;
        let targets: Vec<&(TubeNo, Draft)> = finish.puts.iter().chain(&finish.advance).collect();
        let mut places: BTreeMap<TubeNo, usize> = BTreeMap::new();
        for (nth, (to, draft)) in targets.iter().enumerate() {
            self.tube(*to)?;
            self.check_common_commit(tube, *to)?;
            self.check_options(*to, draft)?;
            let is_repeated = targets[..nth].iter().any(|(_, other)| other.key == draft.key);
            let owner = draft.key.as_deref().and_then(|key| self.by_key(key));
            let is_remembered = targets[..nth].iter().any(|(tube, other)| {
                let keeps = other.key.is_some() && other.on_key == OnKey::Keep;
                tube == to && other.token == draft.token && draft.token.is_some() && !keeps
            });
            let needs_place = match owner.filter(|(owner, _)| *owner != id) {
                _ if is_remembered || self.seen(*to, draft).is_some() => false,
                Some((_, owner)) => {
                    let moves = owner.tube != *to || owner.stage() == Stage::Kept;
                    draft.on_key == OnKey::Replace && moves
                }
                None => draft.key.is_none() || !is_repeated,
            };
            if !needs_place {
                continue;
            }
            let earlier = places.entry(*to).or_default();
            *earlier += 1;
            // The first one in the tube of the task takes its place.
            let needed = *earlier - usize::from(*to == tube);
            if needed > 0 && !self.has_capacity(*to, needed) {
                return Err(Refusal::Full);
            }
        }
        let own_key = self.tasks[&id].key.clone();
        let named = finish.advance.as_ref().and_then(|(_, draft)| draft.key.as_ref());
        if named.is_some() && named != own_key.as_ref() {
            return Err(Refusal::Invalid);
        }
        let parents = match &finish.advance {
            None => BTreeSet::new(),
            Some((to, draft)) => self.open_parents(*to, Some(id), &draft.after)?,
        };
        let before = self.clone();
        match &finish.advance {
            None => self.end_done(id, Cause::Verb(Verb::Ack), finish.result.clone()),
            Some(_) => {
                self.note_leave(id);
                self.leave(id, Verb::Advance);
                // The puts may wait for it, but not so that it waits for itself.
                self.task(id).parents.clone_from(&parents);
            }
        }
        let puts = finish.puts.iter().map(|(to, draft)| {
            let is_own = draft.key.is_some() && draft.key == own_key;
            match (is_own && finish.advance.is_some(), draft.on_key) {
                _ if self.seen(*to, draft).is_some() => {
                    self.place(*to, draft, Cause::Verb(Verb::Put), false)
                }
                // It keeps the key where it goes on.
                (true, OnKey::Keep) => Ok((id, State::Taken)),
                (true, _) => Err(Refusal::KeyInUse),
                (false, _) => self.place(*to, draft, Cause::Verb(Verb::Put), false),
            }
        });
        let puts = match puts.collect::<Answer<Vec<_>>>() {
            Ok(puts) => puts,
            Err(refusal) => {
                *self = before;
                return Err(refusal);
            }
        };
        let state = match &finish.advance {
            None => State::Done,
            Some((to, draft)) => {
                let history = self.task(id).history.clone();
                let (spawned_by, put_at) = (self.task(id).spawned_by, self.task(id).put_at);
                let new = self.new_task(*to, draft);
                let mut task = Task { key: own_key, history, spawned_by, put_at, ..new };
                if task.tags.is_empty() {
                    task.tags.clone_from(&self.tasks[&id].tags);
                }
                if task.traceparent.is_none() {
                    task.traceparent.clone_from(&self.tasks[&id].traceparent);
                }
                *self.task(id) = task.blocked_by(parents);
                self.note_arrival(id, Verb::Advance);
                self.arrive(id, Verb::Advance)
            }
        };
        self.serve();
        Ok((state, puts))
    }

    // ---- steps of a move

    fn check_move(&self, from: TubeNo, to: TubeNo) -> Answer<()> {
        if from == to { Err(Refusal::Invalid) } else { self.check_common_commit(from, to) }
    }

    /// A temporary tube is not in the file.
    pub(super) fn check_common_commit(&self, one: TubeNo, other: TubeNo) -> Answer<()> {
        let temporary = |no| self.tubes[&no].options.temporary;
        if temporary(one) == temporary(other) { Ok(()) } else { Err(Refusal::Invalid) }
    }

    /// Refuses a task that has an option which the tube does not support.
    fn check_moved(&self, id: TaskNo, to: TubeNo) -> Answer<()> {
        let (task, driver) = (&self.tasks[&id], self.tubes[&to].driver);
        let timed =
            task.priority != DEFAULT_PRIORITY || task.expires_at != NEVER || task.ttr != NEVER;
        let has_delay = match task.status {
            Status::Delayed { .. } => true,
            Status::Blocked { until } => until > 0,
            _ => false,
        };
        let timed = timed || has_delay || task.not_before.is_some();
        if (timed && !driver.timed()) || (task.sub_queue.is_some() && !driver.sub_queued()) {
            return Err(Refusal::Unsupported);
        }
        Ok(())
    }

    fn move_one(&mut self, id: TaskNo, to: TubeNo) {
        let from = self.tubes[&self.tasks[&id].tube].clone();
        let forgives = self.knows_attempts(&self.tasks[&id]);
        self.note_leave(id);
        self.leave(id, Verb::Move);
        let (now, target) = (self.now, self.tubes[&to].clone());
        let task = self.task(id);
        task.tube = to;
        if matches!(task.status, Status::Taken(_)) {
            task.forgiven += u32::from(forgives);
            let mut ended = task.clone();
            ended.status = self.ready_or_waiting(&mut ended);
            *self.task(id) = ended;
        }
        let task = self.task(id);
        if !from.driver.timed() && target.driver.timed() {
            task.priority = target.options.priority();
            task.ttr = target.options.ttr();
            task.expires_at = now.saturating_add(target.options.ttl());
        }
        if task.stage() == Stage::Buried {
            // When it was buried is known in a failure group, or where the end of it is limited.
            if task.group.is_none() && from.options.keep_buried().is_none() {
                task.ended = now;
            }
            let age = target.options.keep_buried().and_then(|keep| keep.age);
            task.kept_until = age.map_or(NEVER, |age| now.saturating_add(age));
        }
        self.note_arrival(id, Verb::Move);
        self.arrive(id, Verb::Move);
    }

    /// A task has left its tube. What it was there is not counted any more.
    pub(super) fn leave(&mut self, id: TaskNo, verb: Verb) {
        let from = self.tasks[&id].stage();
        self.note_claim_end(id, from, Stage::Done);
        self.record_transition(id, Some(from), Cause::Verb(verb), Stage::Done);
    }

    pub(super) fn arrive(&mut self, id: TaskNo, verb: Verb) -> State {
        let to = self.tasks[&id].stage();
        self.record_transition(id, None, Cause::Verb(verb), to);
        to.state()
    }

    /// Removes those that were buried first, if a task that was moved exceeds their number.
    fn trim_moved(&mut self, id: TaskNo) {
        let Some(tube) = self.tasks.get(&id).map(|task| task.tube) else { return };
        self.trim(tube, Stage::Buried, self.tubes[&tube].options.keep_buried());
    }

    /// In the order of takes: those that are ready or taken, then delayed, buried and blocked ones.
    pub fn in_order_of_moves(&self, tube: TubeNo) -> Vec<TaskNo> {
        let by_priority = |stages: &[Stage]| {
            let is_in = |task: &Task| stages.contains(&task.stage());
            let tasks = self.tasks(tube).filter(|(_, task)| is_in(task));
            let mut ids: Vec<TaskNo> = tasks.map(|(id, _)| id).collect();
            ids.sort_unstable_by_key(|id| (self.tasks[id].priority, *id));
            ids
        };
        let live = by_priority(&[Stage::Ready, Stage::Taken, Stage::Parked]);
        let blocked = by_priority(&[Stage::Blocked]);
        let delayed = by_priority(&[Stage::Delayed]);
        [live, delayed, self.in_order(tube, Stage::Buried), blocked].concat()
    }
}
