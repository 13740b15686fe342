//! Comparisons of histories.

use super::System;
use super::convert::{library_wall, micros, state_of, verb_of};
use super::reference::{Entry, Verb};

impl System {
    /// Compares the histories of all tasks.
    #[track_caller]
    pub(super) fn check_histories(&self) {
        // An entry has a time of the timeline, which is shown as one of the wall clock as it is now.
        let wall = std::time::UNIX_EPOCH + library_wall(self.model.wall());
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let got = handle.history(self.ids[&no]).unwrap().into_iter().map(|entry| {
                    let ago = wall.duration_since(entry.at).unwrap();
                    let verb = verb_of(entry.what);
                    Entry {
                        number: entry.number,
                        at: self.model.now() - micros(Some(ago)).unwrap(),
                        verb,
                        state: state_of(entry.state),
                        owner: entry.owner,
                        text: entry.text.filter(|_| verb == Verb::Log),
                        tube: entry.tube,
                    }
                });
                let got: Vec<Entry> = got.collect();
                assert_eq!(got, task.history.entries, "the history of task {no}");
            }
        }
    }
}
