//! Deletes: of one task on a condition, of many tasks at once, and of selected tasks in steps. And
//! kicks of selected tasks.

use std::collections::BTreeSet;

use tubewell_drivers::{Found, PAGE_MAX, Shelf};

use super::outcome::{group_cursor, kept_until_now};
use super::peek::{cursor, found_position, rank_of};
use crate::commit::Change;
use crate::core::state::{Core, Decided, Wait};
use crate::selection::Select;
use crate::task::Cursor;
use crate::{Error, EventKind, Receipt, Result, State};

/// The maximum number of tasks of one `delete_many`.
pub(crate) const DELETE_MANY_MAX: usize = 10_000;

/// The maximum number of rows of history and steps that one `delete_many` removes: a task may have
/// thousands.
const DELETE_MANY_ROWS: usize = 100_000;

/// The maximum number of selected tasks that one call changes while it holds the lock.
const SELECT_STEP: u64 = 512;

/// A call that deletes selected tasks ends with the task with which it removes this many rows of history
/// and steps.
const SELECT_ROWS: usize = 16_384;

/// A step of a call on selected tasks.
pub(crate) struct SelectStep {
    /// How many tasks it has changed.
    pub(crate) changed: u64,
    /// An upper bound of the tasks that there were to select before it.
    pub(crate) bound: u64,
    /// Where the next step continues; `None` after the last one.
    pub(crate) next: Option<Cursor>,
}

/// Selected tasks, and where the selection continues.
struct Selected {
    tasks: Vec<(u64, Found)>,
    next: Option<Cursor>,
}

impl Core {
    /// Deletes a task that nobody has taken, and that is not done.
    pub(in crate::core) fn cancel(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find_current(number, id)?;
        if found.shelf != Shelf::Recurring {
            self.check_waits(id, &found)?;
        }
        self.delete_found(number, id, &found)
    }

    /// Deletes a task that is in one of these states.
    pub(in crate::core) fn delete_if(
        &mut self,
        number: u32,
        id: u64,
        states: &[State],
    ) -> Result<Decided<Receipt>> {
        if states.is_empty() {
            return Err(Error::invalid("name at least one state in which the task is deleted"));
        }
        let found = self.find_current(number, id)?;
        let state = self.state_of(id, found.shelf);
        if !states.contains(&state) {
            let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
            return Err(Error::WrongState { id, state, wanted: wanted.join(" or ") });
        }
        self.delete_found(number, id, &found)
    }

    /// Deletes these tasks, whatever their states, or none of them. Returns how many there were.
    pub(in crate::core) fn delete_many(
        &mut self,
        number: u32,
        ids: &[u64],
    ) -> Result<Decided<u64>> {
        if ids.len() > DELETE_MANY_MAX {
            return Err(Error::invalid(format!(
                "delete_many accepts at most {DELETE_MANY_MAX} ids, and got {}; split them",
                ids.len()
            )));
        }
        let changes = self.atomically(number, |core| {
            let (mut deleted, mut rows) = (Vec::new(), 0);
            for id in ids {
                // One that is named twice is removed when it is found the second time.
                if let Some(found) = core.edit(number, |ledger| ledger.find(*id))? {
                    rows += core.rows_of_work(number, *id, &found)?;
                    if rows > DELETE_MANY_ROWS {
                        return Err(too_many_rows());
                    }
                    core.remove_rows(number, *id, &found)?;
                    deleted.push((*id, found));
                }
            }
            core.check_no_children_left(number, &deleted)?;
            Ok(deleted)
        })?;
        if changes.is_empty() {
            return Ok(Decided { answer: 0, wait: self.last_change_of(number, ids) });
        }
        Ok(self.publish_deletes(number, changes))
    }

    /// Deletes up to `limit` selected tasks: the next [`SELECT_STEP`], or fewer with [`SELECT_ROWS`], and
    /// selected ones that wait for those.
    pub(in crate::core) fn delete_where(
        &mut self,
        number: u32,
        select: &Select,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let (bound, Selected { mut tasks, mut next }) =
            self.select(number, select, after, limit)?;
        let count = self.within_rows(number, &tasks)?;
        if count < tasks.len() {
            tasks.truncate(count);
            next = tasks.last().map(|(id, found)| self.cursor_of_selected(select, *id, found));
        }
        self.add_selected_children(number, select, limit, &mut tasks)?;
        self.atomically(number, |core| {
            tasks.iter().try_for_each(|(id, found)| core.remove_rows(number, *id, found))?;
            core.check_no_children_left(number, &tasks)
        })?;
        let decided = self.publish_deletes(number, tasks);
        Ok(decided.map(|changed| SelectStep { changed, bound, next }))
    }

