//! Listings of the tasks of a tube that meet a filter; `listing_in_store` has those of a store.
//!
//! One condition decides which rows are read, and so the order of the pages and what their cursor
//! means; the others are checked for each task. A page ends early if the call has looked at as many
//! rows as it may while it holds the lock.

use std::ops::Bound::{Excluded, Unbounded};

use tubewell_drivers::{Found, Shelf};

use super::labels::LOOK_UPS;
use super::outcome::group_cursor;
use super::peek::{Listing, begin_of_page, cursor, cursor_of_empty_page, found_position, rank_of};
use crate::base::tube_no::TubeNo;
use crate::core::state::window::Rank;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::values::filter::Filter;
use crate::values::listing::Page;
use crate::values::task::{Cursor, Task, TaskInfo};
use crate::{Error, Result, TaskState};

/// The maximum number of records that one call looks at.
pub(super) const RECORDS: usize = 10_000;
/// The number of rows of one read.
pub(super) const READ: usize = 256;
/// A page with bodies ends after the task with which it has this many bytes of them, and before a result with which it
/// would have more.
const BODY_BYTES: u64 = 4 << 20;

/// The tasks of a page, and what the call may still look at.
pub(super) struct Matches<'a> {
    wanted: &'a Filter,
    limit: usize,
    pub(super) rows_left: usize,
    bytes_left: u64,
    tasks: Vec<(u64, Found)>,
    next: Option<Cursor>,
    damaged: u64,
}

/// A row of a read: where the next page begins if this one ends with it, its id, and what it is.
pub(super) type ReadRow = (Cursor, u64, Row);

/// What a row of a read is.
pub(super) enum Row {
    Task(Found),
    Damaged,
    /// It is left over, or leads to another tube.
    Other,
}

impl Row {
    pub(super) fn of(found: Result<Option<Found>>) -> Result<Row> {
        match found {
            Ok(Some(found)) => Ok(Row::Task(found)),
            Ok(None) => Ok(Row::Other),
            Err(Error::Corrupt { .. }) => Ok(Row::Damaged),
            Err(error) => Err(error),
        }
    }
}

verb! {
    /// A page of the tasks that are wanted.
    90 InTube Look: List { filter: Filter, after: Option<Cursor>, limit: usize } -> Page<TaskInfo> {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_list()
        }
    }
}

impl Decide for List {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Page<TaskInfo>>> {
        let List { filter, after, limit } = self;
        core.page(number, filter, after.as_ref(), *limit).map(Decided::now)
    }
}

verb! {
    /// As `List`, with the bodies.
    91 InTube Look: ListBodies { filter: Filter, after: Option<Cursor>, limit: usize } -> Page<Task> {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_list()
        }
    }
}

impl Decide for ListBodies {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Page<Task>>> {
        let ListBodies { filter, after, limit } = self;
        let Matches { tasks, next, damaged, .. } =
            core.matching(number, filter, after.as_ref(), *limit, BODY_BYTES)?;
        let mut page = Page { next, damaged, ..Page::default() };
        let mut bytes = 0_u64;
        for (index, (id, found)) in tasks.iter().enumerate() {
            let task = match core.with_body(number, *id, found) {
                Err(Error::Corrupt { .. }) => {
                    page.damaged += 1;
                    continue;
                }
                task => task?,
            };
            // The bodies alone are within the limit.
            let result = task.result.as_ref().map_or(0, Vec::len);
            bytes = bytes.saturating_add(task.info.size + result as u64);
            if bytes > BODY_BYTES && result > 0 && !page.items.is_empty() {
                let last = index.checked_sub(1).and_then(|last| tasks.get(last));
                page.next = last.map(|(id, found)| core.cursor_of_selected(filter, *id, found));
                break;
            }
            page.items.push(task);
        }
        Ok(Decided::now(page))
    }
}

