//! Listings of the tasks of a store: of one tube, of all tubes, or of all tubes with a tag.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use tubewell_drivers::{Shelf, TaggedId};

use super::labels::LOOK_UPS;
use super::listing::{Matches, RECORDS, listing_of};
use super::peek::{Listing, begin_in_tubes, begin_of_page, cursor_of_empty_page, start_cursor};
use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, Limits, verb};
use crate::values::filter::Filter;
use crate::values::listing::Page;
use crate::values::task::{Cursor, TaskInfo};
use crate::{Error, Result, TaskState};

/// The maximum number of tubes that one call looks at.
const TUBES: usize = 1000;
/// A scan costs as much as so many rows, also one that finds none.
const SCAN: usize = 16;

verb! {
    /// A page of the tasks that are wanted, of one tube or of all tubes.
    15 InStore Look: ListInStore { filter: Filter, after: Option<Cursor>, limit: usize } -> Page<TaskInfo> {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_list_of_store()
        }
    }
}

impl Decide for ListInStore {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Page<TaskInfo>>> {
        let ListInStore { filter, after, limit } = self;
        let page = match filter.wanted_tube() {
            Some(name) => {
                let number = core.find_tube(name)?.number;
                core.page(number, filter, after.as_ref(), *limit)
            }
            None => match filter.wanted_tag() {
                Some(tag) => core.page_of_tag(tag, filter, after.as_ref(), *limit),
                None => core.page_of_all_tubes(filter, after.as_ref(), *limit),
            },
        };
        page.map(Decided::now)
    }
}

impl Core {
    /// The tasks of one tube after the other, in the order of the names of the tubes.
    fn page_of_all_tubes(
        &mut self,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<TaskInfo>> {
        let begin = begin_in_tubes(after)?;
        let mut page = Page::default();
        if limit == 0 {
            page.next = Some(cursor_of_empty_page(after));
            return Ok(page);
        }
        let first = begin.as_ref().map(|(name, _)| &**name);
        let scan = match listing_of(filter) {
            Listing::All => SCAN * Shelf::ALL.len(),
            _ => SCAN,
        };
        let mut rows_left = RECORDS;
        for (index, (name, number)) in self.tubes_from(first, filter).into_iter().enumerate() {
            let from = begin.as_ref().filter(|(first, _)| *first == name).map(|(_, from)| from);
            let from = begin_of_page(from, listing_of(filter))?;
            let is_over = index == TUBES;
            if !is_over && !self.may_have(number, filter) {
                continue;
            }
            let missing = limit.saturating_sub(page.items.len());
            if is_over || missing == 0 || rows_left == 0 {
                page.next = Some(start_cursor().in_tube(&name));
                break;
            }
            let mut matches = Matches::new(filter, missing, u64::MAX);
            matches.rows_left = matches.rows_left.min(rows_left);
            let had = matches.rows_left;
            self.match_rows(number, from, &mut matches)?;
            let looked_at = had.saturating_sub(matches.rows_left).saturating_add(scan);
            rows_left = rows_left.saturating_sub(looked_at);
            if let Some(next) = self.describe_matches(number, matches, &mut page)? {
                page.next = Some(next.in_tube(&name));
                break;
            }
        }
        Ok(page)
    }

    /// The tubes from this one on, or from the first one: as many as a call looks at, and one more.
    fn tubes_from(&self, first: Option<&str>, filter: &Filter) -> Vec<(Arc<str>, TubeNo)> {
        let bound = first.map_or(Unbounded, Included);
        let own = |(name, number): (&Arc<str>, TubeNo)| (name.clone(), number);
        if filter.newest_first {
            let names = self.tubes.names_in::<str>((Unbounded, bound)).rev();
            return names.take(TUBES + 1).map(own).collect();
        }
        self.tubes.names_in::<str>((bound, Unbounded)).take(TUBES + 1).map(own).collect()
    }

    /// Whether a tube may have a task in the wanted state, by its counts.
    fn may_have(&self, number: TubeNo, wanted: &Filter) -> bool {
        let Some(tube) = self.tubes.get(number) else { return false };
        let mut counts = tube.counts;
        match wanted.wanted_state() {
            None => counts.stored() > 0,
            Some(TaskState::Taken) => !tube.taken.is_empty(),
            Some(state) => *counts.on(state.shelf()) > 0,
        }
    }

    /// The tasks with a tag, whichever tubes they are in.
    fn page_of_tag(
        &mut self,
        tag: &str,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<TaskInfo>> {
        let begin = begin_of_page(after, Listing::Tag(tag))?;
        let mut page = Page::default();
        if limit == 0 {
            page.next = Some(cursor_of_empty_page(after));
            return Ok(page);
        }
        let from = begin.map(|cursor| cursor.position.id);
        let (rows, last) =
            self.tagged_in_both(tag, from, limit.min(LOOK_UPS), filter.newest_first)?;
        page.next = last.map(|id| Cursor::of_tag(tag.into(), id));
        for TaggedId { id, space } in rows {
            let Some(number) = self.tubes.of_space(space) else { continue };
            match self.find_tagged(number, id, tag) {
                Ok(Some(found)) if self.is_wanted(filter, id, &found) => {
                    let header = &found.record.header;
                    page.items.push(self.describe_for_page(number, id, found.shelf, header)?);
                }
                Ok(_) => {}
                Err(Error::Corrupt { .. }) => page.damaged += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}
