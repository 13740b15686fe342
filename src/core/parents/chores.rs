//! Chores: work of unknown size after a call, a step at a time, which goes on after a crash.
//!
//! The children of a parent are told of its end, and the edges of the tasks of dropped and truncated
//! tubes are removed, before their rows are purged.

use std::collections::BTreeMap;

use tubewell_drivers::{Reads, Row, Rows, Table, children, keys, parents, remove_edge};

use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::state::{Buffer, Chore, Core, ParentEnd, mark_of_purge};
use crate::{Error, Result, TaskState};

/// How many children one step tells. Each is some four rows of the commit.
const CHILDREN_PER_STEP: usize = 256;

/// How many tasks of a space to purge one step looks at, and after how many edges it ends.
const TASKS_PER_STEP: usize = 128;
const EDGES_PER_STEP: usize = 512;

impl Core {
    /// Does one step of the chores that tell children of the ends of their parents. Returns false if
    /// there are none. While a transaction is in doubt it does none: the flush that follows a step
    /// waits for that transaction.
    pub(crate) fn tell_children(&mut self) -> Result<bool> {
        if !self.has_ends_to_tell() {
            return Ok(false);
        }
        if !self.has_chores() {
            return Ok(true);
        }
        Ok(self.do_next_chore(Buffer::File)? || self.do_next_chore(Buffer::Memory)?)
    }

    /// Whether children are to be told of the ends of their parents.
    pub(crate) fn has_ends_to_tell(&self) -> bool {
        self.chores.has_ends_to_tell()
    }

    /// Does one step of the next chore of a write buffer. Returns false if it has no chore.
    pub(in crate::core) fn next_chore_step(&mut self, buffer: Buffer) -> Result<bool> {
        let Some((parent, chore)) = self.chores.next_parent(buffer) else { return Ok(false) };
        let rows = &mut self.buffers[buffer];
        let told = match children(rows, parent, chore.after, CHILDREN_PER_STEP) {
            // A damaged edge must not stop the others. The mark stays; `verify` reports the edge.
            Err(Error::Corrupt { .. }) => {
                self.chores.remove_parent(buffer, parent);
                return Ok(true);
            }
            told => told?,
        };
        self.publish_together(|core| {
            told.iter().try_for_each(|child| {
                match core.tell((buffer, parent), *child, chore.end, chore.visibility) {
                    // A damaged task stays as it is, and `verify` reports it.
                    Err(Error::Corrupt { .. }) => Ok(()),
                    told => told,
                }
            })
        })?;
        match self.chores.parent(buffer, parent) {
            // The parent was buried, and the burial of a child has removed it, since its tube keeps few
            // buried tasks: all children are told of that.
            Some(now) if now.end != chore.end => {}
            _ if told.len() < CHILDREN_PER_STEP => self.remove_chore((buffer, parent)),
            Some(now) => {
                let after = told.last().map(|(id, _)| *id);
                self.chores.add_parent(buffer, parent, Chore { after, ..now });
            }
            None => {}
        }
        Ok(true)
    }

    /// Marks a parent whose children are to be told of its end.
    pub(super) fn tell_later_in(
        &mut self,
        buffer: Buffer,
        parent: u64,
        end: ParentEnd,
        visibility: Visibility,
    ) {
        // A parent that was buried may be done or gone before its children are told.
        let is_over = |chore: Chore| chore.end != ParentEnd::Buried;
        if self.chores.parent(buffer, parent).is_some_and(is_over) {
            return;
        }
        self.store_chore((buffer, parent), Chore { end, after: None, visibility });
        self.effects.call_writer = true;
    }

    /// Notes a chore, and marks its parent.
    pub(super) fn store_chore(&mut self, (buffer, parent): (Buffer, u64), chore: Chore) {
        let mark = [chore.end.byte()].as_slice().into();
        self.buffers[buffer].replace(Table::Meta, keys::freed(parent), mark);
        self.chores.add_parent(buffer, parent, chore);
    }

    /// Removes a chore, and the mark of its parent.
    pub(super) fn remove_chore(&mut self, (buffer, parent): (Buffer, u64)) {
        if self.chores.remove_parent(buffer, parent) {
            self.buffers[buffer].remove(Table::Meta, keys::freed(parent));
        }
    }

    /// Refuses to begin a done task anew while its children are still to be told of its end: those
    /// that wait for the new run would be told, too.
    pub(in crate::core) fn check_is_told(&self, number: TubeNo, id: u64) -> Result<()> {
        if !self.chores.tells(self.buffer_of(number), id, ParentEnd::Done) {
            return Ok(());
        }
        let why = "the tasks that waited for it are still being freed; try again later".to_owned();
        Err(Error::NotReady { id, state: TaskState::Done, why })
    }

    /// A task is no longer buried: those of its children that are not told of the burial are not.
    pub(in crate::core) fn forget_burial(&mut self, number: TubeNo, id: u64) {
        let buffer = self.buffer_of(number);
        if self.chores.tells(buffer, id, ParentEnd::Buried) {
            self.remove_chore((buffer, id));
        }
    }

