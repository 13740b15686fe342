//! Comparisons of histories.

use super::System;
use super::convert::{model_moment, state_of, verb_of};
use super::reference::{Entry, Verb};

impl System {
    /// Compares the histories of all tasks.
    #[track_caller]
    pub(super) fn check_histories(&self) {
        for (tube_no, tube) in self.model.tubes() {
            let handle = self.store.find_tube(&tube.name).unwrap();
            for (no, task) in self.model.tasks(*tube_no) {
                let got = handle.query().history(self.ids[&no]).unwrap().into_iter().map(|entry| {
                    let verb = verb_of(entry.what);
                    Entry {
                        number: entry.number,
                        at: self.model.time_shown(model_moment(entry.at)),
                        verb,
                        state: state_of(entry.state),
                        owner: entry.owner,
                        text: entry.text.filter(|_| verb == Verb::Log),
                        tube: entry.tube,
                    }
                });
                let got: Vec<Entry> = got.collect();
                let expected = task.history.shown(tube.options.history);
                assert_eq!(got, expected, "the history of task {no}");
            }
        }
    }
}
