//! Listings of the tasks of a tube on several conditions.
//!
//! One condition decides which rows are read, and so the order of the pages and what their cursor
//! means; the others are checked for each task. A page ends early if the call has looked at as many
//! rows as it may while it holds the lock.

use std::ops::Bound::{Excluded, Unbounded};

use tubewell_drivers::{Found, Shelf};

use super::labels::LOOK_UPS;
use super::outcome::group_cursor;
use super::peek::{Listing, begin_of_page, cursor, cursor_of_empty_page, found_position, rank_of};
use crate::core::state::window::Rank;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::listing::{TaskPage, Where};
use crate::task::{Cursor, Page, Task};
use crate::{Error, Result, State};

/// The maximum number of records that one call looks at.
const RECORDS: usize = 10_000;
/// The number of rows of one read.
pub(super) const READ: usize = 256;
/// A page with bodies ends after the task with which it has this many bytes of them.
const BODY_BYTES: u64 = 4 << 20;

/// The tasks of a page, and what the call may still look at.
pub(super) struct Matches<'a> {
    wanted: &'a Where,
    limit: usize,
    rows_left: usize,
    bytes_left: u64,
    tasks: Vec<(u64, Found)>,
    next: Option<Cursor>,
    damaged: u64,
}

/// A row of a read: where the next page begins if this one ends with it, and the task, unless the row
/// is left over, or leads to another tube.
pub(super) type ReadRow = (Cursor, u64, Option<Found>);

verb! {
    /// A page of the tasks that are wanted.
    92 InTube Look: ListWhere { wanted: Where, after: Option<Cursor>, limit: usize } -> Page
}

impl Decide for ListWhere {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Page>> {
        let ListWhere { wanted, after, limit } = self;
        let Matches { tasks, next, damaged, .. } =
            core.matching(number, wanted, after.as_ref(), *limit, u64::MAX)?;
        let mut page = Page { next, damaged, ..Page::default() };
        for (id, found) in tasks {
            let info = core.describe_for_page(number, id, found.shelf, &found.record.header)?;
            page.tasks.push(info);
        }
        Ok(Decided::now(page))
    }
}

verb! {
    /// As `ListWhere`, with the bodies.
    93 InTube Look: ListBodies { wanted: Where, after: Option<Cursor>, limit: usize } -> TaskPage
}

impl Decide for ListBodies {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<TaskPage>> {
        let ListBodies { wanted, after, limit } = self;
        let Matches { tasks, next, damaged, .. } =
            core.matching(number, wanted, after.as_ref(), *limit, BODY_BYTES)?;
        let mut page = TaskPage { next, damaged, ..TaskPage::default() };
        for (id, found) in tasks {
            let data = match core.edit(number, |ledger| ledger.body(id, &found)) {
                Err(Error::Corrupt { .. }) => {
                    page.damaged += 1;
                    continue;
                }
                data => data?,
            };
            let info = core.describe_for_page(number, id, found.shelf, &found.record.header)?;
            page.tasks.push(Task::of(info, data));
        }
        Ok(Decided::now(page))
    }
}