    /// Kicks up to `limit` selected tasks, at most [`SELECT_STEP`].
    pub(in crate::core) fn kick_where(
        &mut self,
        number: u32,
        select: &Select,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let (bound, Selected { tasks, next }) = self.select(number, select, after, limit)?;
        let decided = self.kick_all(number, &tasks, false)?;
        Ok(decided.map(|changed| SelectStep { changed, bound, next }))
    }

    /// Deletes a stored task, whatever its state.
    pub(in crate::core) fn delete_found(
        &mut self,
        number: u32,
        id: u64,
        found: &Found,
    ) -> Result<Decided<Receipt>> {
        self.check_no_children(number, id, found)?;
        self.remove_rows(number, id, found)?;
        let change = self.deleted(number, id, found);
        Ok(self.apply_change(number, change))
    }

    /// How many rows of history and steps are removed with a task.
    fn rows_of_work(&mut self, number: u32, id: u64, found: &Found) -> Result<usize> {
        let header = &found.record.header;
        let mut rows = header.history().map_or(0, |stored| stored.count as usize);
        self.edit(number, |ledger| ledger.visit_step_names(id, header, |_| rows += 1))?;
        Ok(rows)
    }

    /// How many of these tasks one step deletes.
    fn within_rows(&mut self, number: u32, tasks: &[(u64, Found)]) -> Result<usize> {
        let mut rows = 0;
        for (index, (id, found)) in tasks.iter().enumerate() {
            rows += self.rows_of_work(number, *id, found)?;
            if rows >= SELECT_ROWS {
                return Ok(index + 1);
            }
        }
        Ok(tasks.len())
    }

    /// Where a selection continues behind one of its tasks.
    fn cursor_of_selected(&self, select: &Select, id: u64, found: &Found) -> Cursor {
        match (&select.group, &select.tag, select.wanted_state()) {
            (Some(group), ..) => group_cursor(group, &(id, found.clone())),
            (None, Some(tag), _) => Cursor::of_tag(tag.as_str().into(), id),
            (None, None, Some(State::Taken)) => {
                let order = self.claims.get(&id).map_or(0, |claim| claim.header.order);
                cursor(Shelf::Ready, order, id)
            }
            (None, None, _) => found_position(id, found).into(),
        }
    }

