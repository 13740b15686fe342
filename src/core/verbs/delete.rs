//! Deletes: of one task on a condition, of selected tasks, and of tasks of several tubes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tubewell_drivers::{EdgeEnd, Found, PAGE_MAX, Shelf};

use super::outcome::kept_until_now;
use super::select::{Selected, is_selected};
use super::selected::{SelectStep, at_most, step_of};
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::state::{Core, Decided, Wait};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::values::filter::{Filter, IDS_MAX, check_count};
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

verb! {
    /// Deletes those of these tasks that meet the filter, in whichever tubes they are, with one commit: all of
    /// them or none. `most`: with all tasks that wait for them, through any number of tasks, up to this many
    /// in all. Returns how many.
    25 InStore Edit: DeleteTasks {
        /// The ids, by the names of the tubes. A task that is not in its tube is left out.
        tasks: BTreeMap<Arc<str>, BTreeSet<u64>>,
        filter: Filter,
        most: Option<u64>,
    } -> u64 {
        fn check(&self, _: Limits) -> Result<()> {
            check_count(self.tasks.values().map(BTreeSet::len).sum())?;
            self.filter.check_delete_of_ids()
        }
    }
}

impl Decide for DeleteTasks {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<u64>> {
        let (mut tasks, mut wait) = (Vec::new(), None);
        for (name, ids) in &self.tasks {
            // A tube that was dropped since has none of them.
            let Ok(number) = core.find_tube(name).map(|tube| tube.number) else { continue };
            let selected = core.select_ids(number, &self.filter, ids, None, IDS_MAX)?;
            let selected = selected.tasks.into_iter();
            tasks.extend(selected.map(|(id, found)| Chosen { number, id, found }));
            wait = Wait::later(wait, core.last_change_of(number, ids));
        }
        core.check_one_buffer_of(&tasks)?;
        let rows = core.check_rows(&tasks)?;
        if let Some(most) = self.most {
            if tasks.len() > at_most(most, IDS_MAX) {
                return Err(too_many_tasks(most));
            }
            core.add_children(WithThem::All, most, rows, &mut tasks)?;
        }
        let decided = core.delete_chosen(tasks)?;
        // What an earlier call has deleted is not to be undone either.
        Ok(if decided.answer == 0 { Decided { answer: 0, wait } } else { decided })
    }
}

/// A task that is to be deleted.
struct Chosen {
    number: TubeNo,
    id: u64,
    found: Found,
}

/// Which of the tasks that wait for deleted ones are deleted with them.
#[derive(Clone, Copy)]
enum WithThem<'a> {
    /// Those of this tube that the filter selects.
    InTube(TubeNo, &'a Filter),
    /// Those of these tubes that the filter selects, with ids below a number; of all tubes without a list.
    InTubes(Option<&'a [TubeNo]>, &'a Filter, u64),
    All,
}

