//! A transaction of the application whose commit has failed: it is taken back if it is not in the
//! database.
//!
//! The calls of a transaction are decided before its commit, and other calls may have been decided
//! after them. So their edits are not removed: new edits on top give each task what it had before,
//! and are committed together with them, so that no crash can separate the two.

use std::collections::{BTreeMap, BTreeSet};

use tubewell_drivers::{Contents, Header, Shelf};

use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::state::{Buffer, Core, EmptyUpTo, InDoubt, ParentEnd};
use crate::core::verbs::{KeyLookUp, key_of};
use crate::storage::Checkpoint;
use crate::{EventKind, Result, TaskState};

/// A task as it was before the transaction.
struct Before {
    shelf: Shelf,
    header: Header,
    contents: Contents,
}

/// A task that the transaction has changed.
#[derive(Clone, Copy)]
struct ChangedTask {
    number: TubeNo,
    id: u64,
    /// Its takes, with that of the claim which the transaction has ended.
    takes: u32,
}

impl Core {
    /// After a failure, the database ends with the commit `found`. If it does not have the
    /// transaction, takes it back: returns everything that the database must take then, with one
    /// commit. The engine has been reopened.
    pub(crate) fn resolve_transaction(&mut self, found: u64) -> Result<Option<Checkpoint>> {
        let Some(in_doubt) = self.undo.in_doubt.take() else { return Ok(None) };
        if found >= in_doubt.commit {
            self.transaction_holds(&in_doubt);
            return Ok(None);
        }
        match self.take_back(&in_doubt) {
            Ok(()) => {
                self.seal(Buffer::File, false);
                let buffer = &mut self.buffers[Buffer::File];
                buffer.end_call();
                Ok(Some(buffer.edits.log_into_checkpoint()))
            }
            Err(error) => {
                self.buffers[Buffer::File].end_call();
                self.undo.in_doubt = Some(in_doubt);
                Err(error)
            }
        }
    }

    fn take_back(&mut self, in_doubt: &InDoubt) -> Result<()> {
        let tasks = self.tasks_of(in_doubt);
        let above = self.buffers[Buffer::File].edits.hide_transaction();
        let before: Result<Vec<Option<Before>>> =
            tasks.iter().map(|task| self.read_before(*task)).collect();
        self.buffers[Buffer::File].edits.show_transaction(above);
        let mut before = before?;
        let moved = self.moved_since(in_doubt, &tasks);
        let moved_to = moved.iter().map(|(number, _)| *number);
        let numbers: Vec<TubeNo> = tasks.iter().map(|task| task.number).chain(moved_to).collect();
        let gone = self.atomically_in(&numbers, |core| {
            moved.iter().try_for_each(|(number, id)| core.remove_moved(*number, *id))?;
            let mut tasks_before = tasks.iter().zip(&mut before);
            tasks_before.try_for_each(|(task, before)| core.put_back(*task, before.as_mut()))?;
            let mut gone = Vec::new();
            for (task, _) in tasks.iter().zip(&before).filter(|(_, before)| before.is_none()) {
                if core.is_waited_for(task.id)? {
                    gone.push(*task);
                }
            }
            Ok(gone)
        })?;
        for (task, _) in tasks.iter().zip(&before).filter(|(_, before)| before.is_some()) {
            self.put_chore_back(task.id, in_doubt.chores.get(&(Buffer::File, task.id)));
        }
        for ChangedTask { number, id, .. } in gone {
            self.tell_later(number, id, ParentEnd::Gone);
        }
        self.end_waits_of_purged(in_doubt);
        for number in &numbers {
            if let Some(tube) = self.tubes.get_mut(*number) {
                tube.empty_up_to = EmptyUpTo::default();
            }
        }
        let headers = tasks.iter().zip(before);
        let headers = headers.filter_map(|(task, before)| Some((task.id, before?.header)));
        self.take_changes_back(in_doubt, headers.collect());
        Ok(())
    }

    /// The tasks that the transaction has changed, but for those that were deleted since, or resolved
    /// after it had ended their claims, and those of tubes that were truncated or dropped.
    fn tasks_of(&self, in_doubt: &InDoubt) -> Vec<ChangedTask> {
        let buffer = &self.buffers[Buffer::File];
        let later = &buffer.changes_in_flight[in_doubt.changes.end..];
        let ids_of = |kind: EventKind| -> BTreeSet<u64> {
            let later = later.iter().chain(&buffer.changes);
            later.filter(|change| change.kind == kind).map(|change| change.id).collect()
        };
        let (deleted, resolved) = (ids_of(EventKind::Delete), ids_of(EventKind::Resolve));
        let is_over = |change: &Change| {
            let was_put = change.from.is_none();
            deleted.contains(&change.id) || !was_put && resolved.contains(&change.id)
        };
        buffer.changes_in_flight[in_doubt.changes.clone()]
            .iter()
            .filter(|change| self.is_of_current_space(change) && !is_over(change))
            .map(|change| ChangedTask {
                number: change.tube,
                id: change.id,
                takes: change.header.as_ref().map_or(0, |header| header.takes),
            })
            .collect()
    }