impl Core {
    fn matching<'a>(
        &mut self,
        number: u32,
        wanted: &'a Where,
        after: Option<&Cursor>,
        limit: usize,
        bytes_left: u64,
    ) -> Result<Matches<'a>> {
        wanted.check()?;
        let begin = begin_of_page(after, listing_of(wanted))?;
        let (tasks, next, damaged) = (Vec::new(), None, 0);
        let rows_left = match listing_of(wanted) {
            Listing::Tag(_) | Listing::Group(_) | Listing::Soonest => LOOK_UPS,
            Listing::State(_) | Listing::All => RECORDS,
        };
        let mut matches = Matches { wanted, limit, rows_left, bytes_left, tasks, next, damaged };
        if limit == 0 {
            matches.next = Some(cursor_of_empty_page(after));
            return Ok(matches);
        }
        match listing_of(wanted) {
            Listing::Soonest => self.match_soonest(number, begin, &mut matches)?,
            Listing::Tag(tag) => self.match_tagged(number, tag, begin, &mut matches)?,
            Listing::Group(group) => self.match_group(number, group, begin, &mut matches)?,
            Listing::State(State::Taken) => self.match_taken(number, begin, &mut matches)?,
            Listing::State(state) => {
                self.match_shelves(number, &[state.shelf()], begin, &mut matches)?;
            }
            Listing::All => self.match_shelves(number, &Shelf::ALL, begin, &mut matches)?,
        }
        Ok(matches)
    }

    fn match_tagged(
        &mut self,
        number: u32,
        tag: &str,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        let (buffer, space) = (tube.buffer, tube.definition.space);
        let newest_first = matches.wanted.newest_first;
        let mut after = begin.map(|cursor| cursor.position.id);
        loop {
            let want = READ.min(matches.rows_left);
            let rows = &mut self.buffers[buffer];
            let (rows, last) = tubewell_drivers::tagged(rows, tag, after, want, newest_first)?;
            let mut read = Vec::with_capacity(rows.len());
            for row in rows {
                let is_own = row.space == space;
                let found = if is_own { self.find_tagged(number, row.id, tag) } else { Ok(None) };
                let found = matches.undamaged(found)?;
                read.push((Cursor::of_tag(tag.into(), row.id), row.id, found));
            }
            if self.add_wanted(matches, read, last.is_some()) {
                return Ok(());
            }
            after = last;
        }
    }

    fn match_group(
        &mut self,
        number: u32,
        group: &str,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let newest_first = matches.wanted.newest_first;
        let mut after = begin.map(rank_of);
        loop {
            let want = READ.min(matches.rows_left);
            let tasks =
                self.edit(number, |ledger| ledger.in_group(group, after, want, newest_first))?;
            let may_have_more = tasks.len() == want;
            let cursors: Vec<Cursor> = tasks.iter().map(|task| group_cursor(group, task)).collect();
            after = cursors.last().map(rank_of);
            let read = cursors.into_iter().zip(tasks);
            let read = read.map(|(here, (id, found))| (here, id, Some(found))).collect();
            if self.add_wanted(matches, read, may_have_more) {
                return Ok(());
            }
        }
    }

    fn match_taken(
        &mut self,
        number: u32,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let mut after = begin.map(rank_of);
        loop {
            let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
            let bound = after.map_or(Unbounded, Excluded);
            let want = READ.min(matches.rows_left);
            let taken: Vec<Rank> = if matches.wanted.newest_first {
                tube.taken.range((Unbounded, bound)).rev().take(want).copied().collect()
            } else {
                tube.taken.range((bound, Unbounded)).take(want).copied().collect()
            };
            let mut read = Vec::with_capacity(taken.len());
            for &(order, id) in &taken {
                let is_owned = self.is_owned(matches.wanted, id);
                let found = if is_owned { self.find(number, id).map(Some) } else { Ok(None) };
                let found = matches.undamaged(found)?;
                read.push((cursor(Shelf::Ready, order, id), id, found));
            }
            after = taken.last().copied();
            if self.add_wanted(matches, read, taken.len() == want) {
                return Ok(());
            }
        }
    }

    /// Tasks of these shelves, one shelf after the other.
    fn match_shelves(
        &mut self,
        number: u32,
        shelves: &[Shelf],
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        let (wanted, sub_queued) = (matches.wanted, tube.definition.sub_queued);
        let mut shelves = shelves.to_vec();
        if wanted.newest_first {
            shelves.reverse();
        }
        let mut after = begin.map(|cursor| cursor.position.clone());
        let first = after.as_ref().map(|position| position.shelf);
        let skipped = shelves.iter().position(|shelf| Some(*shelf) == first).unwrap_or(0);
        let mut shelves = shelves.into_iter().skip(skipped).peekable();
        while let Some(shelf) = shelves.next() {
            let sub = wanted.sub_queue.as_deref().filter(|_| sub_queued && shelf == Shelf::Ready);
            loop {
                let want = READ.min(matches.rows_left);
                let from = after.as_ref().filter(|position| position.shelf == shelf);
                let page = self.edit(number, |ledger| {
                    ledger.page_of(shelf, sub, from, want, wanted.newest_first)
                })?;
                matches.damaged += page.damaged;
                let read = page.tasks.into_iter();
                let read: Vec<ReadRow> = read
                    .map(|(id, found)| (found_position(id, &found).into(), id, Some(found)))
                    .collect();
                after = read.last().map(|(here, ..)| here.position.clone());
                if self.add_wanted(matches, read, page.may_have_more || shelves.peek().is_some()) {
                    return Ok(());
                }
                if !page.may_have_more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds the tasks of a read that are wanted. Returns true if the page ends here.
    pub(super) fn add_wanted(
        &self,
        matches: &mut Matches<'_>,
        read: Vec<ReadRow>,
        may_have_more: bool,
    ) -> bool {
        let count = read.len();
        for (at, (here, id, found)) in read.into_iter().enumerate() {
            matches.rows_left = matches.rows_left.saturating_sub(1);
            if let Some(found) = found.filter(|found| self.is_wanted(matches.wanted, id, found)) {
                matches.add(id, found);
            }
            let is_last = at + 1 == count && !may_have_more;
            if is_last || matches.is_full() {
                matches.next = Some(here).filter(|_| !is_last);
                return true;
            }
        }
        !may_have_more
    }

    /// Whether a task meets all conditions.
    fn is_wanted(&self, wanted: &Where, id: u64, found: &Found) -> bool {
        let header = &found.record.header;
        let more = header.more.as_deref();
        let group = more.and_then(|more| more.group.as_deref());
        let is_in_state = |state| self.state_of(id, found.shelf) == state;
        wanted.wanted_state().is_none_or(is_in_state)
            && wanted.tag.as_deref().is_none_or(|tag| header.has_tag(tag))
            && wanted.sub_queue.as_deref().is_none_or(|sub| *header.sub == *sub)
            && (wanted.group.is_none() || wanted.group.as_deref() == group)
            && self.is_owned(wanted, id)
    }

    /// Whether a task is taken by a session with the wanted label, if one is wanted.
    fn is_owned(&self, wanted: &Where, id: u64) -> bool {
        let Some(wanted) = wanted.owner.as_deref() else { return true };
        let label = self.claims.get(&id).and_then(|claim| self.label_of(claim));
        label.is_some_and(|label| *label == *wanted)
    }
}

impl Matches<'_> {
    fn is_full(&self) -> bool {
        self.tasks.len() >= self.limit || self.rows_left == 0 || self.bytes_left == 0
    }

    fn add(&mut self, id: u64, found: Found) {
        self.bytes_left = self.bytes_left.saturating_sub(found.record.header.size);
        self.tasks.push((id, found));
    }

    /// Counts a damaged task.
    pub(super) fn undamaged(&mut self, found: Result<Option<Found>>) -> Result<Option<Found>> {
        match found {
            Err(Error::Corrupt { .. }) => {
                self.damaged += 1;
                Ok(None)
            }
            found => found,
        }
    }
}

/// What the pages list, by the condition that decides which rows are read.
fn listing_of(wanted: &Where) -> Listing<'_> {
    if wanted.soonest_first {
        return Listing::Soonest;
    }
    match (&wanted.tag, &wanted.group, wanted.wanted_state()) {
        (Some(tag), _, _) => Listing::Tag(tag),
        (None, Some(group), _) => Listing::Group(group),
        (None, None, Some(state)) => Listing::State(state),
        (None, None, None) => Listing::All,
    }
}