impl WithThem<'_> {
    fn has(self, core: &Core, Chosen { number, id, found }: &Chosen) -> bool {
        let (is_in_scope, filter) = match self {
            WithThem::All => return true,
            WithThem::InTube(of, filter) => (of == *number, filter),
            WithThem::InTubes(tubes, filter, below) => {
                let is_named = tubes.is_none_or(|tubes| tubes.binary_search(number).is_ok());
                (is_named && *id < below, filter)
            }
        };
        let state = core.state_of(*id, found.shelf);
        is_in_scope && is_selected(filter, state, found) && !core.is_claimed(*id)
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
        let (bound, selected) = self.select(number, filter, after, step_of(filter, limit))?;
        if filter.ids.is_some() {
            let (tasks, next) = (chosen_of(number, selected.tasks), selected.next);
            self.check_rows(&tasks)?;
            let decided = self.delete_chosen(tasks)?;
            return Ok(decided.map(|changed| SelectStep::new(changed, bound, next)));
        }
        let (mut tasks, next) = self.one_step(number, filter, selected)?;
        self.add_children(WithThem::InTube(number, filter), limit, 0, &mut tasks)?;
        let decided = self.delete_chosen(tasks)?;
        Ok(decided.map(|changed| SelectStep::new(changed, bound, next)))
    }

    /// As `delete_selected`, of tasks without chosen ids and with ids below `below`. Selected ones of the named
    /// tubes that wait for them are deleted with them; if none is named, of all tubes.
    pub(super) fn delete_across(
        &mut self,
        number: TubeNo,
        names: &[Arc<str>],
        filter: &Filter,
        (after, below): (Option<&Cursor>, u64),
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let (_, selected) = self.select(number, filter, after, step_of(filter, limit))?;
        let (mut tasks, next) = self.one_step(number, filter, selected)?;
        tasks.retain(|task| task.id < below);
        let mut named = Vec::with_capacity(names.len());
        for name in names {
            // A tube that was dropped since has no tasks.
            named.extend(self.find_tube(name).ok().map(|tube| tube.number));
        }
        named.sort_unstable();
        let named = Some(&named[..]).filter(|_| !names.is_empty());
        self.add_children(WithThem::InTubes(named, filter, below), limit, 0, &mut tasks)?;
        let decided = self.delete_chosen(tasks)?;
        // Tasks that are put meanwhile stay, which bounds the call.
        Ok(decided.map(|changed| SelectStep::new(changed, u64::MAX, next)))
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

    /// The first ones of selected tasks that one step deletes, and where the next one continues.
    fn one_step(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        Selected { mut tasks, mut next }: Selected,
    ) -> Result<(Vec<Chosen>, Option<Cursor>)> {
        let mut rows = 0;
        for index in 0..tasks.len() {
            let (id, found) = &tasks[index];
            rows += self.rows_of_work(number, *id, found)?;
            if rows >= SELECT_ROWS && index + 1 < tasks.len() {
                next = Some(self.cursor_of_selected(filter, *id, found));
                tasks.truncate(index + 1);
                break;
            }
        }
        Ok((chosen_of(number, tasks), next))
    }

    /// Deletes these tasks, which are in one write buffer, with one commit: all of them or none. Returns how
    /// many.
    fn delete_chosen(&mut self, tasks: Vec<Chosen>) -> Result<Decided<u64>> {
        let numbers = tubes_of(&tasks);
        let Some(first) = numbers.first().copied() else { return Ok(Decided::now(0)) };
        self.atomically_in(&numbers, |core| {
            for Chosen { number, id, found } in &tasks {
                core.remove_rows(*number, *id, found)?;
            }
            // Those that were deleted have no edges any more.
            let mut deleted = tasks.iter();
            deleted.try_for_each(|task| core.check_no_children(task.number, task.id, &task.found))
        })?;
        let (visibility, count) = (self.common_visibility(&numbers), tasks.len() as u64);
        // All of them leave memory before the first one is visible: that may lead to a take.
        let deleted = tasks.into_iter();
        let changes: Vec<Change> =
            deleted.map(|task| self.deleted(task.number, task.id, &task.found)).collect();
        self.publish_together(|core| {
            for change in changes {
                core.make_visible(change, visibility);
            }
        });
        Ok(self.decided(first, visibility, |_| count))
    }

    /// How many rows of history and steps are removed with a task.
    fn rows_of_work(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<usize> {
        let header = &found.record.header;
        let mut rows = header.history().map_or(0, |stored| stored.count as usize);
        self.edit(number, |ledger| ledger.visit_step_names(id, header, |_| rows += 1))?;
        Ok(rows)
    }

    /// Refuses tasks that have more rows than one commit removes. Returns how many they have.
    fn check_rows(&mut self, tasks: &[Chosen]) -> Result<usize> {
        let mut rows = 0;
        for Chosen { number, id, found } in tasks {
            rows += self.rows_of_work(*number, *id, found)?;
            if rows > IDS_ROWS {
                return Err(too_many_rows());
            }
        }
        Ok(rows)
    }

    /// Refuses tasks that no commit has together.
    fn check_one_buffer_of(&self, tasks: &[Chosen]) -> Result<()> {
        let Some(first) = tasks.first() else { return Ok(()) };
        let mut others = tasks.iter();
        others.try_for_each(|task| self.check_one_buffer(first.number, task.number))
    }

    pub(super) fn remove_rows(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<()> {
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))
    }

    /// Adds tasks that wait for these, and are to be deleted with them: a parent is not deleted before its
    /// children, which may come later in the selection. Reads the children of no task after the first one
    /// that is refused, since one of its children stays. `rows`: those that count already.
    fn add_children(
        &mut self,
        with_them: WithThem<'_>,
        limit: u64,
        mut rows: usize,
        tasks: &mut Vec<Chosen>,
    ) -> Result<()> {
        let limit = at_most(limit, IDS_MAX);
        let mut added: Option<BTreeSet<u64>> = None;
        let mut next = 0;
        while let Some(&Chosen { number, id, ref found }) = tasks.get(next) {
            next += 1;
            // The children of a task that is done are being freed.
            if found.shelf == Shelf::Done {
                continue;
            }
            for child in self.children_of(number, id, PAGE_MAX)? {
                let known = added.get_or_insert_with(|| tasks.iter().map(|task| task.id).collect());
                if known.contains(&child.0) {
                    continue;
                }
                let wanted = if tasks.len() < limit { self.find_dependent(child)? } else { None };
                let wanted = wanted.filter(|task| with_them.has(self, task));
                let more = match &wanted {
                    Some(task) => self.rows_of_work(task.number, task.id, &task.found)?,
                    None => 0,
                };
                rows += more;
                match wanted.filter(|_| more == 0 || rows <= IDS_ROWS) {
                    Some(task) => {
                        known.insert(task.id);
                        tasks.push(task);
                    }
                    None => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// The task at the end of an edge; `None` if it cannot be deleted.
    fn find_dependent(&mut self, (id, space): EdgeEnd) -> Result<Option<Chosen>> {
        let Some(number) = self.tubes.of_space(space) else { return Ok(None) };
        let found = self.find_if_whole(number, id)?;
        Ok(found.map(|found| Chosen { number, id, found }))
    }

    /// Removes a deleted task from memory. Returns the change.
    pub(super) fn deleted(&mut self, number: TubeNo, id: u64, found: &Found) -> Change {
        let header = self.current_header(found, id);
        self.note_freed(number, &header);
        let from = self.remove_from_memory(number, found, id);
        let change =
            self.change(number, id, EventKind::Delete, Some(from), TaskState::Done, Some(header));
        Change { keeping: kept_until_now(found.shelf), ..change }
    }

    /// A wait for the changes of these tasks that are not yet visible.
    pub(super) fn last_change_of(&self, number: TubeNo, ids: &BTreeSet<u64>) -> Option<Wait> {
        let waits = ids.iter().filter_map(|id| self.batch_of_last_change(number, *id));
        waits.max_by_key(|wait| wait.batch().flush)
    }
}

fn chosen_of(number: TubeNo, tasks: Vec<(u64, Found)>) -> Vec<Chosen> {
    tasks.into_iter().map(|(id, found)| Chosen { number, id, found }).collect()
}

/// The tubes of these tasks, each once.
fn tubes_of(tasks: &[Chosen]) -> Vec<TubeNo> {
    let mut numbers: Vec<TubeNo> = Vec::new();
    for Chosen { number, .. } in tasks {
        // Tasks of one tube follow each other, as a rule.
        if numbers.last() != Some(number) {
            numbers.push(*number);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn too_many_tasks(most: u64) -> Error {
    Error::invalid(format!(
        "these ids alone are more tasks than the {most} that the call may delete; allow more, or name fewer"
    ))
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
