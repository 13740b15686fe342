//! Where the tasks of an export are in the store.

use std::collections::{BTreeMap, HashSet};

/// What became of a task of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is in the tube of this number, with this id.
    Stored { tube: u32, id: u64 },
    /// It is done, and was left out.
    Done,
    /// Its ttl elapsed before it was done.
    Expired,
}

/// The new ids of the tasks of an export, by their old ones. Consecutive ids take up one entry.
#[derive(Default)]
pub struct NewIds {
    runs: BTreeMap<u64, Run>,
    /// The ids that the export has more than once: it is several exports.
    ambiguous: HashSet<u64>,
}

/// The places of tasks with consecutive ids. The new ids are consecutive, too.
struct Run {
    first: Place,
    length: u64,
}

impl NewIds {
    pub fn add(&mut self, old: u64, place: Place) {
        if self.run_of(old).is_some() {
            self.ambiguous.insert(old);
            return;
        }
        let before = self.runs.range_mut(..old).next_back();
        match before.filter(|(from, run)| **from + run.length == old) {
            Some((_, run)) if at(run.first, run.length) == place => run.length += 1,
            _ => drop(self.runs.insert(old, Run { first: place, length: 1 })),
        }
    }

    /// Notes that the export has several tasks with this id.
    pub fn add_ambiguous(&mut self, old: u64) {
        self.ambiguous.insert(old);
    }

    /// `None` if the export does not have the task, or several with this id.
    pub fn get(&self, old: u64) -> Option<Place> {
        if self.ambiguous.contains(&old) {
            return None;
        }
        self.run_of(old)
    }

    fn run_of(&self, old: u64) -> Option<Place> {
        let (from, run) = self.runs.range(..=old).next_back()?;
        let offset = old - from;
        (offset < run.length).then(|| at(run.first, offset))
    }
}

/// The place this many tasks after the first one of a run.
fn at(first: Place, offset: u64) -> Place {
    match first {
        Place::Stored { tube, id } => Place::Stored { tube, id: id.saturating_add(offset) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(tube: u32, id: u64) -> Place {
        Place::Stored { tube, id }
    }

    #[test]
    fn consecutive_ids_take_up_one_entry() {
        let mut ids = NewIds::default();
        for old in (0..100).chain(200..300) {
            ids.add(old, stored(0, old + 7));
        }
        ids.add(100, stored(1, 107));
        ids.add(101, Place::Done);
        ids.add(102, Place::Done);
        ids.add(103, Place::Expired);
        ids.add(199, stored(0, 1));
        assert_eq!(ids.runs.len(), 6);
        assert_eq!(ids.get(99), Some(stored(0, 106)));
        assert_eq!(ids.get(100), Some(stored(1, 107)));
        assert_eq!([102, 103].map(|id| ids.get(id)), [Some(Place::Done), Some(Place::Expired)]);
        assert_eq!([104, 198, 300, u64::MAX].map(|id| ids.get(id)), [None; 4]);
        assert_eq!([199, 200].map(|id| ids.get(id)), [Some(stored(0, 1)), Some(stored(0, 207))]);
    }

    #[test]
    fn id_that_occurs_twice_is_not_found() {
        let mut ids = NewIds::default();
        for old in [5, 6, 7, 6, u64::MAX] {
            ids.add(old, stored(0, old));
        }
        assert_eq!(ids.get(6), None);
        assert_eq!(
            [5, 7, u64::MAX].map(|id| ids.get(id)),
            [5, 7, u64::MAX].map(|id| Some(stored(0, id)))
        );
    }
}
