//! Histories: an entry for each stored change of a task, of which a tube keeps the first one and the
//! newest of the others.
//!
//! A take is stored with the next change of its task.

use super::{Answer, Cause, Micros, Model, Refusal, State, Status, TaskNo, TubeNo, Verb};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub number: u64,
    pub at: Micros,
    pub verb: Verb,
    /// After the change.
    pub state: State,
    /// The label of the session that had the task.
    pub owner: Option<String>,
    /// Of an entry of a program.
    pub text: Option<String>,
    /// The name of the tube.
    pub tube: String,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub entries: Vec<Entry>,
    /// How many entries there have been.
    total: u64,
    /// The take that is not stored.
    take: Option<Entry>,
    /// Which session had the task when it left its tube.
    owner: Option<String>,
}

impl History {
    /// Adds an entry, to at most `limit` of them.
    fn push(&mut self, entry: Entry, limit: usize) {
        self.entries.push(Entry { number: self.total, ..entry });
        self.total += 1;
        self.trim(limit);
    }

    /// The entries with that of the take that is under way.
    pub fn shown(&self, limit: usize) -> Vec<Entry> {
        let mut shown = self.clone();
        shown.store_take(limit);
        shown.entries
    }

    fn trim(&mut self, limit: usize) {
        while self.entries.len() > limit {
            self.entries.remove(1.min(limit));
        }
        if limit == 0 {
            self.total = 0;
        }
    }

    /// Stores the take.
    fn store_take(&mut self, limit: usize) {
        if let Some(take) = self.take.take()
            && limit > 0
        {
            self.push(take, limit);
        }
    }

    /// The take of a claim that has ended with its process is not known.
    pub(super) fn forget_take(&mut self) {
        self.take = None;
    }
}

impl Model {
    /// Adds an entry of a program to the history of a task.
    pub fn log(&mut self, tube: TubeNo, id: TaskNo, text: &str) -> Answer<State> {
        if self.tube(tube)?.options.history == 0 {
            return Err(Refusal::Invalid);
        }
        let status = self.peek_no_schedule(tube, id)?.status.clone();
        self.change(id, Cause::Verb(Verb::Log), status);
        let state = self.tasks[&id].state();
        if let Some(last) = self.task(id).history.entries.last_mut()
            && last.verb == Verb::Log
        {
            last.text = Some(text.to_owned());
        }
        Ok(state)
    }

    /// Adds an entry of the holder of a task.
    pub fn log_held(
        &mut self,
        (tube, id): (TubeNo, TaskNo),
        holder: super::Holder,
        text: &str,
    ) -> Answer<State> {
        self.held(tube, id, holder)?;
        self.log(tube, id, text)
    }

    /// Adds what has changed to the history of a task. `before`: its status before the change.
    pub(super) fn note_change(&mut self, id: TaskNo, cause: Cause, before: Option<&Status>) {
        if self.tasks[&id].recur().is_some() {
            return; // A schedule has none.
        }
        let owner = self.owner_in(before);
        let verb = match cause {
            // Its claim ends, since the store is closed.
            Cause::Reopened => match (before, &self.tasks[&id].status) {
                (Some(Status::Taken(_)), Status::Taken(_)) => return self.trim_history(id),
                _ => Verb::Lost,
            },
            Cause::Parked => {
                let limit = self.history_limit(id);
                self.task(id).history.store_take(limit);
                return self.trim_history(id);
            }
            Cause::Killed => return,
            _ => match cause.counted_as() {
                None => return,
                Some(verb) => verb,
            },
        };
        let state = self.tasks[&id].state();
        if verb == Verb::Lost && state == State::Taken {
            return; // Overdue, in memory only.
        }
        if verb == Verb::Take {
            let owner = self.owner_in(Some(&self.tasks[&id].status.clone()));
            let entry = self.entry(id, verb, owner);
            self.task(id).history.take = Some(entry);
            return;
        }
        self.add_entry(id, verb, owner);
    }

    /// Its record changes without an entry: it has no more entries than its tube keeps now.
    pub(super) fn trim_history(&mut self, id: TaskNo) {
        let limit = self.history_limit(id);
        self.task(id).history.trim(limit);
    }

    /// Notes which session has a task that leaves its tube.
    pub(super) fn note_leave(&mut self, id: TaskNo) {
        let owner = self.owner_in(Some(&self.tasks[&id].status.clone()));
        self.task(id).history.owner = owner;
    }

    /// Adds that a task has come from another tube, or was put anew.
    pub(super) fn note_arrival(&mut self, id: TaskNo, verb: Verb) {
        let owner = self.task(id).history.owner.take();
        self.add_entry(id, verb, owner);
    }

    fn add_entry(&mut self, id: TaskNo, verb: Verb, owner: Option<String>) {
        let (entry, limit) = (self.entry(id, verb, owner), self.history_limit(id));
        let history = &mut self.task(id).history;
        history.store_take(limit);
        if limit > 0 {
            history.push(entry, limit);
        }
        history.trim(limit);
    }

    fn entry(&self, id: TaskNo, verb: Verb, owner: Option<String>) -> Entry {
        let (at, state) = (self.now, self.tasks[&id].state());
        let tube = self.tubes[&self.tasks[&id].tube].name.clone();
        Entry { number: 0, at, verb, state, owner, text: None, tube }
    }

    fn history_limit(&self, id: TaskNo) -> usize {
        self.tubes[&self.tasks[&id].tube].options.history
    }

    fn owner_in(&self, status: Option<&Status>) -> Option<String> {
        let Some(Status::Taken(claim)) = status else { return None };
        self.labels.get(&claim.session).cloned()
    }
}
