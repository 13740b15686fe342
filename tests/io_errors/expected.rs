//! The contents that the store must have. A task is identified by its body, which is unique.

use std::collections::BTreeMap;

use tubewell::{State, Store};

/// The state of a task or tube. A taken task counts as ready: that is its state after a reopen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    Absent,
    Ready,
    Delayed,
    Buried,
}

/// The expected state of one task or tube.
#[derive(Clone, Debug)]
struct Entry {
    /// The states that the disk may have: that of the last flush, and every later one.
    on_disk: Vec<Stored>,
    /// The state that the open store has.
    current: Stored,
}

impl Entry {
    fn flushed(state: Stored) -> Entry {
        Entry { on_disk: vec![state], current: state }
    }

    fn change(&mut self, state: Stored) {
        self.on_disk.push(state);
        self.current = state;
    }
}

/// The expected contents of a store.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// By tube and body. The tube itself has the empty body.
    entries: BTreeMap<(String, String), Entry>,
    /// Names of the temporary tubes.
    temporary: Vec<String>,
}

impl Expected {
    pub fn add_temporary_tube(&mut self, tube: &str) {
        self.temporary.push(tube.to_owned());
    }

    /// Records a change that the store has decided.
    pub fn change(&mut self, tube: &str, body: &str, state: Stored) {
        let entry = self
            .entries
            .entry((tube.to_owned(), body.to_owned()))
            .or_insert_with(|| Entry::flushed(Stored::Absent));
        entry.change(state);
    }

    /// Records a change of all tasks of a tube, or of those in state `from`.
    pub fn change_all(&mut self, tube: &str, from: Option<Stored>, to: Stored) {
        for ((of, body), entry) in &mut self.entries {
            if of == tube && !body.is_empty() && from.is_none_or(|from| entry.current == from) {
                entry.change(to);
            }
        }
    }

    /// Records that every decided change is on the disk.
    pub fn mark_flushed(&mut self) {
        for ((tube, body), entry) in &mut self.entries {
            if body.is_empty() || !self.temporary.contains(tube) {
                *entry = Entry::flushed(entry.current);
            }
        }
    }

    /// Records a clean close and a reopen.
    pub fn mark_reopened(&mut self) {
        self.mark_flushed();
        self.clear_temporary_tubes();
    }

    /// The bodies of the tasks of a tube in this state.
    pub fn bodies(&self, tube: &str, state: Stored) -> Vec<String> {
        let matches = |((of, body), entry): &(&(String, String), &Entry)| {
            of == tube && !body.is_empty() && entry.current == state
        };
        self.entries.iter().filter(matches).map(|((_, body), _)| body.clone()).collect()
    }

    /// Asserts that the store has every change that it decided, whatever the call returned.
    #[track_caller]
    pub fn check(&self, store: &Store) {
        let found = contents(store);
        for (key, entry) in &self.entries {
            let state = found.get(key).copied().unwrap_or(Stored::Absent);
            assert_eq!(state, entry.current, "{key:?}, of {found:?}");
        }
        let unknown = found.keys().find(|key| !self.entries.contains_key(*key));
        assert_eq!(unknown, None, "no call put this");
    }

    /// Checks a store that was reopened after a failure. It must have every flushed change. An
    /// unflushed change may be present or absent; the state found is the expected one from now on.
    #[track_caller]
    pub fn check_and_adopt(&mut self, store: &Store) {
        self.clear_temporary_tubes();
        let found = contents(store);
        for (key, entry) in &mut self.entries {
            let state = found.get(key).copied().unwrap_or(Stored::Absent);
            assert!(entry.on_disk.contains(&state), "{key:?} is {state:?}: {entry:?}");
            *entry = Entry::flushed(state);
        }
        self.check(store);
    }

    fn clear_temporary_tubes(&mut self) {
        for ((tube, body), entry) in &mut self.entries {
            if !body.is_empty() && self.temporary.contains(tube) {
                *entry = Entry::flushed(Stored::Absent);
            }
        }
    }
}

fn contents(store: &Store) -> BTreeMap<(String, String), Stored> {
    let mut found = BTreeMap::new();
    for info in store.tubes() {
        let tube = store.tube(&info.name).unwrap();
        found.insert((info.name.clone(), String::new()), Stored::Ready);
        for (state, stored) in [
            (State::Ready, Stored::Ready),
            (State::Taken, Stored::Ready),
            (State::Delayed, Stored::Delayed),
            (State::Buried, Stored::Buried),
        ] {
            let page = tube.list(state, None, 1000).unwrap();
            for task in page.tasks {
                let body = String::from_utf8(tube.peek(task.id).unwrap().data).unwrap();
                let label = body.split('.').next().unwrap().to_owned();
                found.insert((info.name.clone(), label), stored);
            }
        }
    }
    found
}