    /// The tubes to which these tasks have moved since.
    fn moved_since(&self, in_doubt: &InDoubt, tasks: &[ChangedTask]) -> Vec<(TubeNo, u64)> {
        let buffer = &self.buffers[Buffer::File];
        let later = &buffer.changes_in_flight[in_doubt.changes.end..];
        let arrivals = later.iter().chain(&buffer.changes).filter(|change| change.from.is_none());
        arrivals
            .filter(|change| self.is_of_current_space(change))
            .filter(|change| tasks.iter().any(|task| task.id == change.id))
            .map(|change| (change.tube, change.id))
            .collect()
    }

    /// Removes a task from a tube to which it has moved since.
    fn remove_moved(&mut self, number: TubeNo, id: u64) -> Result<()> {
        self.edit(number, |ledger| match ledger.find(id)? {
            Some(found) => ledger.remove(id, found.shelf, &found.record.header),
            None => Ok(()),
        })
    }

    fn is_of_current_space(&self, change: &Change) -> bool {
        let tube = self.tubes.get(change.tube);
        tube.is_some_and(|tube| tube.definition.space == change.space)
    }

    fn read_before(&mut self, task: ChangedTask) -> Result<Option<Before>> {
        let ChangedTask { number, id, takes } = task;
        self.edit(number, |ledger| {
            let Some(found) = ledger.find(id)? else { return Ok(None) };
            let contents = ledger.contents(id, &found)?;
            let mut header = found.record.header.clone();
            header.takes = header.takes.max(takes);
            Ok(Some(Before { shelf: found.shelf, header, contents }))
        })
    }

    /// Gives a task what it had before.
    fn put_back(&mut self, task: ChangedTask, before: Option<&mut Before>) -> Result<()> {
        let ChangedTask { number, id, .. } = task;
        self.remove_moved(number, id)?;
        let Some(Before { shelf, header, contents }) = before else { return Ok(()) };
        if let Some(key) = key_of(header)
            && matches!(self.look_up_key(key)?, KeyLookUp::Task(_))
        {
            // A task that was put since has its key.
            header.edit_more(|more| more.key = None);
        }
        // It has no parents: a task with open ones is neither taken nor deleted, and none with edges is
        // forgotten.
        self.edit(number, |ledger| ledger.insert_with(id, *shelf, header, contents).map(drop))?;
        self.take_children_back(number, id)
    }

    /// Replaces the changes of the transaction, which were never visible: the claims that it has
    /// ended are lost, and the rest has not happened. So have later changes of its tasks, but for
    /// those that end them.
    fn take_changes_back(&mut self, in_doubt: &InDoubt, mut headers: BTreeMap<u64, Header>) {
        self.waits.watches.forget_endings(in_doubt.noted.clone());
        let (start, changes) = (in_doubt.changes.start, in_doubt.changes.clone());
        let changes: Vec<Change> =
            self.buffers[Buffer::File].changes_in_flight.drain(changes).collect();
        let (mut lost, mut claimed, mut other) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for change in changes {
            let is_current = self.is_of_current_space(&change);
            if change.from == Some(TaskState::Taken) && is_current {
                let header = headers.remove(&change.id).or(change.header);
                let (kind, to) = (EventKind::Lost, TaskState::Ready);
                self.note_cause(change.id, Some("transaction failed"));
                lost.push(self.change(change.tube, change.id, kind, change.from, to, header));
                claimed.insert(change.id);
                continue;
            }
            if change.from.is_none()
                && is_current
                && let Some(tube) = self.tubes.get_mut(change.tube)
            {
                tube.occupied = tube.occupied.saturating_sub(1);
            }
            other.insert(change.id);
            self.forget_invisible(change.id);
        }
        let (mut dropped, mut over) = (Vec::new(), BTreeSet::new());
        let buffer = &mut self.buffers[Buffer::File];
        for changes in [&mut buffer.changes_in_flight, &mut buffer.changes] {
            dropped.extend(changes.extract_if(.., |change| {
                let is_claimed = claimed.contains(&change.id);
                match change.kind {
                    EventKind::Delete | EventKind::Resolve if is_claimed => {
                        change.from = Some(TaskState::Ready);
                        over.insert(change.id);
                        return false;
                    }
                    // It was kept as done since.
                    EventKind::Forget if over.contains(&change.id) => return false,
                    _ => {}
                }
                is_claimed || other.contains(&change.id)
            }));
        }
        buffer.changes_in_flight.splice(start..start, lost);
        for change in dropped {
            if change.from.is_none()
                && self.is_of_current_space(&change)
                && let Some(tube) = self.tubes.get_mut(change.tube)
            {
                // It had moved there.
                tube.occupied = tube.occupied.saturating_sub(1);
            }
            self.forget_invisible(change.id);
        }
    }

    /// A change that was to become visible does not.
    fn forget_invisible(&mut self, id: u64) {
        if self.publishing.remove(id) == Some(false) {
            self.forget_origin(id);
        }
    }
}
