//! Tasks of another store that are put back as they were.

use std::collections::BTreeSet;

use super::{
    Answer, Cause, Draft, LastFailure, Micros, Model, OnKey, OnParent, Refusal, Stage, State,
    Status, Task, TaskNo, Tube, TubeNo,
};

/// A task as it was in another store.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub draft: Draft,
    /// Whether it has an id of its own.
    pub has_id: bool,
    pub takes: u32,
    pub forgiven: u32,
    pub failure: Option<LastFailure>,
    /// The moment at which it was put.
    pub put_at: Option<Micros>,
    pub state: RestoredState,
}

/// The state of a task that is put back.
#[derive(Clone, Debug, Default)]
pub enum RestoredState {
    /// Ready, delayed or blocked, as a put says.
    #[default]
    Open,
    /// In a failure group or in none.
    Buried { group: Option<String> },
    /// With its result. The ttl of the draft is how long it is still kept.
    Done { result: Option<Vec<u8>> },
}

impl Restored {
    fn is_done(&self) -> bool {
        matches!(self.state, RestoredState::Done { .. })
    }

    /// Whether it says nothing that a put does not say.
    fn is_plain(&self) -> bool {
        let is_open = matches!(self.state, RestoredState::Open);
        let is_new = self.failure.is_none() && self.put_at.is_none();
        is_open && !self.has_id && self.takes == 0 && is_new
    }

    /// Refuses options that the driver does not support.
    fn check_supported(&self, tube: &Tube) -> Answer<()> {
        // A ttl is how long a done task is kept, with every driver.
        let ttl = self.draft.ttl.filter(|_| !self.is_done());
        let draft = Draft { ttl, ..self.draft.clone() };
        if tube.driver.supports(&draft) { Ok(()) } else { Err(Refusal::Unsupported) }
    }

    fn check(&self) -> Answer<()> {
        let group = match &self.state {
            RestoredState::Buried { group } => group.as_ref(),
            RestoredState::Open | RestoredState::Done { .. } => None,
        };
        let groups = group.into_iter().chain(self.failure.as_ref().map(|failure| &failure.group));
        let are_groups = groups.into_iter().all(|group| (1..=255).contains(&group.len()));
        let is_open = matches!(self.state, RestoredState::Open);
        let is_possible = self.forgiven <= self.takes && (is_open || self.draft.delay == 0);
        let replaces = self.draft.key.is_some() && self.draft.on_key == OnKey::Replace;
        let is_possible = is_possible && (!replaces || self.is_plain());
        if are_groups && is_possible { Ok(()) } else { Err(Refusal::Invalid) }
    }
}

impl Model {
    /// Puts all tasks back or none. A done one takes no place of the capacity.
    pub fn restore_many(&mut self, no: TubeNo, tasks: &[Restored]) -> Answer<Vec<(TaskNo, State)>> {
        tasks.iter().try_for_each(Restored::check)?;
        let tube = self.tube(no)?.clone();
        let before = self.clone();
        let placed = if tasks.iter().any(|task| task.draft.key.is_some()) {
            self.restore_with_keys(no, &tube, tasks)
        } else {
            self.restore_without_keys(no, &tube, tasks)
        };
        if let Err(refusal) = placed {
            *self = before;
            self.restored_keys.extend((refusal == Refusal::KeyInUse).then_some("in use"));
            return placed;
        }
        for task in tasks {
            match task.state {
                RestoredState::Open => {}
                RestoredState::Buried { .. } => {
                    self.trim(no, Stage::Buried, tube.options.keep_buried());
                }
                RestoredState::Done { .. } => self.trim(no, Stage::Kept, tube.options.keep_done),
            }
        }
        self.serve();
        placed
    }

    /// All tasks are checked before the first is put.
    fn restore_without_keys(
        &mut self,
        no: TubeNo,
        tube: &Tube,
        tasks: &[Restored],
    ) -> Answer<Vec<(TaskNo, State)>> {
        let mut places = 0;
        for task in tasks {
            task.check_supported(tube)?;
            places += usize::from(!task.is_done());
            self.check_fits(no, tube, task, places)?;
        }
        tasks.iter().map(|task| self.restore(no, tube, task)).collect()
    }

