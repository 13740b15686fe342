//! Tags: which tasks have one, and how many. And tasks by their ids, in any tube.
//!
//! The row of a tag names the space and the id of a task. A row may be left over from a tube that was
//! truncated or dropped, until its space is purged. So each look-up checks that the space is that of a
//! tube, and that the record has the tag.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tubewell_drivers::{Found, TaggedId};

use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::state::{Buffer, Core, Decided};
use crate::core::verb::{Decide, verb};
use crate::core::wire::wire_struct;
use crate::values::listing::TagCount;
use crate::values::task::TaskInfo;

/// How many rows of a tag one call looks up while it holds the lock.
pub(super) const LOOK_UPS: usize = 1000;
/// How many tags one call counts while it holds the lock.
pub(crate) const TAG_COUNTS_PAGE: usize = 10_000;
/// How many tubes one call searches while it holds the lock.
const TUBES_PER_STEP: usize = 1000;

/// A step of the search for a task by its id.
pub(crate) struct FindStep {
    pub(crate) task: Option<TaskInfo>,
    /// The tube after which the search goes on; `None` if it has ended.
    pub(crate) next: Option<Arc<str>>,
}

wire_struct! { FindStep { task, next } }

verb! {
    /// The counts of the tags, from the first one or after another one: up to a page of them, in the
    /// order of the tags.
    16 InStore Look: TagCounts { after: Option<Box<str>> } -> Vec<TagCount>
}

impl Decide for TagCounts {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Vec<TagCount>>> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        // A page that is full says nothing about the tags behind its last one.
        let mut end: Option<String> = None;
        for buffer in core.open_buffers() {
            let rows = &mut core.buffers[buffer];
            let page = tubewell_drivers::tag_counts(rows, self.after.as_deref(), TAG_COUNTS_PAGE)?;
            if page.len() == TAG_COUNTS_PAGE {
                let last = page.last().map(|(tag, _)| tag.clone());
                end = [end, last].into_iter().flatten().min();
            }
            for (tag, count) in page {
                *counts.entry(tag).or_default() += count;
            }
        }
        let is_known = |tag: &String| end.as_ref().is_none_or(|end| tag <= end);
        let counts = counts.into_iter().filter(|(tag, _)| is_known(tag));
        Ok(Decided::now(counts.map(|(tag, tasks)| TagCount { tag, tasks }).collect()))
    }
}

verb! {
    /// The task with this id, in any tube: a step of the search, from the first tube or after another
    /// one.
    14 InStore Read: Find { id: u64, after: Option<Arc<str>> } -> FindStep
}

impl Decide for Find {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<FindStep>> {
        let id = self.id;
        let from = self.after.as_deref().map_or(Unbounded, Excluded);
        let tubes: Vec<(Arc<str>, TubeNo)> = match core.claims.get(id) {
            Some(claim) => vec![(Arc::default(), claim.tube)],
            None => {
                let names = core.tubes.names_in::<str>((from, Unbounded));
                names.take(TUBES_PER_STEP).map(|(name, number)| (name.clone(), number)).collect()
            }
        };
        for (_, number) in &tubes {
            if let Some(found) = core.edit(*number, |ledger| ledger.find(id))? {
                let task =
                    Some(core.describe_for_page(*number, id, found.shelf, &found.record.header)?);
                let wait = core.wait_of_last_change(*number, id);
                return Ok(Decided { answer: FindStep { task, next: None }, wait });
            }
        }
        let next = tubes.into_iter().nth(TUBES_PER_STEP - 1).map(|(name, _)| name);
        let wait = if next.is_none() { core.wait_of_absence() } else { None };
        Ok(Decided { answer: FindStep { task: None, next }, wait })
    }
}

impl Core {
    /// A task of a tube, if it has this tag.
    pub(super) fn find_tagged(
        &mut self,
        number: TubeNo,
        id: u64,
        tag: &str,
    ) -> Result<Option<Found>> {
        let found = self.edit(number, |ledger| ledger.find(id))?;
        Ok(found.filter(|found| found.record.header.has_tag(tag)))
    }

    /// The next rows of a tag in both write buffers, by id, and the id of the last one if there may be
    /// more.
    pub(super) fn tagged_in_both(
        &mut self,
        tag: &str,
        after: Option<u64>,
        limit: usize,
        newest_first: bool,
    ) -> Result<(Vec<TaggedId>, Option<u64>)> {
        let (mut rows, mut may_have_more) = (Vec::new(), false);
        for buffer in self.open_buffers() {
            let buffer = &mut self.buffers[buffer];
            // One more, which says whether there is a next page.
            let (found, last) =
                tubewell_drivers::tagged(buffer, tag, after, limit + 1, newest_first)?;
            rows.extend(found);
            may_have_more |= last.is_some();
        }
        rows.sort_unstable_by_key(|row| row.id);
        if newest_first {
            rows.reverse();
        }
        may_have_more |= rows.len() > limit;
        rows.truncate(limit);
        let last = rows.last().filter(|_| may_have_more).map(|row| row.id);
        Ok((rows, last))
    }

    /// The write buffers that have an engine.
    fn open_buffers(&self) -> impl Iterator<Item = Buffer> + use<> {
        let has_memory = self.buffers[Buffer::Memory].engine().is_some();
        Buffer::ALL.into_iter().filter(move |buffer| *buffer == Buffer::File || has_memory)
    }
}
