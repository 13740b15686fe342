//! Deletes: of one task on a condition, and of selected tasks.

use std::collections::BTreeSet;

use tubewell_drivers::{Found, PAGE_MAX, Shelf};

use super::outcome::kept_until_now;
use super::select::{Selected, is_selected};
use super::selected::{SelectStep, at_most, step_of};
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::state::{Core, Decided, Wait};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::values::filter::{Filter, IDS_MAX};
use crate::values::task::Cursor;
use crate::{Error, EventKind, Receipt, Result, TaskState};

/// The maximum number of rows of history and steps that a delete of chosen ids removes: a task may have
/// thousands.
const IDS_ROWS: usize = 100_000;

/// A call that deletes selected tasks ends with the task with which it removes this many rows of history
/// and steps.
const SELECT_ROWS: usize = 16_384;

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

impl Core {
    /// Deletes selected tasks: those of one step, or fewer with [`SELECT_ROWS`], and selected ones that wait
    /// for those. Those with chosen ids are deleted with one commit, all of them or none.
    pub(super) fn delete_selected(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let (bound, Selected { mut tasks, mut next }) =
            self.select(number, filter, after, step_of(filter, limit))?;
        if filter.ids.is_some() {
            self.check_rows(number, &tasks)?;
        } else {
            let count = self.within_rows(number, &tasks)?;
            if count < tasks.len() {
                tasks.truncate(count);
                next = tasks.last().map(|(id, found)| self.cursor_of_selected(filter, *id, found));
            }
            self.add_selected_children(number, filter, limit, &mut tasks)?;
        }
        self.atomically(number, |core| {
            tasks.iter().try_for_each(|(id, found)| core.remove_rows(number, *id, found))?;
            core.check_no_children_left(number, &tasks)
        })?;
        let decided = self.publish_deletes(number, tasks);
        Ok(decided.map(|changed| SelectStep::new(changed, bound, next)))
    }

    /// Deletes a stored task, whatever its state.
    pub(in crate::core) fn delete_found(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<Decided<Receipt>> {
        self.check_no_children(number, id, found)?;
        self.remove_rows(number, id, found)?;
        let change = self.deleted(number, id, found);
        Ok(self.apply_change(number, change))
    }

    /// How many rows of history and steps are removed with a task.
    fn rows_of_work(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<usize> {
        let header = &found.record.header;
        let mut rows = header.history().map_or(0, |stored| stored.count as usize);
        self.edit(number, |ledger| ledger.visit_step_names(id, header, |_| rows += 1))?;
        Ok(rows)
    }

    /// How many of these tasks one step deletes.
    fn within_rows(&mut self, number: TubeNo, tasks: &[(u64, Found)]) -> Result<usize> {
        let mut rows = 0;
        for (index, (id, found)) in tasks.iter().enumerate() {
            rows += self.rows_of_work(number, *id, found)?;
            if rows >= SELECT_ROWS {
                return Ok(index + 1);
            }
        }
        Ok(tasks.len())
    }

    /// Refuses tasks that have more rows than one commit removes.
    fn check_rows(&mut self, number: TubeNo, tasks: &[(u64, Found)]) -> Result<()> {
        let mut rows = 0;
        for (id, found) in tasks {
            rows += self.rows_of_work(number, *id, found)?;
            if rows > IDS_ROWS {
                return Err(too_many_rows());
            }
        }
        Ok(())
    }

    fn remove_rows(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<()> {
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))
    }

    /// Adds tasks that wait for selected ones, and are selected themselves: a parent is not deleted
    /// before its children, which may come later in the selection. Reads the children of no task after
    /// the first one that is refused, since one of its children stays.
    fn add_selected_children(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        limit: u64,
        tasks: &mut Vec<(u64, Found)>,
    ) -> Result<()> {
        let limit = at_most(limit, IDS_MAX);
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
                        if rows < IDS_ROWS
                            && is_selected(filter, self.state_of(child, found.shelf), &found)
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
    fn check_no_children_left(&mut self, number: TubeNo, deleted: &[(u64, Found)]) -> Result<()> {
        deleted.iter().try_for_each(|(id, found)| self.check_no_children(number, *id, found))
    }

    /// Removes a deleted task from memory. Returns the change.
    fn deleted(&mut self, number: TubeNo, id: u64, found: &Found) -> Change {
        let header = self.current_header(found, id);
        self.note_freed(number, &header);
        let from = self.remove_from_memory(number, found, id);
        let change =
            self.change(number, id, EventKind::Delete, Some(from), TaskState::Done, Some(header));
        Change { keeping: kept_until_now(found.shelf), ..change }
    }

    /// Makes the removal of tasks visible whose rows are removed. Returns how many.
    fn publish_deletes(&mut self, number: TubeNo, deleted: Vec<(u64, Found)>) -> Decided<u64> {
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
        self.decided(number, visibility, |_| count)
    }

    /// A wait for the changes of these tasks that are not yet visible.
    pub(super) fn last_change_of(&self, number: TubeNo, ids: &BTreeSet<u64>) -> Option<Wait> {
        let waits = ids.iter().filter_map(|id| self.batch_of_last_change(number, *id));
        waits.max_by_key(|wait| wait.batch().flush)
    }
}

fn too_many_rows() -> Error {
    Error::invalid(format!(
        "a delete by ids removes at most {IDS_ROWS} rows of history and steps, and these tasks have more; \
         split the ids"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::core::TaskEdit;
    use crate::core::list::EditTasks;
    use crate::values::history::HistoryEntry;
    use crate::values::restore::Restore;
    use crate::values::step::{Step, StepKind};
    use crate::{FIFO, Store, Tube, TubeOptions};

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
    fn delete_by_ids_refuses_more_rows_of_history_and_steps_than_one_commit_removes() {
        let (store, tube) = with_rows(51, 1000, 1000);
        let ids: Vec<u64> = (0..51).collect();
        let refused = tube.admin().delete(Filter::new().ids(&ids)).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused}");
        assert!(refused.to_string().contains("100000 rows"), "{refused}");
        assert_eq!(tube.statistics().unwrap().tasks.ready, 51);
        assert_eq!(tube.query().history(0).unwrap().len(), 1000);
        assert_eq!(tube.admin().delete(Filter::new().ids(&ids[..50])), Ok(50));
        assert_eq!(tube.admin().delete(Filter::new().ids(&ids)), Ok(1));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    #[test]
    fn step_of_a_selection_ends_with_the_rows_of_its_tasks() {
        for (entries, steps) in [(1000, 0), (0, 1000)] {
            let (store, tube) = with_rows(40, entries, steps);
            let filter = Filter::from(TaskState::Ready);
            let mut delete =
                EditTasks { filter, edit: TaskEdit::Delete, after: None, below: None, limit: 512 };
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
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    }
}
