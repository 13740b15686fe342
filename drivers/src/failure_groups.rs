//! Failure groups: which buried tasks have the same failure, and how many.
//!
//! Invariant: a group has a count exactly if it has a task, and the count is the number of its rows
//! in the index.

use crate::index_rows::group_of;
use crate::keys::{self, Position, Shelf};
use crate::ledger::{Found, Ledger, found_in};
use crate::record_error::RecordError;
use crate::tables::{Reads, Rows, Table, Value};

/// A group whose count a change of a task changes, with the count before the change.
type GroupCount<'h> = (&'h str, u64);

/// When tasks with a failure were buried; from [`Ledger::failed_between`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer, read by the store")]
pub struct FailureTimes {
    /// The times.
    pub times: Vec<u64>,
    /// The key with which the following call goes on; `None` after the last one.
    pub next: Option<Vec<u8>>,
}

/// How one change of a task changes the counts of groups.
pub(crate) struct GroupChange<'h> {
    loses: Option<GroupCount<'h>>,
    gains: Option<GroupCount<'h>>,
}

/// Decodes the value of a count. A stored count is not 0.
pub(crate) fn decode_count(value: &[u8]) -> Option<u64> {
    let count = u64::from_be_bytes(value.try_into().ok()?);
    (count > 0).then_some(count)
}

impl<R: Rows> Ledger<'_, R> {
    /// Returns up to `limit` failure groups, each with the number of its tasks, in the order of
    /// their names. Skips damaged counts.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn groups(&mut self, limit: usize) -> Result<Vec<(String, u64)>, R::Error> {
        let prefix = keys::index_prefix(keys::GROUP_COUNT, self.space);
        let rows = self.rows.scan(Table::Index, &prefix, &keys::end_of(&prefix), limit)?;
        let decoded = rows.iter().filter_map(|(key, value)| {
            let (_, group) = keys::split_group_count(key).ok()?;
            Some((group.to_owned(), decode_count(value)?))
        });
        Ok(decoded.collect())
    }

    /// Returns up to `limit` tasks of a failure group, from the first one or after another one, by
    /// the time at which they were buried and by their ids. `newest_first` reverses the order.
    /// `after` has this time and this id. Skips damaged tasks.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn in_group(
        &mut self,
        group: &str,
        after: Option<(u64, u64)>,
        limit: usize,
        newest_first: bool,
    ) -> Result<Vec<(u64, Found)>, R::Error> {
        let prefix = keys::group_prefix(self.space, group);
        let (mut from, mut to) = (prefix.clone(), keys::end_of(&prefix));
        match after.map(|(ended, id)| keys::ranked(&prefix, ended, id)) {
            None => {}
            Some(key) if newest_first => to = key,
            Some(key) => from = keys::after(&key),
        }
        let mut found = Vec::new();
        while found.len() < limit {
            let missing = limit - found.len();
            let rows = if newest_first {
                self.rows.scan_back(Table::Index, &from, &to, missing)?
            } else {
                self.rows.scan(Table::Index, &from, &to, missing)?
            };
            match rows.last() {
                None => {}
                Some((last, _)) if newest_first => to.clone_from(last),
                Some((last, _)) => from = keys::after(last),
            }
            for (key, _) in &rows {
                let (ended, id) = keys::order_and_id(key)?;
                let task = self.undamaged_buried(id)?;
                found
                    .extend(task.filter(|found| is_of(found, group, ended)).map(|task| (id, task)));
            }
            if rows.len() < missing {
                break;
            }
        }
        Ok(found)
    }

    /// Returns when tasks with a failure were buried that are still buried: those times that are in
    /// `from..to`, in the order of the groups, from the key `next` on (empty at first). Reads up to
    /// `limit` rows.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn failed_between(
        &mut self,
        (from, to): (u64, u64),
        next: &[u8],
        limit: usize,
    ) -> Result<FailureTimes, R::Error> {
        let all = keys::index_prefix(keys::GROUP, self.space);
        let end = keys::end_of(&all);
        let (mut times, mut left) = (Vec::new(), limit);
        let mut next = next.max(&all[..]).to_vec();
        while left > 0 {
            let Some((key, _)) = self.rows.scan(Table::Index, &next, &end, 1)?.pop() else {
                return Ok(FailureTimes { times, next: None });
            };
            let Ok((_, group, ended, _)) = keys::split_group(&key) else {
                // `verify` reports it.
                (next, left) = (keys::after(&key), left - 1);
                continue;
            };
            let prefix = keys::group_prefix(self.space, group);
            if !(from..to).contains(&ended) {
                let is_early = ended < from && from < to;
                next =
                    if is_early { keys::ranked(&prefix, from, 0) } else { keys::end_of(&prefix) };
                left -= 1;
                continue;
            }
            let last = keys::ranked(&prefix, to, 0);
            let rows = self.rows.scan(Table::Index, &key, &last, left)?;
            times.extend(rows.iter().filter_map(|(key, _)| Some(keys::order_and_id(key).ok()?.0)));
            next = match rows.last() {
                Some((last, _)) if rows.len() == left => keys::after(last),
                _ => keys::end_of(&prefix),
            };
            left -= rows.len();
        }
        Ok(FailureTimes { times, next: Some(next) })
    }

    /// Reads what a change of a task needs to know about its group before and after the change.
    /// `None` if the task stays in its group, or in none.
    #[inline]
    pub(crate) fn read_group_change<'h>(
        &mut self,
        id: u64,
        before: Option<&'h str>,
        after: Option<&'h str>,
    ) -> Result<Option<GroupChange<'h>>, R::Error> {
        if before == after {
            return Ok(None);
        }
        Ok(Some(GroupChange {
            loses: self.count_of(id, before)?,
            gains: self.count_of(id, after)?,
        }))
    }

    /// Changes the counts of the groups.
    #[inline]
    pub(crate) fn write_group_change(&mut self, change: Option<GroupChange<'_>>) {
        if let Some(change) = change {
            self.write_group_counts(change);
        }
    }

    fn write_group_counts(&mut self, change: GroupChange<'_>) {
        if let Some((group, count)) = change.loses {
            lower_count(self.rows, keys::group_count(self.space, group), count);
        }
        if let Some((group, count)) = change.gains {
            raise_count(self.rows, keys::group_count(self.space, group), count);
        }
    }

    fn count_of<'h>(
        &mut self,
        id: u64,
        group: Option<&'h str>,
    ) -> Result<Option<GroupCount<'h>>, R::Error> {
        let Some(group) = group else { return Ok(None) };
        let key = keys::group_count(self.space, group);
        Ok(Some((group, stored_count(self.rows, &key, id, "the count of its group")?)))
    }

    /// Finds a buried task by its id. Returns `None` if it is not buried or is damaged.
    fn undamaged_buried(&mut self, id: u64) -> Result<Option<Found>, R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(self.space, id))?;
        let position = pointer.and_then(|pointer| Position::from_pointer(id, &pointer).ok());
        let Some(position) = position.filter(|position| position.shelf == Shelf::Buried) else {
            return Ok(None);
        };
        let key = keys::task(self.space, self.sub_queued, &position);
        let Some(value) = self.rows.get(Table::Tasks, &key)? else { return Ok(None) };
        Ok(found_in(position.shelf, (key, value)).ok().map(|(_, found)| found))
    }
}