impl Core {
    /// A task of a page, with its body and its result.
    fn with_body(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<Task> {
        let body = self.read_body(number, id, found)?;
        let result = self.result_beside_body(number, id, found)?;
        let info = self.describe_for_page(number, id, found.shelf, &found.record.header)?;
        Ok(Task::of(info, body).with_result(result))
    }
}

impl Core {
    pub(super) fn page(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<TaskInfo>> {
        let mut page = Page::default();
        let matches = self.matching(number, filter, after, limit, u64::MAX)?;
        page.next = self.describe_matches(number, matches, &mut page)?;
        Ok(page)
    }

    /// Adds the tasks of a tube to a page. Returns where the next page begins.
    pub(super) fn describe_matches(
        &mut self,
        number: TubeNo,
        matches: Matches<'_>,
        page: &mut Page<TaskInfo>,
    ) -> Result<Option<Cursor>> {
        page.damaged += matches.damaged;
        for (id, found) in matches.tasks {
            let info = self.describe_for_page(number, id, found.shelf, &found.record.header)?;
            page.items.push(info);
        }
        Ok(matches.next)
    }

    fn matching<'a>(
        &mut self,
        number: TubeNo,
        wanted: &'a Filter,
        after: Option<&Cursor>,
        limit: usize,
        bytes_left: u64,
    ) -> Result<Matches<'a>> {
        let begin = begin_of_page(after, listing_of(wanted))?;
        let mut matches = Matches::new(wanted, limit, bytes_left);
        if limit == 0 {
            matches.next = Some(cursor_of_empty_page(after));
            return Ok(matches);
        }
        self.match_rows(number, begin, &mut matches)?;
        Ok(matches)
    }

    /// Adds the tasks of a tube that are behind the cursor, if the page has space for a task.
    pub(super) fn match_rows(
        &mut self,
        number: TubeNo,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        match listing_of(matches.wanted) {
            Listing::Soonest => self.match_soonest(number, begin, matches),
            Listing::Tag(tag) => self.match_tagged(number, tag, begin, matches),
            Listing::Group(group) => self.match_group(number, group, begin, matches),
            Listing::State(TaskState::Taken) => self.match_taken(number, begin, matches),
            Listing::State(state) => self.match_shelves(number, &[state.shelf()], begin, matches),
            Listing::All => self.match_shelves(number, &Shelf::ALL, begin, matches),
        }
    }

    fn match_tagged(
        &mut self,
        number: TubeNo,
        tag: &str,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        let (buffer, space) = (tube.buffer, tube.definition.space);
        let newest_first = matches.wanted.newest_first;
        let mut after = begin.map(|cursor| cursor.position.id);
        loop {
            let want = matches.next_read();
            let rows = &mut self.buffers[buffer];
            let (rows, last) = tubewell_drivers::tagged(rows, tag, after, want, newest_first)?;
            let mut read = Vec::with_capacity(rows.len());
            for row in rows {
                let is_own = row.space == space;
                let found = if is_own { self.find_tagged(number, row.id, tag) } else { Ok(None) };
                read.push((Cursor::of_tag(tag.into(), row.id), row.id, Row::of(found)?));
            }
            if self.add_wanted(matches, read, last.is_some()).is_some() {
                return Ok(());
            }
            after = last;
        }
    }

    fn match_group(
        &mut self,
        number: TubeNo,
        group: &str,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let newest_first = matches.wanted.newest_first;
        let mut after = begin.map(rank_of);
        loop {
            let want = matches.next_read();
            let tasks =
                self.edit(number, |ledger| ledger.in_group(group, after, want, newest_first))?;
            let may_have_more = tasks.len() == want;
            let cursors: Vec<Cursor> = tasks.iter().map(|task| group_cursor(group, task)).collect();
            after = cursors.last().map(rank_of);
            let read = cursors.into_iter().zip(tasks);
            let read = read.map(|(here, (id, found))| (here, id, Row::Task(found))).collect();
            if self.add_wanted(matches, read, may_have_more).is_some() {
                return Ok(());
            }
        }
    }

    fn match_taken(
        &mut self,
        number: TubeNo,
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let mut after = begin.map(rank_of);
        loop {
            let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
            let bound = after.map_or(Unbounded, Excluded);
            let want = matches.next_read();
            let taken: Vec<Rank> = if matches.wanted.newest_first {
                tube.taken.range((Unbounded, bound)).rev().take(want).copied().collect()
            } else {
                tube.taken.range((bound, Unbounded)).take(want).copied().collect()
            };
            let mut read = Vec::with_capacity(taken.len());
            for &(order, id) in &taken {
                let is_owned = self.is_owned(matches.wanted, id);
                let found = if is_owned { self.find(number, id).map(Some) } else { Ok(None) };
                read.push((cursor(Shelf::Ready, order, id), id, Row::of(found)?));
            }
            after = taken.last().copied();
            if self.add_wanted(matches, read, taken.len() == want).is_some() {
                return Ok(());
            }
        }
    }