    /// Each task sees those before it, which may have its key.
    fn restore_with_keys(
        &mut self,
        no: TubeNo,
        tube: &Tube,
        tasks: &[Restored],
    ) -> Answer<Vec<(TaskNo, State)>> {
        tasks.iter().try_for_each(|task| task.check_supported(tube))?;
        let mut placed = Vec::new();
        for task in tasks {
            let draft = &task.draft;
            let owner = draft.key.as_deref().and_then(|key| self.by_key(key));
            let owner = owner.map(|(_, owner)| (owner.tube, owner.stage()));
            placed.push(match owner {
                None => {
                    self.restored_keys.extend(draft.key.is_some().then_some("new"));
                    // Those before it are stored already.
                    self.check_fits(no, tube, task, 1)?;
                    self.restore(no, tube, task)?
                }
                Some((old, stage)) => {
                    if stage == Stage::Recurring {
                        return Err(Refusal::KeyInUse);
                    }
                    if draft.on_key == OnKey::Replace {
                        self.check_common_commit(old, no)?;
                        if (old != no || stage == Stage::Kept) && !self.has_capacity(no, 1) {
                            return Err(Refusal::Full);
                        }
                    }
                    let is_replaced = draft.on_key == OnKey::Replace;
                    self.restored_keys.insert(if is_replaced { "replaced" } else { "kept" });
                    self.place(no, draft, Cause::Restored, false)?
                }
            });
        }
        Ok(placed)
    }

    /// Refuses a task for which there is no place, or a done one that the tube does not keep.
    fn check_fits(&self, no: TubeNo, tube: &Tube, task: &Restored, places: usize) -> Answer<()> {
        if !task.is_done() && !self.has_capacity(no, places) {
            return Err(Refusal::Full);
        }
        let keeps = tube.options.keep_done.is_some_and(|keep| keep.count != Some(0));
        if task.is_done() && !keeps { Err(Refusal::Invalid) } else { Ok(()) }
    }

    /// What became of restored tasks with keys, in calls that were not refused for another reason.
    #[allow(dead_code, reason = "used by the fuzz target")]
    pub fn restored_keys(&self) -> &BTreeSet<&'static str> {
        &self.restored_keys
    }

    fn restore(&mut self, no: TubeNo, tube: &Tube, restored: &Restored) -> Answer<(TaskNo, State)> {
        let placed = self.restore_one(no, tube, restored)?;
        if restored.has_id {
            self.note_restored_id();
        }
        Ok(placed)
    }

    fn restore_one(
        &mut self,
        no: TubeNo,
        tube: &Tube,
        restored: &Restored,
    ) -> Answer<(TaskNo, State)> {
        let mut task = self.new_task(no, &restored.draft);
        if !restored.is_done() {
            let parents = self.open_parents(no, None, &restored.draft.after)?;
            task = task.blocked_by(parents);
        }
        (task.takes, task.forgiven) = (restored.takes, restored.forgiven);
        task.failure.clone_from(&restored.failure);
        task.put_at = restored.put_at.map_or(self.now, |moment| self.time_shown(moment));
        let keep = match &restored.state {
            RestoredState::Open => return Ok(self.insert_task(task, Cause::Restored)),
            RestoredState::Buried { group } => {
                self.bury_restored(&mut task, group.as_ref());
                tube.options.keep_buried()
            }
            RestoredState::Done { result } => {
                (task.status, task.result) = (Status::Kept, result.clone());
                task.on_parent = OnParent::Wait;
                (task.not_before, task.ttl_from) = (None, None);
                task.ended = self.now;
                tube.options.keep_done
            }
        };
        let age = keep.and_then(|keep| keep.age);
        task.keep_for(age);
        if let (Some(ttl), true) = (restored.draft.ttl, restored.is_done()) {
            task.kept_until = self.now.saturating_add(ttl);
            task.ended = self.now.min(task.kept_until.saturating_sub(age.unwrap_or(0)));
        }
        Ok(self.insert_task(task, Cause::Restored))
    }

    /// It was buried when the failure of its group was recorded, or else now.
    fn bury_restored(&self, task: &mut Task, group: Option<&String>) {
        let failure = task.failure.as_ref().filter(|_| group.is_some());
        task.ended = failure.map_or(self.now, |failure| failure.at);
        (task.status, task.group) = (Status::Buried, group.cloned());
    }
}
