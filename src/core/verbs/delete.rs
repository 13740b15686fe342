//! Deletes: of one task on a condition, of many tasks at once, and of selected tasks in steps. And
//! kicks of selected tasks.

use std::collections::BTreeSet;

use tubewell_drivers::{Found, PAGE_MAX, Shelf};

use super::outcome::kept_until_now;
use super::select::{Selected, is_selected};
use crate::commit::Change;
use crate::core::state::{Core, Decided, Wait};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::core::wire::wire_struct;
use crate::filter::Filter;
use crate::task::Cursor;
use crate::{Error, EventKind, Receipt, Result, TaskState};

/// The maximum number of tasks of one `delete_many`.
pub(crate) const DELETE_MANY_MAX: usize = 10_000;

/// The maximum number of rows of history and steps that one `delete_many` removes: a task may have
/// thousands.
const DELETE_MANY_ROWS: usize = 100_000;

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

wire_struct! { SelectStep { changed, bound, next } }

verb! {
    /// Deletes a task that nobody has taken, and that is not done.
    25 InTube Edit: CancelTask { id: u64 } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for CancelTask {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let CancelTask { id } = *self;
        let found = core.find_current(number, id)?;
        if found.shelf != Shelf::Recurring {
            core.check_waits(id, &found)?;
        }
        core.delete_found(number, id, &found)
    }
}

verb! {
    /// Deletes a task that is in one of these states.
    26 InTube Edit: DeleteIf { id: u64, states: Vec<TaskState> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for DeleteIf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let DeleteIf { id, ref states } = *self;
        if states.is_empty() {
            return Err(Error::invalid("name at least one state in which the task is deleted"));
        }
        let found = core.find_current(number, id)?;
        let state = core.state_of(id, found.shelf);
        if !states.contains(&state) {
            let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
            return Err(Error::WrongState { id, state, wanted: wanted.join(" or ") });
        }
        core.delete_found(number, id, &found)
    }
}

verb! {
    /// Deletes these tasks, whatever their states, or none of them. Returns how many there were.
    27 InTube Edit: DeleteMany { ids: Vec<u64> } -> u64
}

impl Decide for DeleteMany {
    fn decide(&self, core: &mut Core, TubeRef { number, .. }: TubeRef<'_>) -> Result<Decided<u64>> {
        let DeleteMany { ids } = self;
        if ids.len() > DELETE_MANY_MAX {
            return Err(Error::invalid(format!(
                "delete_many accepts at most {DELETE_MANY_MAX} ids, and got {}; split them",
                ids.len()
            )));
        }
        let changes = core.atomically(number, |core| {
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
            return Ok(Decided { answer: 0, wait: core.last_change_of(number, ids) });
        }
        Ok(core.publish_deletes(number, changes))
    }
}

verb! {
    /// Deletes up to `limit` selected tasks: those of one step, or fewer with [`SELECT_ROWS`], and
    /// selected ones that wait for those.
    28 InTube Edit: DeleteWhere { filter: Filter, after: Option<Cursor>, limit: u64 } -> SelectStep {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_delete()
        }
    }
}

impl Decide for DeleteWhere {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<SelectStep>> {
        let DeleteWhere { ref filter, ref after, limit } = *self;
        let (bound, Selected { mut tasks, mut next }) =
            core.select(number, filter, after.as_ref(), limit)?;
        let count = core.within_rows(number, &tasks)?;
        if count < tasks.len() {
            tasks.truncate(count);
            next = tasks.last().map(|(id, found)| core.cursor_of_selected(filter, *id, found));
        }
        core.add_selected_children(number, filter, limit, &mut tasks)?;
        core.atomically(number, |core| {
            tasks.iter().try_for_each(|(id, found)| core.remove_rows(number, *id, found))?;
            core.check_no_children_left(number, &tasks)
        })?;
        let decided = core.publish_deletes(number, tasks);
        Ok(decided.map(|changed| SelectStep { changed, bound, next }))
    }
}

verb! {
    /// Kicks up to `limit` selected tasks: those of one step.
    29 InTube Edit: KickWhere { filter: Filter, after: Option<Cursor>, limit: u64 } -> SelectStep {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_kick()
        }
    }
}

impl Decide for KickWhere {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<SelectStep>> {
        let KickWhere { filter, after, limit } = self;
        let (bound, Selected { tasks, next }) =
            core.select(number, filter, after.as_ref(), *limit)?;
        let decided = core.kick_all(number, &tasks, false)?;
        Ok(decided.map(|changed| SelectStep { changed, bound, next }))
    }
}

impl Core {
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

    fn remove_rows(&mut self, number: u32, id: u64, found: &Found) -> Result<()> {
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))
    }

    /// Adds tasks that wait for selected ones, and are selected themselves: a parent is not deleted
    /// before its children, which may come later in the selection. Reads the children of no task after
    /// the first one that is refused, since one of its children stays.
    fn add_selected_children(
        &mut self,
        number: u32,
        filter: &Filter,
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
                            && is_selected(filter, &found)
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
            self.change(number, id, EventKind::Delete, Some(from), TaskState::Done, Some(header));
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
}

fn too_many_rows() -> Error {
    Error::invalid(format!(
        "delete_many removes at most {DELETE_MANY_ROWS} rows of history and steps, and these tasks have \
         more; split the ids"
    ))
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
        let tube = store.create_tube("work", options.driver(FIFO)).unwrap();
        for _ in 0..tasks {
            let (at, log) = (SystemTime::UNIX_EPOCH, EventKind::Log);
            let entry = |number| HistoryEntry::new(number, at, "work", log, TaskState::Taken);
            let history = (0..entries).map(entry).collect();
            let steps = (0..steps).map(|n| Step::new(format!("{n}"), StepKind::Value, "x"));
            let steps = steps.collect();
            let task = Restore::new("x").takes(1).history(history).steps(steps);
            tube.admin().restore_many([task]).unwrap();
        }
        (store, tube)
    }

    #[test]
    fn delete_many_refuses_more_rows_of_history_and_steps_than_one_commit_removes() {
        let (store, tube) = with_rows(51, 1000, 1000);
        let ids: Vec<u64> = (0..51).collect();
        let refused = tube.admin().delete_many(&ids).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains("100000 rows"), "{refused}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 51);
        assert_eq!(tube.query().history(0).unwrap().len(), 1000);
        assert_eq!(tube.admin().delete_many(&ids[..50]), Ok(50));
        assert_eq!(tube.admin().delete_many(&ids), Ok(1));
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }

    #[test]
    fn step_of_a_selection_ends_with_the_rows_of_its_tasks() {
        for (entries, steps) in [(1000, 0), (0, 1000)] {
            let (store, tube) = with_rows(40, entries, steps);
            let filter = Filter::from(TaskState::Ready);
            let mut delete = DeleteWhere { filter, after: None, limit: 512 };
            let mut all = Vec::new();
            loop {
                let step = tube.make(delete.clone()).unwrap();
                all.push(step.changed);
                delete.after = step.next;
                if delete.after.is_none() {
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
