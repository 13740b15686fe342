//! The ends of parents: what becomes of their children.

use std::collections::BTreeSet;

use tubewell_drivers::{EdgeEnd, Found, Shelf, edge, remove_edge};

use super::edges::leave_parents;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::core::history::Entry;
use crate::core::state::{Buffer, ChildFate, Core, ParentEnd};
use crate::values::ending::FailureKind;
use crate::{Error, EventKind, Failure, OnParent, Result, TaskState};

/// How many children an ack tells with its own commit.
pub(super) const FREED_AT_ONCE: usize = 64;

impl Core {
    /// Edits that end a task as done, and tell its first children; the others are told by a chore. All
    /// or nothing. The caller makes the changes of the children visible, together with that of the
    /// task.
    pub(in crate::core) fn end_parent<T>(
        &mut self,
        number: TubeNo,
        id: u64,
        end: impl FnOnce(&mut Core) -> Result<T>,
    ) -> Result<(T, Vec<Change>)> {
        let children = self.first_children(number, id)?;
        if children.is_empty() {
            return Ok((end(self)?, Vec::new()));
        }
        let mut tubes = self.tubes_of(&children);
        tubes.insert(number);
        let tubes = Vec::from_iter(tubes);
        let ended = self.atomically_in(&tubes, |core| {
            let freed = core.free_first(number, id, &children)?;
            Ok((end(core)?, freed))
        })?;
        self.free_others(number, id, &children);
        Ok(ended)
    }

    /// The children that an ack tells with its own commit, and one more if there are others.
    pub(in crate::core) fn first_children(
        &mut self,
        number: TubeNo,
        id: u64,
    ) -> Result<Vec<EdgeEnd>> {
        self.children_of(number, id, FREED_AT_ONCE + 1)
    }

    /// The tubes of these tasks.
    pub(in crate::core) fn tubes_of(&self, tasks: &[EdgeEnd]) -> BTreeSet<TubeNo> {
        tasks.iter().filter_map(|(_, space)| self.tubes.of_space(*space)).collect()
    }

    /// Frees the first children of a task that is done. The call may still be taken back.
    pub(in crate::core) fn free_first(
        &mut self,
        number: TubeNo,
        id: u64,
        children: &[EdgeEnd],
    ) -> Result<Vec<Change>> {
        let buffer = self.buffer_of(number);
        let mut freed = Vec::new();
        for child in children.iter().take(FREED_AT_ONCE) {
            match self.free_one(buffer, id, *child) {
                // A damaged child stays blocked, and `verify` reports it.
                Err(Error::Corrupt { .. }) => {}
                change => freed.extend(change?),
            }
        }
        Ok(freed)
    }

    fn free_one(&mut self, buffer: Buffer, id: u64, child: EdgeEnd) -> Result<Option<Change>> {
        match self.find_child(buffer, id, child)? {
            Some((number, found)) => self.free(number, (id, ParentEnd::Done), child.0, &found),
            None => Ok(None),
        }
    }

    /// The first children of a task are free, and the call has succeeded: the others follow.
    pub(in crate::core) fn free_others(&mut self, number: TubeNo, id: u64, children: &[EdgeEnd]) {
        if children.len() > FREED_AT_ONCE {
            self.tell_later(number, id, ParentEnd::Done);
        }
    }

    /// Makes visible what a call in a tube has decided, and that it has freed these tasks.
    pub(in crate::core) fn publish_with_freed<T>(
        &mut self,
        number: TubeNo,
        freed: Vec<Change>,
        publish: impl FnOnce(&mut Core) -> T,
    ) -> T {
        if freed.is_empty() {
            return publish(self);
        }
        let visibility = self.visibility(number);
        self.publish_together(|core| {
            let answer = publish(core);
            for change in freed {
                core.make_visible(change, visibility);
            }
            answer
        })
    }

    /// Whether others wait for a task that is about to be buried or removed. Read before its edits.
    pub(in crate::core) fn has_children(&mut self, number: TubeNo, id: u64) -> Result<bool> {
        Ok(!self.children_of(number, id, 1)?.is_empty())
    }

    /// Whether a task waits for others, or others for it.
    pub(in crate::core) fn has_edges(&mut self, number: TubeNo, id: u64, found: &Found) -> bool {
        found.record.header.open_parents() > 0 || self.has_children(number, id).unwrap_or(true)
    }

