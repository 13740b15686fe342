//! Outages, crashes and closes; the comparison with the model, and what must be left after them.

use std::collections::{BTreeMap, BTreeSet};

use tubewell::{EventKind, Filter, TaskState};

use super::{Entry, Simulation, Stored, TAGS, Versions};
use crate::seeds::Checked;
use crate::world::{Upset, since_begin};

const STATES: [TaskState; 4] =
    [TaskState::Ready, TaskState::Taken, TaskState::Buried, TaskState::Done];

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        let is_known = upset == Upset::Close || self.world.is_flushed;
        let is_exact = is_known && !self.world.is_unsure;
        if upset != Upset::Outage {
            self.end_claims();
        }
        self.world.settle();
        if is_exact {
            self.world.cover("exact");
            self.compare();
            let all = self.versions.values_mut();
            all.for_each(|it| (it.flushed, it.written) = (it.all.len(), it.all.len()));
        } else {
            self.world.cover("learned");
            self.check_versions(upset);
            self.begin_anew();
        }
    }

    fn compare(&self) {
        let found = self.stored();
        let expected = self.tasks.iter();
        let expected = expected.map(|(id, task)| {
            let is_under_way = task.take.is_some();
            let stored =
                if is_under_way { self.beside_a_take(&task.stored) } else { task.stored.clone() };
            (*id, (stored, task.is_taken))
        });
        assert_eq!(found, expected.collect(), "{:?}", self.policies);
        self.check_tags(&found);
    }
}

impl Simulation {
    /// The claims have ended with the process. A close notes it; a kill forgets the take.
    fn end_claims(&mut self) {
        let taken = self.tasks.iter().filter(|(_, task)| task.is_taken);
        for id in taken.map(|(id, _)| *id).collect::<Vec<_>>() {
            if self.is_closed {
                self.end(id, EventKind::Lost, TaskState::Ready);
            } else {
                let task = self.tasks.get_mut(&id).unwrap();
                (task.is_taken, task.take) = (false, None);
            }
        }
    }

    /// Checks that each task is as one of its changes has left it, and that no change is lost of which
    /// a call was told.
    fn check_versions(&mut self, upset: Upset) {
        let (found, mut earlier) = (self.stored(), false);
        for (id, Versions { all, flushed, written }) in &self.versions {
            let kept = if upset.is_power_cut() { *flushed } else { *written };
            let stored = found.get(id).map(|(stored, _)| stored);
            let mut left = all.iter().skip(kept.saturating_sub(1)).map(Option::as_ref);
            // A task may be lost whose put was not written.
            let is_taken = found.get(id).is_some_and(|(_, is_taken)| *is_taken);
            let is_shown = |version: Option<&Stored>| {
                let beside = version.filter(|_| is_taken).map(|it| self.beside_a_take(it));
                version == stored || stored.is_some() && beside.as_ref() == stored
            };
            let is_right = left.any(is_shown) || kept == 0 && stored.is_none();
            assert!(is_right, "task {id} is {stored:#?} after {upset:?}, {kept} kept: {all:#?}");
            earlier |= all.last().map(Option::as_ref) != Some(stored);
        }
        if earlier {
            self.world.cover("earlier version");
        }
        let known = |id: &u64| self.versions.contains_key(id);
        let unknown: Vec<_> = found.keys().filter(|id| !known(id)).collect();
        assert!(unknown.is_empty() || self.world.is_unsure, "no put has returned {unknown:?}");
        self.check_tags(&found);
    }

    /// A task that is taken. The take that is under way counts for the limit of the history, and has the
    /// place of an older entry.
    fn beside_a_take(&self, stored: &Stored) -> Stored {
        let (mut stored, limit) = (stored.clone(), self.policies[stored.tube].limit);
        if limit > 1 && stored.entries.len() == limit {
            stored.entries.remove(1);
        }
        stored
    }

    /// Removes all tasks.
    fn begin_anew(&mut self) {
        self.world.claims.clear();
        for tube in &self.world.tubes {
            tube.admin().truncate().unwrap();
        }
        self.world.store.flush().unwrap();
        self.tasks.clear();
        self.versions.clear();
    }

    /// Compares the lists of the tags with the tasks.
    fn check_tags(&self, tasks: &BTreeMap<u64, (Stored, bool)>) {
        for tag in TAGS {
            let page = self.world.store.list(Filter::new().tag(tag), None, 10_000).unwrap();
            let got: BTreeSet<u64> = page.items.iter().map(|task| task.id).collect();
            let tagged = tasks.iter().filter(|(_, (it, _))| it.tags.iter().any(|own| own == tag));
            assert_eq!(got, tagged.map(|(id, _)| *id).collect(), "the tasks with the tag {tag}");
        }
    }

    /// All tasks of the store, and whether they are taken. A task that is taken is stored as ready.
    fn stored(&self) -> BTreeMap<u64, (Stored, bool)> {
        let mut all = BTreeMap::new();
        for (tube, handle) in self.world.tubes.iter().enumerate() {
            for info in
                STATES.iter().flat_map(|it| handle.query().list(*it, None, 10_000).unwrap().items)
            {
                let is_taken = info.state == TaskState::Taken;
                let state = if is_taken { TaskState::Ready } else { info.state };
                let entries =
                    handle.query().history(info.id).unwrap().into_iter().map(|entry| Entry {
                        number: entry.number,
                        at: since_begin(entry.at),
                        what: entry.what,
                        state: entry.state,
                        text: entry.text.filter(|_| entry.what == EventKind::Log),
                        tube: entry.tube.parse().unwrap(),
                    });
                let mut entries: Vec<Entry> = entries.collect();
                // The take that is under way is in memory: it is stored with the next change.
                entries.pop_if(|last| is_taken && last.what == EventKind::Take);
                let stored = Stored { tube, state, tags: info.tags, entries };
                let again = all.insert(info.id, (stored, is_taken));
                assert_eq!(again, None, "task {} is listed twice", info.id);
            }
        }
        all
    }
}
