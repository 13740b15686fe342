//! Selected tasks of a tube, in steps: by ids, by state, by failure group, by tag, or all that are not done.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use tubewell_drivers::{Found, Shelf};

use super::outcome::group_cursor;
use super::peek::{cursor, found_position, rank_of};
use crate::base::tube_no::TubeNo;
use crate::core::state::Core;
use crate::values::filter::Filter;
use crate::values::task::Cursor;
use crate::{Error, Result, TaskState};

/// The shelves of the tasks that are not done, in the order of takes.
pub(super) const LIVE: [Shelf; 4] = [Shelf::Ready, Shelf::Delayed, Shelf::Buried, Shelf::Blocked];

/// How many rows of other tasks a step passes by before it ends.
const PASSED_MAX: usize = 512;

/// Selected tasks, and where the selection continues.
pub(super) struct Selected {
    pub(super) tasks: Vec<(u64, Found)>,
    pub(super) next: Option<Cursor>,
}

impl Core {
    /// The next selected tasks, and an upper bound of the number of all of them.
    pub(super) fn select(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<(u64, Selected)> {
        if let Some(ids) = &filter.ids {
            return Ok((ids.len() as u64, self.select_ids(number, filter, ids, after, limit)?));
        }
        let Some(tube) = self.tubes.get_mut(number) else { return Err(Error::Closed) };
        let bound = match filter.wanted_state() {
            Some(state) => *tube.counts.on(state.shelf()),
            None => tube.counts.stored(),
        };
        let mut selected = Selected { tasks: Vec::new(), next: after.cloned() };
        let mut read = 0;
        // Rows of other tasks take no place in the step, so that a short selection is one step.
        loop {
            let want = limit - selected.tasks.len();
            let Selected { tasks, next } =
                self.select_rows(number, filter, selected.next.as_ref(), want)?;
            selected.tasks.extend(tasks);
            selected.next = next;
            read += want;
            if selected.next.is_none() || selected.tasks.len() >= limit || read >= PASSED_MAX {
                return Ok((bound, selected));
            }
        }
    }

    /// The selected ones of the next rows, of which it reads as many as `limit`.
    fn select_rows(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        match (&filter.group, filter.wanted_tag(), filter.wanted_state()) {
            (Some(group), tag, _) => {
                let mut selected = self.select_group(number, group, after, limit)?;
                selected.tasks.retain(|(_, found)| has_tag(tag, found));
                Ok(selected)
            }
            (None, Some(tag), state) => self.select_tagged(number, tag, state, after, limit),
            (None, None, Some(TaskState::Taken)) => self.select_taken(number, after, limit),
            (None, None, Some(TaskState::Buried)) => self.select_buried(number, after, limit),
            (None, None, Some(state)) => self.select_shelf(number, state.shelf(), after, limit),
            (None, None, None) => self.select_live(number, after, limit),
        }
    }

    /// The wanted ones of these tasks, by their ids.
    pub(super) fn select_ids(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        ids: &BTreeSet<u64>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let begin = after.map_or(Unbounded, |last| Excluded(last.position.id));
        let mut selected = Selected { tasks: Vec::new(), next: None };
        for id in ids.range((begin, Unbounded)) {
            if selected.tasks.len() == limit {
                let last = selected.tasks.last();
                selected.next = last.map(|(id, found)| found_position(*id, found).into());
                break;
            }
            let found = self.edit(number, |ledger| ledger.find(*id))?;
            let state = |found: &Found| self.state_of(*id, found.shelf);
            if let Some(found) = found.filter(|found| is_selected(filter, state(found), found)) {
                selected.tasks.push((*id, found));
            }
        }
        Ok(selected)
    }

    /// Tasks that are not done, taken ones too.
    fn select_live(
        &mut self,
        number: TubeNo,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let first = after.map_or(Shelf::Ready, |cursor| cursor.position.shelf);
        let mut tasks = Vec::new();
        for shelf in LIVE.into_iter().filter(|shelf| *shelf >= first) {
            let from = after.map(|cursor| &cursor.position).filter(|from| from.shelf == shelf);
            let page = self.edit(number, |ledger| ledger.page(shelf, from, limit - tasks.len()))?;
            tasks.extend(page.tasks);
            if page.may_have_more || tasks.len() == limit {
                let next = tasks.last().map(|(id, found)| found_position(*id, found).into());
                return Ok(Selected { tasks, next });
            }
        }
        Ok(Selected { tasks, next: None })
    }

    /// Tasks of a failure group, those that were buried first first.
    fn select_group(
        &mut self,
        number: TubeNo,
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
        number: TubeNo,
        tag: &str,
        state: Option<TaskState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
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
        number: TubeNo,
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

    /// Tasks of a shelf that are not taken; of the buried ones, `select_buried` knows more.
    fn select_shelf(
        &mut self,
        number: TubeNo,
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

    /// Buried tasks. Passes by where there are known to be none.
    fn select_buried(
        &mut self,
        number: TubeNo,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Selected> {
        let empty = self.tubes.get(number).and_then(|tube| tube.empty_up_to.buried);
        let after = after.map(rank_of).max(empty);
        let tasks = self.edit(number, |ledger| ledger.undamaged(Shelf::Buried, after, limit))?;
        let last = tasks.last().filter(|_| tasks.len() == limit);
        let next = last.map(|(id, found)| found_position(*id, found).into());
        Ok(Selected { tasks, next })
    }

    /// Where a selection continues behind one of its tasks.
    pub(super) fn cursor_of_selected(&self, filter: &Filter, id: u64, found: &Found) -> Cursor {
        match (&filter.group, filter.wanted_tag(), filter.wanted_state()) {
            _ if filter.ids.is_some() => found_position(id, found).into(),
            (Some(group), ..) => group_cursor(group, &(id, found.clone())),
            (None, Some(tag), _) => Cursor::of_tag(tag.into(), id),
            (None, None, Some(TaskState::Taken)) => {
                let order = self.claims.get(id).map_or(0, |claim| claim.header.order);
                cursor(Shelf::Ready, order, id)
            }
            (None, None, _) => found_position(id, found).into(),
        }
    }
}

/// Whether a task in this state meets the conditions of a filter.
pub(super) fn is_selected(filter: &Filter, state: TaskState, found: &Found) -> bool {
    let more = found.record.header.more.as_ref();
    let group = more.and_then(|more| more.group.as_deref());
    filter.wanted_state().is_none_or(|wanted| wanted == state)
        && has_tag(filter.wanted_tag(), found)
        && (filter.group.is_none() || filter.group.as_deref() == group)
}

fn has_tag(tag: Option<&str>, found: &Found) -> bool {
    tag.is_none_or(|tag| found.record.header.has_tag(tag))
}
