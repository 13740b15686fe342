//! Tasks of another store that are put back as they were.

use super::{
    Answer, Cause, Draft, LastFailure, Model, OnParent, Refusal, State, Status, Task, TaskNo, Tube,
    TubeNo,
};

/// A task as it was in another store.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub draft: Draft,
    pub takes: u32,
    pub forgiven: u32,
    pub failure: Option<LastFailure>,
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

    fn check(&self) -> Answer<()> {
        let group = match &self.state {
            RestoredState::Buried { group } => group.as_ref(),
            RestoredState::Open | RestoredState::Done { .. } => None,
        };
        let groups = group.into_iter().chain(self.failure.as_ref().map(|failure| &failure.group));
        let are_groups = groups.into_iter().all(|group| (1..=255).contains(&group.len()));
        let is_open = matches!(self.state, RestoredState::Open);
        let is_possible = self.forgiven <= self.takes && (is_open || self.draft.delay == 0);
        if are_groups && is_possible { Ok(()) } else { Err(Refusal::Invalid) }
    }
}

impl Model {
    /// Puts all tasks back or none. A done one takes no place of the capacity.
    pub fn restore_many(&mut self, no: TubeNo, tasks: &[Restored]) -> Answer<Vec<(TaskNo, State)>> {
        tasks.iter().try_for_each(Restored::check)?;
        let tube = self.tube(no)?.clone();
        let mut open = 0;
        for task in tasks {
            let draft = &task.draft;
            // A ttl is how long a done task is kept, with every driver.
            let ttl = draft.ttl.filter(|_| !task.is_done());
            if !tube.driver.supports(&Draft { ttl, ..draft.clone() }) {
                return Err(Refusal::Unsupported);
            }
            open += usize::from(!task.is_done());
            if !task.is_done() && !self.has_capacity(no, open) {
                return Err(Refusal::Full);
            }
            let keeps = tube.options.keep_done.is_some_and(|keep| keep.count != Some(0));
            if task.is_done() && !keeps {
                return Err(Refusal::Invalid);
            }
        }
        let before = self.clone();
        let placed = tasks.iter().map(|task| self.restore(no, &tube, task)).collect();
        match &placed {
            Ok(_) => self.serve(),
            Err(_) => *self = before,
        }
        placed
    }

    fn restore(&mut self, no: TubeNo, tube: &Tube, restored: &Restored) -> Answer<(TaskNo, State)> {
        let mut task = self.new_task(no, &restored.draft);
        if !restored.is_done() {
            let parents = self.open_parents(no, None, &restored.draft.after)?;
            task = task.blocked_by(parents);
        }
        (task.takes, task.forgiven) = (restored.takes, restored.forgiven);
        task.failure.clone_from(&restored.failure);
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
        let stage = task.stage();
        let placed = self.insert_task(task, Cause::Restored);
        self.trim(no, stage, keep);
        Ok(placed)
    }

    /// It was buried when the failure of its group was recorded, or else now.
    fn bury_restored(&self, task: &mut Task, group: Option<&String>) {
        let failure = task.failure.as_ref().filter(|_| group.is_some());
        task.ended = failure.map_or(self.now, |failure| failure.at);
        (task.status, task.group) = (Status::Buried, group.cloned());
    }
}