    /// A parent that an earlier run has marked.
    pub(in crate::core) fn load_chore(&mut self, parent: &[u8], row: &[u8]) -> Result<()> {
        let bad = || Error::corrupt("the mark of a parent");
        let parent = parent.try_into().map(u64::from_be_bytes).map_err(|_| bad())?;
        let end = ParentEnd::from_row(row).ok_or_else(bad)?;
        let chore = Chore { end, after: None, visibility: Visibility::Flushed };
        self.chores.add_parent(Buffer::File, parent, chore);
        Ok(())
    }

    /// A space to purge that an earlier run has marked.
    pub(in crate::core) fn load_purge(&mut self, space: u32, row: &[u8]) {
        self.chores.add_purge(Buffer::File, space, row == mark_of_purge(true));
    }

    /// Whether tasks of a tube may have edges: as parents, or as children.
    pub(in crate::core) fn may_have_edges(&self, number: TubeNo) -> bool {
        let Some(tube) = self.tubes.get(number) else { return false };
        let counts = &tube.counts;
        // A buried task may have parents.
        counts.edges > 0 || counts.blocked > 0 || counts.buried > 0 && self.any_tube_has_edges()
    }

    /// Whether tasks of any tube, or of a space that is purged, have edges.
    fn any_tube_has_edges(&self) -> bool {
        self.has_ends_to_tell() || self.tubes.values().any(|tube| tube.counts.edges > 0)
    }

    /// Removes the edges of some tasks of a space that is purged: those from their parents, and by
    /// chores those to their children. Returns true when there are none any more.
    pub(in crate::core) fn purge_edges(&mut self, buffer: Buffer, space: u32) -> Result<bool> {
        let Some(from) = self.chores.edges_from(space) else { return Ok(true) };
        let from = from.to_vec();
        let end = keys::end_of(&keys::space_prefix(space));
        let tasks = self.buffers[buffer].scan(Table::Tasks, &from, &end, TASKS_PER_STEP)?;
        let (mut edges, mut next) = (0, None);
        for (key, _) in &tasks {
            // A key that cannot be read is removed with the others.
            if let Ok((_, id)) = keys::order_and_id(key) {
                edges += match self.purge_edges_of(buffer, id) {
                    // `verify` reports a damaged edge.
                    Err(Error::Corrupt { .. }) => 0,
                    removed => removed?,
                };
            }
            next = Some(keys::after(key));
            if edges >= EDGES_PER_STEP {
                break;
            }
        }
        if edges < EDGES_PER_STEP && tasks.len() < TASKS_PER_STEP {
            self.chores.edges_are_removed(space, None);
            return Ok(true);
        }
        if let Some(next) = next {
            self.chores.edges_are_removed(space, Some(next));
        }
        Ok(false)
    }

    fn purge_edges_of(&mut self, buffer: Buffer, id: u64) -> Result<usize> {
        let rows = &mut self.buffers[buffer];
        let has_children = !children(rows, id, None, 1)?.is_empty();
        let above = parents(rows, id, None, usize::MAX)?;
        for (parent, _) in &above {
            remove_edge(rows, id, *parent);
        }
        self.count_edges(above.iter().map(|(_, space)| (*space, -1)).collect());
        if has_children {
            self.tell_later_in(buffer, id, ParentEnd::Gone, Visibility::Flushed);
        }
        Ok(above.len() + usize::from(has_children))
    }
}

/// The marked parents among the rows of `meta`. A mark that cannot be read is left out.
pub(crate) fn read_ended_parents(meta: &[Row]) -> BTreeMap<u64, ParentEnd> {
    let marks = meta.iter().filter_map(|(key, row)| {
        let parent = key.strip_prefix(b"freed/")?.try_into().ok()?;
        Some((u64::from_be_bytes(parent), ParentEnd::from_row(row)?))
    });
    marks.collect()
}

#[cfg(all(test, feature = "redb"))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::core::state::InDoubt;
    use crate::{FIFOTTL, Put, Store, TubeOptions};

    #[test]
    fn no_child_is_told_while_a_transaction_is_in_doubt() {
        let store = Store::in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let parent = tube.put("parent").unwrap().id;
        tube.put(Put::new("child").after(&tube, [parent])).unwrap();
        store.inner().run(|core| {
            let number = core.find_tube("work").unwrap().number;
            core.tell_later(number, parent, ParentEnd::Buried);
            let (noted, over, waited_for) = (Vec::new(), Vec::new(), BTreeSet::new());
            let chores = BTreeMap::new();
            let (commit, counted) = (u64::MAX, Vec::new());
            core.undo.in_doubt =
                Some(InDoubt { commit, changes: 0..0, noted, over, waited_for, chores, counted });
            assert_eq!(core.tell_children(), Ok(true));
            assert_eq!(core.chores.parents().len(), 1);
            core.undo.in_doubt = None;
            assert_eq!(core.tell_children(), Ok(true));
            assert_eq!((core.chores.parents().len(), core.tell_children()), (0, Ok(false)));
        });
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