/// Reads a count, which is 0 without a row. `what` names it if it is damaged.
pub(crate) fn stored_count<R: Reads>(
    rows: &mut R,
    key: &[u8],
    id: u64,
    what: &'static str,
) -> Result<u64, R::Error> {
    match rows.get(Table::Index, key)?.as_deref().map(decode_count) {
        None => Ok(0),
        Some(Some(count)) => Ok(count),
        Some(None) => Err(RecordError::new(id, what).into()),
    }
}

/// Adds 1 to a count that is stored as `count`.
pub(crate) fn raise_count<R: Rows>(rows: &mut R, key: Vec<u8>, count: u64) {
    match count {
        0 => rows.insert(Table::Index, key, encode_count(1)),
        _ => rows.replace(Table::Index, key, encode_count(count.saturating_add(1))),
    }
}

/// Subtracts 1 from a count that is stored as `count`.
pub(crate) fn lower_count<R: Rows>(rows: &mut R, key: Vec<u8>, count: u64) {
    match count {
        // The count is missing: `verify` reports it.
        0 => {}
        1 => rows.remove(Table::Index, key),
        _ => rows.replace(Table::Index, key, encode_count(count - 1)),
    }
}

fn encode_count(count: u64) -> Value {
    count.to_be_bytes().as_slice().into()
}

fn is_of(found: &Found, group: &str, ended: u64) -> bool {
    group_of(found.shelf, &found.record.header) == Some((group, ended))
}
