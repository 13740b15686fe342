//! What a store should hold: each task is known by its body, which no other task has.

use std::collections::BTreeMap;

use tubewell::{State, Store};

/// Where a task stands in what this test looks at; a taken one is ready for whoever opens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Gone,
    Ready,
    Delayed,
    Buried,
}

/// A task or a tube, before and after what may have failed.
#[derive(Clone, Debug)]
struct Fate {
    /// As the disk may have it: where it was when all was flushed last, and since.
    since: Vec<Place>,
    /// As the store has it.
    now: Place,
}

impl Fate {
    fn certain(place: Place) -> Fate {
        Fate { since: vec![place], now: place }
    }

    fn note(&mut self, place: Place) {
        self.since.push(place);
        self.now = place;
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// By tube and body; the tube itself is under the empty body.
    fates: BTreeMap<(String, String), Fate>,
    /// Tubes that are in memory only.
    temporary: Vec<String>,
}

impl Books {
    pub fn temporary(&mut self, tube: &str) {
        self.temporary.push(tube.to_owned());
    }

    /// A change that the store has decided.
    pub fn note(&mut self, tube: &str, body: &str, place: Place) {
        let fate = self
            .fates
            .entry((tube.to_owned(), body.to_owned()))
            .or_insert_with(|| Fate::certain(Place::Gone));
        fate.note(place);
    }

    /// All tasks of a tube are gone, or ready if it is their state that changes.
    pub fn note_all(&mut self, tube: &str, from: Option<Place>, to: Place) {
        for ((of, body), fate) in &mut self.fates {
            if of == tube && !body.is_empty() && from.is_none_or(|from| fate.now == from) {
                fate.note(to);
            }
        }
    }

    /// All that is decided is on the disk.
    pub fn flushed(&mut self) {
        for ((tube, body), fate) in &mut self.fates {
            if body.is_empty() || !self.temporary.contains(tube) {
                *fate = Fate::certain(fate.now);
            }
        }
    }

    /// The process ended in good order, and began anew.
    pub fn reopened(&mut self) {
        self.flushed();
        self.forget_memory();
    }

    /// The bodies of a tube at this place.
    pub fn at(&self, tube: &str, place: Place) -> Vec<String> {
        let here = |((of, body), fate): &(&(String, String), &Fate)| {
            of == tube && !body.is_empty() && fate.now == place
        };
        self.fates.iter().filter(here).map(|((_, body), _)| body.clone()).collect()
    }

    /// The store has all that it decided, whatever the answer was.
    #[track_caller]
    pub fn check(&self, store: &Store) {
        let found = contents(store);
        for (key, fate) in &self.fates {
            let place = found.get(key).copied().unwrap_or(Place::Gone);
            assert_eq!(place, fate.now, "{key:?}, of {found:?}");
        }
        let strange = found.keys().find(|key| !self.fates.contains_key(*key));
        assert_eq!(strange, None, "nobody put that");
    }

    /// A store that was opened after one that failed has all that was certain; what was not may be
    /// either way, and is what it is from now on.
    #[track_caller]
    pub fn settle(&mut self, store: &Store) {
        self.forget_memory();
        let found = contents(store);
        for (key, fate) in &mut self.fates {
            let place = found.get(key).copied().unwrap_or(Place::Gone);
            assert!(fate.since.contains(&place), "{key:?} is {place:?}: {fate:?}");
            *fate = Fate::certain(place);
        }
        self.check(store);
    }

    fn forget_memory(&mut self) {
        for ((tube, body), fate) in &mut self.fates {
            if !body.is_empty() && self.temporary.contains(tube) {
                *fate = Fate::certain(Place::Gone);
            }
        }
    }
}

fn contents(store: &Store) -> BTreeMap<(String, String), Place> {
    let mut found = BTreeMap::new();
    for info in store.tubes() {
        let tube = store.tube(&info.name).unwrap();
        found.insert((info.name.clone(), String::new()), Place::Ready);
        for (state, place) in [
            (State::Ready, Place::Ready),
            (State::Taken, Place::Ready),
            (State::Delayed, Place::Delayed),
            (State::Buried, Place::Buried),
        ] {
            let page = tube.list(state, None, 1000).unwrap();
            for task in page.tasks {
                let body = String::from_utf8(tube.peek(task.id).unwrap().data).unwrap();
                let short = body.split('.').next().unwrap().to_owned();
                found.insert((info.name.clone(), short), place);
            }
        }
    }
    found
}