    fn remove_rows(&mut self, number: u32, id: u64, found: &Found) -> Result<()> {
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))
    }

    /// Adds tasks that wait for selected ones, and are selected themselves: a parent is not deleted
    /// before its children, which may come later in the selection. Reads the children of no task after
    /// the first one that is refused, since one of its children stays.
    fn add_selected_children(
        &mut self,
        number: u32,
        select: &Select,
        limit: u64,
        tasks: &mut Vec<(u64, Found)>,
    ) -> Result<()> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(DELETE_MANY_MAX);
        let mut added: Option<BTreeSet<u64>> = None;
        let (mut next, mut rows, mut is_refused) = (0, 0, false);
        while let Some(&(id, ref found)) = tasks.get(next).filter(|_| !is_refused) {
            next += 1;
            // The children of a task that is done are being freed.
            if found.shelf == Shelf::Done {
                continue;
            }
            for (child, _) in self.children_of(number, id, PAGE_MAX)? {
                let known = added.get_or_insert_with(|| tasks.iter().map(|(id, _)| *id).collect());
                if known.contains(&child) {
                    continue;
                }
                if tasks.len() >= limit {
                    is_refused = true;
                    break;
                }
                match self.find(number, child) {
                    Ok(found)
                        if rows < DELETE_MANY_ROWS
                            && is_selected(select, &found)
                            && !self.is_claimed(child) =>
                    {
                        rows += self.rows_of_work(number, child, &found)?;
                        known.insert(child);
                        tasks.push((child, found));
                    }
                    // One that stays.
                    Ok(_) | Err(Error::NotFound { .. } | Error::Corrupt { .. }) => {
                        is_refused = true;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Refuses tasks that others wait for, which are not deleted with them: those have edges no more.
    fn check_no_children_left(&mut self, number: u32, deleted: &[(u64, Found)]) -> Result<()> {
        deleted.iter().try_for_each(|(id, found)| self.check_no_children(number, *id, found))
    }

    /// Removes a deleted task from memory. Returns the change.
    fn deleted(&mut self, number: u32, id: u64, found: &Found) -> Change {
        let header = self.current_header(found, id);
        self.note_freed(number, &header);
        let from = self.remove_from_memory(number, found, id);
        let change =
            self.change(number, id, EventKind::Delete, Some(from), State::Done, Some(header));
        Change { keeping: kept_until_now(found.shelf), ..change }
    }

    /// Makes the removal of tasks visible whose rows are removed. Returns how many.
    fn publish_deletes(&mut self, number: u32, deleted: Vec<(u64, Found)>) -> Decided<u64> {
        let visibility = self.visibility(number);
        let count = deleted.len() as u64;
        // All of them leave memory before the first one is visible: that may lead to a take.
        let changes: Vec<Change> =
            deleted.into_iter().map(|(id, found)| self.deleted(number, id, &found)).collect();
        self.publish_together(|core| {
            for change in changes {
                core.make_visible(change, visibility);
            }
        });
        let decided = self.decided(number, visibility, |_| count);
        Decided { wait: decided.wait.filter(|_| count > 0), ..decided }
    }

    /// A wait for the changes of these tasks that are not yet visible.
    fn last_change_of(&self, number: u32, ids: &[u64]) -> Option<Wait> {
        let waits = ids.iter().filter_map(|id| self.batch_of_last_change(number, *id));
        waits.max_by_key(|wait| wait.batch().number)
    }

    /// The next selected tasks, and an upper bound of the number of all of them.
    fn select(
        &mut self,
        number: u32,
        select: &Select,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<(u64, Selected)> {
        let limit = usize::try_from(limit.min(SELECT_STEP)).unwrap_or(usize::MAX);
        let Some(tube) = self.tubes.get_mut(&number) else { return Err(Error::Closed) };
        let bound = match select.wanted_state() {
            Some(state) => *tube.counts.on(state.shelf()),
            None => tube.counts.stored(),
        };
        let mut selected = Selected { tasks: Vec::new(), next: after.cloned() };
        let mut read = 0;
        // Rows of other tasks take no place in the step, so that a short selection is one step.
        loop {
            let want = limit - selected.tasks.len();
            let Selected { tasks, next } =
                self.select_rows(number, select, selected.next.as_ref(), want)?;
            selected.tasks.extend(tasks);
            selected.next = next;
            read += want as u64;
            if selected.next.is_none() || selected.tasks.len() >= limit || read >= SELECT_STEP {
                return Ok((bound, selected));
            }
        }
    }

    /// The selected ones of the next rows, of which it reads as many as `limit`.
    fn select_rows(
        &mut self,
        number: u32,
        select: &Select,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        match (&select.group, &select.tag, select.wanted_state()) {
            (Some(group), tag, _) => {
                let mut selected = self.select_group(number, group, after, limit)?;
                selected.tasks.retain(|(_, found)| has_tag(tag.as_deref(), found));
                Ok(selected)
            }
            (None, Some(tag), state) => self.select_tagged(number, tag, state, after, limit),
            (None, None, Some(State::Taken)) => self.select_taken(number, after, limit),
            (None, None, state) => {
                let shelf = state.unwrap_or(State::Buried).shelf();
                self.select_shelf(number, shelf, after, limit)
            }
        }
    }

    /// Tasks of a failure group, those that were buried first first.
    fn select_group(
        &mut self,
        number: u32,
        group: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let from = after.map(rank_of);
        let tasks = self.edit(number, |ledger| ledger.in_group(group, from, limit, false))?;
        let next =
            tasks.last().filter(|_| tasks.len() == limit).map(|last| group_cursor(group, last));
        Ok(Selected { tasks, next })
    }

    /// Tasks with a tag, by their ids.
    fn select_tagged(
        &mut self,
        number: u32,
        tag: &str,
        state: Option<State>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        let (rows, space) = (&mut self.buffers[tube.buffer], tube.definition.space);
        let after = after.map(|cursor| cursor.position.id);
        let (rows, last) = tubewell_drivers::tagged(rows, tag, after, limit, false)?;
        let mut tasks = Vec::new();
        for row in rows.into_iter().filter(|row| row.space == space) {
            match self.find_tagged(number, row.id, tag) {
                Ok(Some(found)) => {
                    let own = self.state_of(row.id, found.shelf);
                    if state.is_none_or(|state| state == own) {
                        tasks.push((row.id, found));
                    }
                }
                // A damaged one, as in `select_taken`.
                Ok(None) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Selected { tasks, next: last.map(|id| Cursor::of_tag(tag.into(), id)) })
    }

    fn select_taken(
        &mut self,
        number: u32,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let (taken, next) = self.taken_after(number, after, limit);
        let mut tasks = Vec::with_capacity(taken.len());
        for (_, id) in taken {
            match self.find(number, id) {
                Ok(found) => tasks.push((id, found)),
                // A damaged task stays as it is, and `verify` reports it.
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Selected { tasks, next })
    }

    /// Tasks of a shelf that are not taken.
    fn select_shelf(
        &mut self,
        number: u32,
        shelf: Shelf,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let after = after.map(|cursor| &cursor.position);
        let page = self.edit(number, |ledger| ledger.page(shelf, after, limit))?;
        let next = page.tasks.last().filter(|_| page.may_have_more);
        let next = next.map(|(id, found)| Cursor::from(found_position(*id, found)));
        let mut tasks = page.tasks;
        tasks.retain(|(id, _)| !self.is_claimed(*id));
        Ok(Selected { tasks, next })
    }
}

fn too_many_rows() -> Error {
    Error::invalid(format!(
        "delete_many removes at most {DELETE_MANY_ROWS} rows of history and steps, and these tasks have \
         more; split the ids"
    ))
}

fn is_selected(select: &Select, found: &Found) -> bool {
    let more = found.record.header.more.as_ref();
    let group = more.and_then(|more| more.group.as_deref());
    select.wanted_state().is_none_or(|state| found.shelf == state.shelf())
        && has_tag(select.tag.as_deref(), found)
        && (select.group.is_none() || select.group.as_deref() == group)
}

fn has_tag(tag: Option<&str>, found: &Found) -> bool {
    tag.is_none_or(|tag| found.record.header.has_tag(tag))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::{FIFO, HistoryEntry, Restore, Step, StepKind, Store, Tube, TubeOptions};

    /// A store with tasks that have these numbers of entries and of steps.
    fn with_rows(tasks: u64, entries: u64, steps: u64) -> (Store, Tube) {
        let store = Store::in_memory().unwrap();
        let options = TubeOptions::new().history(1000);
        let tube = store.create_tube("work", FIFO, options).unwrap();
        for _ in 0..tasks {
            let (at, log) = (SystemTime::UNIX_EPOCH, EventKind::Log);
            let entry = |number| HistoryEntry::new(number, at, "work", log, State::Taken);
            let history = (0..entries).map(entry).collect();
            let steps = (0..steps).map(|n| Step::new(format!("{n}"), StepKind::Value, "x"));
            let steps = steps.collect();
            let task = Restore::new("x").takes(1).history(history).steps(steps);
            tube.restore_many([task]).unwrap();
        }
        (store, tube)
    }

    #[test]
    fn delete_many_refuses_more_rows_of_history_and_steps_than_one_commit_removes() {
        let (store, tube) = with_rows(51, 1000, 1000);
        let ids: Vec<u64> = (0..51).collect();
        let refused = tube.delete_many(&ids).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains("100000 rows"), "{refused}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 51);
        assert_eq!(tube.history(0).unwrap().len(), 1000);
        assert_eq!(tube.delete_many(&ids[..50]), Ok(50));
        assert_eq!(tube.delete_many(&ids), Ok(1));
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }

    #[test]
    fn step_of_a_selection_ends_with_the_rows_of_its_tasks() {
        for (entries, steps) in [(1000, 0), (0, 1000)] {
            let (store, tube) = with_rows(40, entries, steps);
            let number = store.inner().run(|core| core.find_tube("work")).unwrap().number;
            let mut next = None;
            let mut all = Vec::new();
            loop {
                let select = Select::new().state(State::Ready);
                let step = store.inner().run(|core| {
                    core.delete_where(number, &select, next.as_ref(), 512).unwrap().answer
                });
                all.push(step.changed);
                next = step.next;
                if next.is_none() {
                    break;
                }
            }
            assert_eq!(all, [17, 17, 6]);
            store.flush().unwrap();
            assert_eq!(tube.statistics().unwrap().tasks.total, 0);
            assert_eq!(store.verify().unwrap(), [""; 0]);
        }
    }
}
