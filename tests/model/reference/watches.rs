//! Waits for the end of a task.

use super::{Answer, Cause, Model, Refusal, State, TaskNo, TubeNo, Verb, WaitNo};

/// How a task has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its result.
    Done(Option<Vec<u8>>),
    /// With the group of its last failure, if one was recorded for this or an earlier burial.
    Buried(Option<String>),
    Deleted,
    Expired,
    /// No caller can know how.
    Gone,
}

/// A caller that waits for the end of a task.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    task: TaskNo,
    answer: Option<Answer<Ending>>,
}

impl Model {
    /// How a task has ended. `Ok(None)`: it has not. A task that was never put is not found.
    pub fn ending(&self, tube: TubeNo, id: TaskNo) -> Answer<Option<Ending>> {
        self.tube(tube)?;
        match self.tasks.get(&id).filter(|task| task.tube == tube) {
            None if id == 0 => Err(Refusal::NotFound),
            None => Ok(Some(Ending::Gone)),
            Some(task) if task.state() == State::Buried => {
                let group = task.failure.as_ref().map(|failure| failure.group.clone());
                Ok(Some(Ending::Buried(group)))
            }
            Some(task) if task.state() == State::Done => {
                Ok(Some(Ending::Done(task.result.clone())))
            }
            Some(_) => Ok(None),
        }
    }

    /// Begins a wait for the end of a task that has not ended.
    pub fn watch(&mut self, task: TaskNo) -> WaitNo {
        let no = self.next_number();
        self.watches.insert(no, Watch { task, answer: None });
        no
    }

    /// The answer of a watch, if it has one.
    pub fn watch_answer(&self, watch: WaitNo) -> Option<Answer<Ending>> {
        self.watches.get(&watch)?.answer.clone()
    }

    /// Whether the task of a watch is not stored any more.
    pub fn is_removed(&self, watch: WaitNo) -> bool {
        self.watches.get(&watch).is_none_or(|watch| !self.tasks.contains_key(&watch.task))
    }

    /// Whether the ttl of the task of a watch has elapsed now, so that it is removed with the next
    /// advance.
    pub fn is_expired(&self, watch: WaitNo) -> bool {
        let task = self.watches.get(&watch).and_then(|watch| self.tasks.get(&watch.task));
        task.is_some_and(|task| task.expires_at <= self.now)
    }

    pub fn cancel_watch(&mut self, watch: WaitNo) {
        self.watches.remove(&watch);
    }

    /// Answers the watches of a task that was buried.
    pub(super) fn answer_buried(&mut self, id: TaskNo) {
        let failure = self.tasks[&id].failure.as_ref();
        let group = failure.map(|failure| failure.group.clone());
        self.answer_watches(id, &Ending::Buried(group));
    }

    /// Answers the watches of a task that was removed.
    pub(super) fn answer_removed(&mut self, id: TaskNo, cause: Cause) {
        let ending = match cause {
            Cause::Verb(Verb::Delete) => Ending::Deleted,
            Cause::Verb(Verb::Ttl) => Ending::Expired,
            _ => Ending::Gone,
        };
        self.answer_watches(id, &ending);
    }

    pub(super) fn answer_watches(&mut self, id: TaskNo, ending: &Ending) {
        for watch in self.watches.values_mut().filter(|watch| watch.task == id) {
            watch.answer.get_or_insert_with(|| Ok(ending.clone()));
        }
    }

    /// Ends all watches: the store is closed.
    pub(super) fn close_watches(&mut self) {
        for watch in self.watches.values_mut() {
            watch.answer.get_or_insert(Err(Refusal::Closed));
        }
    }
}
