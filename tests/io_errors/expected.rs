//! The contents that the store must have. A task is identified by its body, which is unique.

use std::collections::BTreeMap;

use tubewell::{Store, TaskState};

use crate::verbs::label;

/// The state of a task or tube. A taken task counts as ready, unless its claim is parked: that is
/// its state after a reopen. A delayed one is expected as ready: its delay has elapsed before the
/// next check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Ready,
    Delayed,
    Buried,
    Parked,
}

/// What an acknowledged change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A power cut, with all changes before it.
    Flushed,
    /// A kill, with all changes before it.
    Written,
    /// Only the failures of the storage while the process lives.
    Decided,
}

/// The state of each task and tube, by tube and body. The tube itself has the empty body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<(String, String), Stored>);

impl Contents {
    pub fn insert(&mut self, tube: &str, body: &str, state: Stored) {
        self.0.insert((tube.to_owned(), body.to_owned()), state);
    }

    pub fn state(&self, tube: &str, body: &str) -> Option<Stored> {
        self.0.get(&(tube.to_owned(), body.to_owned())).copied()
    }

    pub fn remove(&mut self, tube: &str, body: &str) {
        self.0.remove(&(tube.to_owned(), body.to_owned()));
    }

    pub fn remove_tasks(&mut self, tube: &str) {
        self.0.retain(|(of, body), _| of != tube || body.is_empty());
    }

    pub fn kick(&mut self, tube: &str) {
        let buried =
            self.0.iter_mut().filter(|(key, state)| key.0 == tube && **state == Stored::Buried);
        buried.for_each(|(_, state)| *state = Stored::Ready);
    }

    fn of_store(store: &Store) -> Contents {
        let mut found = Contents::default();
        for info in store.tubes().unwrap() {
            let tube = store.find_tube(&info.name).unwrap();
            found.insert(&info.name, "", Stored::Ready);
            for (state, stored) in [
                (TaskState::Ready, Stored::Ready),
                (TaskState::Taken, Stored::Ready),
                (TaskState::Delayed, Stored::Delayed),
                (TaskState::Buried, Stored::Buried),
            ] {
                let page = tube.query().list(state, None, 1000).unwrap();
                for task in page.items {
                    let owner = tube.query().owner(task.id).unwrap();
                    let is_parked = owner.is_some_and(|owner| owner.is_parked);
                    let stored = if is_parked { Stored::Parked } else { stored };
                    let body = String::from_utf8(tube.query().task(task.id).unwrap().body.to_vec())
                        .unwrap();
                    found.insert(&info.name, label(&body), stored);
                }
            }
        }
        found
    }
}

/// The expected contents of a store: what it has flushed, and what it has decided since.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    flushed: Contents,
    /// The contents after each change that was decided since, in order.
    later: Vec<Contents>,
    /// How many of these changes a kill keeps.
    written: usize,
    /// Names of the temporary tubes.
    temporary: Vec<String>,
}

impl Expected {
    pub fn add_temporary_tube(&mut self, tube: &str) {
        self.temporary.push(tube.to_owned());
    }

    /// The contents that the open store has.
    pub fn current(&self) -> &Contents {
        self.later.last().unwrap_or(&self.flushed)
    }

    /// Records a change that the store has decided.
    pub fn change(&mut self, change: impl FnOnce(&mut Contents)) {
        let mut contents = self.current().clone();
        change(&mut contents);
        if contents != *self.current() {
            self.later.push(contents);
        }
    }

    /// Records that the last change was acknowledged, if it was one.
    pub fn acknowledge(&mut self, level: Level, is_change: bool) {
        match level {
            Level::Flushed => self.mark_flushed(),
            Level::Written if is_change => self.written = self.later.len(),
            Level::Written | Level::Decided => {}
        }
    }

    /// Records that every decided change is on the disk.
    pub fn mark_flushed(&mut self) {
        self.flushed = self.current().clone();
        self.later.clear();
        self.written = 0;
    }

    /// Records a clean close and a reopen.
    pub fn mark_reopened(&mut self) {
        self.mark_flushed();
        self.flushed = self.in_file(&self.flushed);
    }

    /// Asserts that the store has every change that it decided, whatever the call returned.
    #[track_caller]
    pub fn check(&self, store: &Store) {
        assert_eq!(Contents::of_store(store), *self.current());
    }

    /// Checks a store that was opened on what a killed process left: every decided change up to some
    /// one, and all that were written.
    #[track_caller]
    pub fn check_after_kill(&self, store: &Store) {
        self.check_prefix(store, self.written);
    }

    /// Checks a store that was opened on what a power cut left: every decided change up to some one,
    /// and all that were flushed.
    #[track_caller]
    pub fn check_after_power_cut(&self, store: &Store) {
        self.check_prefix(store, 0);
    }

    /// As [`Expected::check_after_power_cut`]. What is found is expected from now on.
    #[track_caller]
    pub fn check_and_adopt(&mut self, store: &Store) {
        self.check_after_power_cut(store);
        self.flushed = Contents::of_store(store);
        self.later.clear();
        self.written = 0;
    }

    #[track_caller]
    fn check_prefix(&self, store: &Store, least: usize) {
        let found = Contents::of_store(store);
        let all = [&self.flushed].into_iter().chain(&self.later);
        let matches = all.skip(least).any(|contents| self.in_file(contents) == found);
        assert!(matches, "no prefix with {least} changes: {found:?}, expected {self:?}");
    }

    /// Without the tasks of temporary tubes.
    fn in_file(&self, contents: &Contents) -> Contents {
        let mut contents = contents.clone();
        for tube in &self.temporary {
            contents.remove_tasks(tube);
        }
        contents
    }
}
