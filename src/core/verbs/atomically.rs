//! Calls that edit several tasks: all of their edits are made, or none.

use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::commit::DueCursor;
use crate::core::state::{Buffer, Core};

impl Core {
    /// Runs edits of the tasks of a tube. If one of them fails, those before it are taken back. The
    /// edits must leave everything else as it is: the caller makes the changes visible afterwards.
    pub(in crate::core) fn atomically<T>(
        &mut self,
        number: TubeNo,
        edits: impl FnOnce(&mut Core) -> Result<T>,
    ) -> Result<T> {
        self.atomically_in(&[number], edits)
    }

    /// As `atomically`, for edits of the tasks of several tubes, which are in one write buffer.
    pub(in crate::core) fn atomically_in<T>(
        &mut self,
        numbers: &[TubeNo],
        edits: impl FnOnce(&mut Core) -> Result<T>,
    ) -> Result<T> {
        let Some(first) = numbers.first() else { return edits(self) };
        let buffer = self.buffer_of(*first);
        let edited = self.edit_in_a_layer(buffer, numbers, edits)?;
        self.buffers[buffer].edits.end_call(true);
        Ok(edited)
    }

    /// As `atomically_in`. The edits stay in a layer of their own, which the caller ends.
    pub(super) fn edit_in_a_layer<T>(
        &mut self,
        buffer: Buffer,
        numbers: &[TubeNo],
        edits: impl FnOnce(&mut Core) -> Result<T>,
    ) -> Result<T> {
        let counts: Vec<_> =
            numbers.iter().map(|number| self.tubes.get(*number).map(|tube| tube.counts)).collect();
        self.buffers[buffer].edits.begin_call();
        self.undo.begin_edits();
        let outcome = edits(self);
        let edge_changes = self.undo.end_edits();
        if outcome.is_err() {
            self.buffers[buffer].edits.end_call(false);
            // The tokens that the edits have removed are back.
            self.buffers[buffer].tokens = DueCursor::default();
            self.take_back_edges(edge_changes);
            for (number, counts) in numbers.iter().zip(counts) {
                if let (Some(tube), Some(counts)) = (self.tubes.get_mut(*number), counts) {
                    tube.counts = counts;
                    // It has the heads as the edits have left them.
                    tube.head_cache.clear();
                }
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use tubewell_drivers::Shelf;

    use crate::{Error, Failure, Filter, Put, Store, TaskState, TubeOptions, UTUBE};

    /// Rows of records, heads, failure groups and notes, of this call and of earlier ones.
    #[test]
    fn failed_edits_of_a_call_are_taken_back() {
        let store = Store::in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(UTUBE)).unwrap();
        let number = store.inner().run(|core| core.find_tube("work")).unwrap().number;
        for _ in 0..2 {
            tube.put_many(["a", "b"].map(|sub| Put::new("x").sub_queue(sub))).unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            claim.bury(Failure::new("crash", "signal 9")).unwrap();
        }
        let listed = || {
            let page = |state| tube.query().list(state, None, 10).unwrap().items;
            (page(TaskState::Ready), page(TaskState::Buried).len(), tube.query().groups().unwrap())
        };
        let before = listed();
        for steps in 0..4 {
            let failed = store.inner().run(|core| {
                core.atomically(number, |core| {
                    for id in 0..steps {
                        let found = core.find(number, id)?;
                        let header = found.record.header.clone();
                        let to = if id % 2 == 0 { Shelf::Ready } else { Shelf::Buried };
                        core.edit(number, |ledger| match found.shelf {
                            shelf if shelf == to => ledger.remove(id, shelf, &header),
                            _ => ledger.move_to_shelf(id, &found, to, &header),
                        })?;
                    }
                    Err::<(), _>(Error::Overloaded)
                })
            });
            assert_eq!(failed, Err(Error::Overloaded));
            assert_eq!(listed(), before, "{steps} steps");
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
        assert_eq!(tube.admin().kick(Filter::new().limit(9)).unwrap(), 2);
        assert_eq!((listed().0.len(), listed().2), (4, Vec::new()));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