    /// Removes the rows of a task that is not deleted: its ttl has elapsed, or its tube keeps it no
    /// longer. Marks it if others wait for it.
    pub(in crate::core) fn remove_as_gone(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<()> {
        // The children of a task that is done are free, or are being freed.
        let has_children = found.shelf != Shelf::Done && self.has_children(number, id)?;
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))?;
        if has_children {
            self.tell_later(number, id, ParentEnd::Gone);
        }
        Ok(())
    }

    /// Tells a child of the end of its parent, and makes visible what becomes of it.
    pub(super) fn tell(
        &mut self,
        (buffer, parent): (Buffer, u64),
        child: EdgeEnd,
        end: ParentEnd,
        visibility: Visibility,
    ) -> Result<()> {
        let Some((number, found)) = self.find_child(buffer, parent, child)? else { return Ok(()) };
        let (id, is_blocked) = (child.0, found.shelf == Shelf::Blocked);
        match end.fate_of_child(OnParent::of(&found.record.header), is_blocked) {
            ChildFate::Waits => {}
            ChildFate::Freed => {
                if let Some(change) = self.free(number, (parent, end), id, &found)? {
                    self.make_visible(change, visibility);
                }
            }
            ChildFate::Buried => self.bury_child(number, (parent, end), id, &found, visibility)?,
        }
        Ok(())
    }

    /// Removes the edge from a parent to a child. Returns the change of a child that is free now.
    fn free(
        &mut self,
        number: TubeNo,
        (parent, end): (u64, ParentEnd),
        id: u64,
        found: &Found,
    ) -> Result<Option<Change>> {
        let buffer = self.buffer_of(number);
        let rows = &mut self.buffers[buffer];
        let Some(edge) = edge(rows, id, parent)? else { return Ok(None) };
        let (to, mut header) = self.without_parents(number, found, 1, Some(end))?;
        let (kind, from) = (EventKind::Unblock, TaskState::on_shelf(found.shelf));
        let moves = to != found.shelf;
        let entry = moves.then(|| Entry::new(kind, TaskState::on_shelf(to)));
        self.write_without_parents((number, id), found, to, &mut header, &[edge], entry)?;
        if !moves {
            return Ok(None);
        }
        Ok(Some(self.change(number, id, kind, Some(from), TaskState::on_shelf(to), Some(header))))
    }

    /// Buries a blocked task, since a parent was buried or is gone.
    fn bury_child(
        &mut self,
        number: TubeNo,
        (parent, end): (u64, ParentEnd),
        id: u64,
        found: &Found,
        visibility: Visibility,
    ) -> Result<()> {
        let is_gone = end == ParentEnd::Gone;
        let buffer = self.buffer_of(number);
        let edge = edge(&mut self.buffers[buffer], id, parent)?;
        let what = if is_gone { "removed" } else { "buried" };
        let message = format!("its parent, task {parent}, was {what}");
        let failure = Failure::new(end.failure_group(), message);
        let mut header = found.record.header.clone();
        if is_gone {
            header.edit_more(|more| leave_parents(more, 1, Some(end)));
        }
        let is_last = header.open_parents() == 0;
        let mut fate = self.rules(number)?.bury(header, Some(failure), FailureKind::Parent);
        self.carry_out_fate((number, id), found, EventKind::Bury, &mut fate, None, visibility)?;
        if let Some(edge) = edge.filter(|_| is_gone && !is_last) {
            self.edit(number, |ledger| {
                ledger.remove_edge(id, edge);
                Ok(())
            })?;
        }
        let (kind, from) = (EventKind::Bury, TaskState::on_shelf(found.shelf));
        self.make_fate_visible((number, id), kind, from, fate, visibility);
        Ok(())
    }

    /// Finds a child. Removes the edge to one that is gone with its tube. `None` for it, and for a
    /// damaged one: `verify` reports that.
    fn find_child(
        &mut self,
        buffer: Buffer,
        parent: u64,
        (id, space): EdgeEnd,
    ) -> Result<Option<(TubeNo, Found)>> {
        let Some(number) = self.tubes.of_space(space) else {
            let rows = &mut self.buffers[buffer];
            if let Some((_, space)) = edge(rows, id, parent)? {
                remove_edge(rows, id, parent);
                self.count_edges(vec![(space, -1)]);
            }
            return Ok(None);
        };
        Ok(self.find_if_whole(number, id)?.map(|found| (number, found)))
    }

    /// Marks a parent: its children are told of its end by the writer thread, in this run or the next.
    pub(in crate::core) fn tell_later(&mut self, number: TubeNo, id: u64, end: ParentEnd) {
        self.tell_later_as(self.visibility(number), number, id, end);
    }

    /// As `tell_later`, after an end that becomes visible as this says.
    pub(in crate::core) fn tell_later_as(
        &mut self,
        visibility: Visibility,
        number: TubeNo,
        id: u64,
        end: ParentEnd,
    ) {
        let visibility = match visibility {
            Visibility::Written(delay) => Visibility::Within(delay),
            other => other,
        };
        self.tell_later_in(self.buffer_of(number), id, end, visibility);
    }
}