    /// Tasks of these shelves, one shelf after the other.
    fn match_shelves(
        &mut self,
        number: TubeNo,
        shelves: &[Shelf],
        begin: Option<&Cursor>,
        matches: &mut Matches<'_>,
    ) -> Result<()> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
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
                let want = matches.next_read();
                let from = after.as_ref().filter(|position| position.shelf == shelf);
                let page = self.edit(number, |ledger| {
                    ledger.page_of(shelf, sub, from, want, wanted.newest_first)
                })?;
                let read = page.tasks.into_iter();
                let read: Vec<ReadRow> = read
                    .map(|(id, found)| (found_position(id, &found).into(), id, Row::Task(found)))
                    .collect();
                after = read.last().map(|(here, ..)| here.position.clone());
                let has_more = page.may_have_more || shelves.peek().is_some();
                let count = read.len();
                let left = self.add_wanted(matches, read, has_more);
                // Those behind the last task of the page count for the next one.
                let end = match left {
                    Some(left) if matches.next.is_some() => count - left,
                    _ => usize::MAX,
                };
                matches.damaged += page.damaged.iter().filter(|at| **at < end).count() as u64;
                if left.is_some() {
                    return Ok(());
                }
                if !page.may_have_more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Adds the tasks of a read that are wanted. If the page ends here, returns how many rows are left.
    pub(super) fn add_wanted(
        &self,
        matches: &mut Matches<'_>,
        read: Vec<ReadRow>,
        may_have_more: bool,
    ) -> Option<usize> {
        let mut left = read.len();
        for (here, id, row) in read {
            left -= 1;
            matches.rows_left = matches.rows_left.saturating_sub(1);
            match row {
                Row::Task(found) if self.is_wanted(matches.wanted, id, &found) => {
                    matches.add(id, found);
                }
                Row::Damaged => matches.damaged += 1,
                Row::Task(_) | Row::Other => {}
            }
            let is_last = left == 0 && !may_have_more;
            if is_last || matches.is_full() {
                matches.next = Some(here).filter(|_| !is_last);
                return Some(left);
            }
        }
        (!may_have_more).then_some(0)
    }

    /// Whether a task meets all conditions.
    pub(super) fn is_wanted(&self, wanted: &Filter, id: u64, found: &Found) -> bool {
        let header = &found.record.header;
        let more = header.more.as_deref();
        let group = more.and_then(|more| more.group.as_deref());
        let is_in_state = |state| self.state_of(id, found.shelf) == state;
        wanted.wanted_state().is_none_or(is_in_state)
            && wanted.wanted_tag().is_none_or(|tag| header.has_tag(tag))
            && wanted.sub_queue.as_deref().is_none_or(|sub| *header.sub == *sub)
            && (wanted.group.is_none() || wanted.group.as_deref() == group)
            && self.is_owned(wanted, id)
    }

    /// Whether a task is taken by a session with the wanted label, if one is wanted.
    fn is_owned(&self, wanted: &Filter, id: u64) -> bool {
        let Some(wanted) = wanted.wanted_owner() else { return true };
        let label = self.claims.get(id).and_then(|claim| self.label_of(claim));
        label.is_some_and(|label| *label == *wanted)
    }
}

impl<'a> Matches<'a> {
    pub(super) fn new(wanted: &'a Filter, limit: usize, bytes_left: u64) -> Matches<'a> {
        let rows_left = match listing_of(wanted) {
            Listing::Tag(_) | Listing::Group(_) | Listing::Soonest => LOOK_UPS,
            Listing::State(_) | Listing::All => RECORDS,
        };
        let (tasks, next, damaged) = (Vec::new(), None, 0);
        Matches { wanted, limit, rows_left, bytes_left, tasks, next, damaged }
    }

    /// How many rows the next read has. If each may be a task of the page, no more than the page has
    /// space for, and one that says whether there are more.
    fn next_read(&self) -> usize {
        let missing = self.limit.saturating_sub(self.tasks.len()).saturating_add(1);
        let most = if self.wanted.wants_all_of_a_list() { missing } else { READ };
        READ.min(self.rows_left).min(most)
    }

    fn is_full(&self) -> bool {
        self.tasks.len() >= self.limit || self.rows_left == 0 || self.bytes_left == 0
    }

    fn add(&mut self, id: u64, found: Found) {
        self.bytes_left = self.bytes_left.saturating_sub(found.record.header.size);
        self.tasks.push((id, found));
    }
}

/// What the pages list, by the condition that decides which rows are read.
pub(super) fn listing_of(wanted: &Filter) -> Listing<'_> {
    if wanted.soonest_first {
        return Listing::Soonest;
    }
    match (wanted.wanted_tag(), &wanted.group, wanted.wanted_state()) {
        (Some(tag), _, _) => Listing::Tag(tag),
        (None, Some(group), _) => Listing::Group(group),
        (None, None, Some(state)) => Listing::State(state),
        (None, None, None) => Listing::All,
    }
}
