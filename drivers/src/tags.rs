//! Tags: which tasks have a tag, and how many.
//!
//! Invariant: a tag has a count exactly if it has a row, and the count is the number of its rows. The
//! rows of a truncated or dropped tube count until its space is purged.

use std::sync::Arc;

use crate::failure_groups::{decode_count, lower_count, raise_count, stored_count};
use crate::keys;
use crate::ledger::Ledger;
use crate::record::Header;
use crate::tables::{Reads, Rows, Table};

/// A row of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a row: the id and the space of a task")]
pub struct TaggedId {
    /// The id of the task.
    pub id: u64,
    /// The space of its tube. It may be one that no tube uses any more.
    pub space: u32,
}

/// A tag whose count a change of a task changes.
struct TagStep<'h> {
    tag: &'h str,
    /// The count before the change.
    count: u64,
    is_added: bool,
}

/// How one change of a task changes the counts of tags. No allocation for a task without tags.
pub(crate) struct TagChange<'h>(Vec<TagStep<'h>>);

/// Returns up to `limit` rows of a tag in the order of their ids, from the first one or after an id,
/// without the damaged ones. `newest_first` reverses the order. If there may be more, also returns the
/// id of the last row, after which they begin.
///
/// # Errors
/// A row could not be read.
pub fn tagged<R: Reads>(
    rows: &mut R,
    tag: &str,
    after: Option<u64>,
    limit: usize,
    newest_first: bool,
) -> Result<(Vec<TaggedId>, Option<u64>), R::Error> {
    let prefix = keys::tag_prefix(tag);
    let (mut from, mut to) = (prefix.clone(), keys::end_of(&prefix));
    match after.map(|id| keys::tagged(tag, id)) {
        None => {}
        Some(key) if newest_first => to = key,
        Some(key) => from = keys::after(&key),
    }
    let found = if newest_first {
        rows.scan_back(Table::Index, &from, &to, limit)?
    } else {
        rows.scan(Table::Index, &from, &to, limit)?
    };
    let last = found.last().filter(|_| found.len() == limit);
    let last = last.and_then(|(key, _)| Some(keys::split_tagged(key).ok()?.1));
    let decoded = found.iter().filter_map(|(key, value)| {
        let (_, id) = keys::split_tagged(key).ok()?;
        Some(TaggedId { id, space: keys::tagged_space(value).ok()? })
    });
    Ok((decoded.collect(), last))
}

/// Returns up to `limit` tags, each with the number of its rows, in the order of the tags, from the
/// first one or after another one. Skips damaged counts.
///
/// # Errors
/// A row could not be read.
pub fn tag_counts<R: Reads>(
    rows: &mut R,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<(String, u64)>, R::Error> {
    let to = keys::end_of(&[keys::TAG_COUNT]);
    let mut from =
        after.map_or_else(|| vec![keys::TAG_COUNT], |tag| keys::after(&keys::tag_count(tag)));
    let mut counts = Vec::new();
    while counts.len() < limit {
        let missing = limit - counts.len();
        let rows = rows.scan(Table::Index, &from, &to, missing)?;
        counts.extend(rows.iter().filter_map(|(key, value)| {
            Some((keys::split_tag_count(key).ok()?.to_owned(), decode_count(value)?))
        }));
        match rows.last() {
            Some((last, _)) if rows.len() == missing => from = keys::after(last),
            _ => break,
        }
    }
    Ok(counts)
}

impl<R: Rows> Ledger<'_, R> {
    /// Reads what a change of a task needs to know about its tags before and after the change.
    #[inline]
    pub(crate) fn read_tag_change<'h>(
        &mut self,
        id: u64,
        before: Option<&'h Header>,
        after: Option<&'h Header>,
    ) -> Result<TagChange<'h>, R::Error> {
        let tags = |header: Option<&'h Header>| header.map_or(&[][..], Header::tags);
        let (before, after) = (tags(before), tags(after));
        if before == after {
            return Ok(TagChange(Vec::new()));
        }
        read_steps(self.rows, id, before, after)
    }

    /// Changes the counts of the tags.
    #[inline]
    pub(crate) fn write_tag_change(&mut self, TagChange(steps): TagChange<'_>) {
        for step in steps {
            write_step(self.rows, step);
        }
    }
}

/// Lowers the counts of the tags of a task whose rows a purge removes.
pub(crate) fn forget_tags<R: Rows>(
    rows: &mut R,
    id: u64,
    tags: &[Arc<str>],
) -> Result<(), R::Error> {
    let TagChange(steps) = read_steps(rows, id, tags, &[])?;
    for step in steps {
        write_step(rows, step);
    }
    Ok(())
}

fn read_steps<'h, R: Reads>(
    rows: &mut R,
    id: u64,
    before: &'h [Arc<str>],
    after: &'h [Arc<str>],
) -> Result<TagChange<'h>, R::Error> {
    let removed = before.iter().filter(|tag| !after.contains(tag)).map(|tag| (tag, false));
    let added = after.iter().filter(|tag| !before.contains(tag)).map(|tag| (tag, true));
    let mut steps = Vec::new();
    for (tag, is_added) in removed.chain(added) {
        let count = stored_count(rows, &keys::tag_count(tag), id, "the count of its tag")?;
        steps.push(TagStep { tag, count, is_added });
    }
    Ok(TagChange(steps))
}

fn write_step<R: Rows>(rows: &mut R, TagStep { tag, count, is_added }: TagStep<'_>) {
    let key = keys::tag_count(tag);
    if is_added { raise_count(rows, key, count) } else { lower_count(rows, key, count) }
}
