//! Selected tasks of a tube, in steps: by state, by failure group, or by tag.

use tubewell_drivers::{Found, Shelf};

use super::outcome::group_cursor;
use super::peek::{cursor, found_position, rank_of};
use crate::core::state::Core;
use crate::filter::Filter;
use crate::task::Cursor;
use crate::{Error, Result, TaskState};

/// The maximum number of selected tasks that one call changes while it holds the lock.
const SELECT_STEP: u64 = 512;

/// Selected tasks, and where the selection continues.
pub(super) struct Selected {
    pub(super) tasks: Vec<(u64, Found)>,
    pub(super) next: Option<Cursor>,
}

impl Core {
    /// The next selected tasks, and an upper bound of the number of all of them.
    pub(super) fn select(
        &mut self,
        number: u32,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<(u64, Selected)> {
        let limit = usize::try_from(limit.min(SELECT_STEP)).unwrap_or(usize::MAX);
        let Some(tube) = self.tubes.get_mut(&number) else { return Err(Error::Closed) };
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
            (None, None, state) => {
                let shelf = state.unwrap_or(TaskState::Buried).shelf();
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
        state: Option<TaskState>,
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

    /// Where a selection continues behind one of its tasks.
    pub(super) fn cursor_of_selected(&self, filter: &Filter, id: u64, found: &Found) -> Cursor {
        match (&filter.group, filter.wanted_tag(), filter.wanted_state()) {
            (Some(group), ..) => group_cursor(group, &(id, found.clone())),
            (None, Some(tag), _) => Cursor::of_tag(tag.into(), id),
            (None, None, Some(TaskState::Taken)) => {
                let order = self.claims.get(&id).map_or(0, |claim| claim.header.order);
                cursor(Shelf::Ready, order, id)
            }
            (None, None, _) => found_position(id, found).into(),
        }
    }
}

pub(super) fn is_selected(filter: &Filter, found: &Found) -> bool {
    let more = found.record.header.more.as_ref();
    let group = more.and_then(|more| more.group.as_deref());
    filter.wanted_state().is_none_or(|state| found.shelf == state.shelf())
        && has_tag(filter.wanted_tag(), found)
        && (filter.group.is_none() || filter.group.as_deref() == group)
}

fn has_tag(tag: Option<&str>, found: &Found) -> bool {
    tag.is_none_or(|tag| found.record.header.has_tag(tag))
}
