//! The ledger of a tube: turns each change of a stored task into edits of rows.
//!
//! Invariants: the rows of a task agree: record, body, notes, index rows, head of its sub-queue, and
//! counts. A change reads all it needs before its first edit, so one that fails has edited nothing.

use std::iter;
use std::ops::Deref;

use crate::counts::Counts;
use crate::head_cache::HeadCache;
use crate::index_rows::{IndexRow, group_of, index_rows, position_of};
use crate::keys::{self, Position, Shelf};
use crate::limits::DEFAULT_ORDER;
use crate::record::{self, Body, Header, Record};
use crate::record_error::RecordError;
use crate::tables::{Row, Rows, Table, Value};

/// A stored task.
#[derive(Clone, Debug)]
pub struct Found {
    /// The shelf of the task.
    pub shelf: Shelf,
    /// The record of the task.
    pub record: Record,
}

/// A part of a shelf.
#[derive(Debug)]
pub struct FoundPage {
    /// The tasks, in order.
    pub tasks: Vec<(u64, Found)>,
    /// Where damaged records are: each is behind so many of the tasks.
    pub damaged: Vec<usize>,
    /// Whether there may be more tasks.
    pub may_have_more: bool,
}

/// The ledger of one tube, for one call.
#[expect(missing_debug_implementations, reason = "exists within one call")]
pub struct Ledger<'a, R> {
    /// The rows of the store as this call sees them.
    pub rows: &'a mut R,
    /// The space of the tube's rows.
    pub space: u32,
    /// Whether the tube has sub-queues: ready tasks are then stored by sub-queue.
    pub sub_queued: bool,
    /// The counts of the tube.
    pub counts: &'a mut Counts,
    /// The cache of the tube's sub-queues.
    pub head_cache: &'a mut HeadCache,
    /// The earliest due that this call has written; [`NEVER`](crate::NEVER) at first.
    pub earliest_due: u64,
    /// The earliest moment of the wall clock that this call has written a task to wait for;
    /// [`NEVER`](crate::NEVER) at first.
    pub earliest_moment: u64,
    /// The edges that this call has added (1) and removed (-1), by the spaces of their parents.
    pub edge_changes: Vec<(u32, i64)>,
}

impl<R: Rows> Ledger<'_, R> {
    /// Stores a new task. Returns the row that ends with its body. The row of a separate body is
    /// shared, not copied.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn insert(
        &mut self,
        id: u64,
        shelf: Shelf,
        header: &Header,
        body: &Body,
    ) -> Result<Value, R::Error> {
        let value = record::encode(id, header, body);
        let groups = self.read_group_change(id, None, group_name(shelf, header))?;
        let tags = self.read_tag_change(id, None, Some(header))?;
        if self.has_heads(shelf) {
            self.add_to_heads(&header.sub, (header.order, id))?;
        }
        self.rows.insert(Table::Tasks, self.key_of(id, shelf, header), value.clone());
        self.edit_index(iter::empty(), index_rows(self.space, id, shelf, header));
        self.write_group_change(groups);
        self.write_tag_change(tags);
        *self.counts.on(shelf) += 1;
        let Body::Separate(row, _) = body else { return Ok(value) };
        self.rows.insert(Table::Bodies, keys::by_id(self.space, id), row.clone());
        Ok(row.clone())
    }

    /// Removes a task with all its rows, and with the edges that lead to it from its parents. The
    /// edges to its children stay. The header must be the stored one.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn remove(&mut self, id: u64, shelf: Shelf, header: &Header) -> Result<(), R::Error> {
        let groups = self.read_group_change(id, group_name(shelf, header), None)?;
        let tags = self.read_tag_change(id, Some(header), None)?;
        let parents = self.read_parents(id, header, None)?;
        let steps = self.keys_of_removed_steps(id, header, None)?;
        if self.has_heads(shelf) {
            self.remove_from_heads(&header.sub, (header.order, id))?;
        }
        self.rows.remove(Table::Tasks, self.key_of(id, shelf, header));
        self.edit_index(index_rows(self.space, id, shelf, header), iter::empty());
        self.write_group_change(groups);
        self.write_tag_change(tags);
        self.count_removed(shelf);
        self.remove_edges(id, &parents);
        self.remove_notes(id, header, None);
        self.remove_steps(steps);
        if header.body_checksum.is_some() {
            self.rows.remove(Table::Bodies, keys::by_id(self.space, id));
        }
        Ok(())
    }

    /// Moves a task to another position, and gives it a new header. The body does not change. Notes
    /// that the new header does not name are removed, and so are the edges from its parents if the new
    /// header has none that are open, and the steps if the new header has none.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn move_to_shelf(
        &mut self,
        id: u64,
        from: &Found,
        to: Shelf,
        header: &Header,
    ) -> Result<(), R::Error> {
        let value = record::encode(id, header, from.record.inline());
        self.move_record(id, from, to, header, value)
    }

    /// Gives a task a new header, and a new body that the header describes if there is one. Its
    /// position may change. Notes that the new header does not name are removed.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn update(
        &mut self,
        id: u64,
        from: &Found,
        to: Shelf,
        header: &Header,
        body: Option<&Body>,
    ) -> Result<(), R::Error> {
        let old = &from.record.header;
        let moves = position_of(id, from.shelf, old) != position_of(id, to, header);
        if moves {
            let value = match body {
                None => record::encode(id, header, from.record.inline()),
                Some(body) => record::encode(id, header, body),
            };
            self.move_record(id, from, to, header, value)?;
        } else {
            let tags = self.read_tag_change(id, Some(old), Some(header))?;
            self.replace_record(id, from, header, body);
            self.write_tag_change(tags);
        }
        if let Some(body) = body {
            self.write_body(id, old, body);
        }
        Ok(())
    }

    /// Gives a task a new header. Its position, its failure group, its tags and its body do not
    /// change. Notes that the new header does not name are removed.
    pub fn rewrite(&mut self, id: u64, from: &Found, header: &Header) {
        debug_assert_eq!(from.record.header.tags(), header.tags());
        self.replace_record(id, from, header, None);
    }

    /// Gives a task a new body, and a new header that describes it. Its position, its failure group
    /// and its tags do not change.
    pub fn replace_body(&mut self, id: u64, from: &Found, header: &Header, body: &Body) {
        debug_assert_eq!(from.record.header.tags(), header.tags());
        self.replace_record(id, from, header, Some(body));
        self.write_body(id, &from.record.header, body);
    }

    /// Finds a task by its id. Returns `None` if there is no such task.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn find(&mut self, id: u64) -> Result<Option<Found>, R::Error> {
        let default = Position { shelf: Shelf::Ready, order: DEFAULT_ORDER, id, sub: "" };
        if let Some(found) = self.at(&default)? {
            return Ok(Some(found));
        }
        match self.rows.get(Table::Places, &keys::by_id(self.space, id))? {
            None => Ok(None),
            Some(pointer) => {
                let position = Position::from_pointer(id, &pointer)?;
                match self.at(&position)? {
                    Some(found) => Ok(Some(found)),
                    None => Err(RecordError::new(id, "its record (missing)").into()),
                }
            }
        }
    }

    /// Reads the task at a position. Returns `None` if there is none.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn at<S: Deref<Target = str>>(
        &mut self,
        position: &Position<S>,
    ) -> Result<Option<Found>, R::Error> {
        let key = keys::task(self.space, self.sub_queued, position);
        match self.rows.get(Table::Tasks, &key)? {
            None => Ok(None),
            Some(value) => {
                let record = Record::decode(position.id, value)?;
                check_position(&record, position.shelf, (position.order, position.id))?;
                if *record.header.sub != *position.sub {
                    return Err(misplaced(position.id).into());
                }
                Ok(Some(Found { shelf: position.shelf, record }))
            }
        }
    }

    /// Returns the body of a task.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn body(&mut self, id: u64, found: &Found) -> Result<Vec<u8>, R::Error> {
        if found.record.header.body_checksum.is_none() {
            return Ok(found.record.inline().to_vec());
        }
        Ok(self.body_row(id, &found.record.header)?.to_vec())
    }

    /// Returns the row that ends with the body of a task.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn row_with_body(&mut self, id: u64, found: &Found) -> Result<Value, R::Error> {
        match found.record.header.body_checksum {
            None => Ok(found.record.row().clone()),
            Some(_) => self.body_row(id, &found.record.header),
        }
    }

    /// Reads the row of a separate body.
    pub(crate) fn body_row(&mut self, id: u64, header: &Header) -> Result<Value, R::Error> {
        let row = self.rows.get(Table::Bodies, &keys::by_id(self.space, id))?;
        let row = row.ok_or_else(|| RecordError::new(id, "its body (missing)"))?;
        record::check_body(id, header, &row)?;
        Ok(row)
    }

    /// Returns up to `limit` tasks of a shelf in order, from the first one or after a position.
    /// Ready tasks of a sub-queued tube are in the order of their sub-queues. Skips and counts
    /// damaged records.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn page(
        &mut self,
        shelf: Shelf,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<FoundPage, R::Error> {
        self.page_of(shelf, None, after, limit, false)
    }

    /// As [`page`](Ledger::page), of the ready tasks of one sub-queue if there is `sub`.
    /// `newest_first` reverses the order.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn page_of(
        &mut self,
        shelf: Shelf,
        sub: Option<&str>,
        after: Option<&Position>,
        limit: usize,
        newest_first: bool,
    ) -> Result<FoundPage, R::Error> {
        let prefix = match sub {
            Some(sub) => keys::sub_prefix(self.space, sub),
            None => keys::shelf_prefix(self.space, shelf),
        };
        let (mut from, mut to) = (prefix.clone(), keys::end_of(&prefix));
        match after.map(|position| keys::task(self.space, self.sub_queued, position)) {
            None => {}
            Some(key) if newest_first => to = to.min(key),
            Some(key) => from = from.max(keys::after(&key)),
        }
        self.page_between(shelf, (from, to), limit, newest_first)
    }

    /// Returns up to `limit` tasks of a shelf in order, from the first one or after an order and an
    /// id. The shelf is not that of the ready tasks of sub-queues, unless `after` is `None`. Skips
    /// damaged records.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn undamaged(
        &mut self,
        shelf: Shelf,
        after: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<Vec<(u64, Found)>, R::Error> {
        let prefix = keys::shelf_prefix(self.space, shelf);
        let to = keys::end_of(&prefix);
        let from = match after {
            Some((order, id)) => keys::after(&keys::ranked(&prefix, order, id)),
            None => prefix,
        };
        Ok(self.page_between(shelf, (from, to), limit, false)?.tasks)
    }

    /// Writes the record of a task at the same position, and what follows from its header.
    fn replace_record(&mut self, id: u64, from: &Found, header: &Header, body: Option<&Body>) {
        let (shelf, old) = (from.shelf, &from.record.header);
        debug_assert_eq!(position_of(id, shelf, old), position_of(id, shelf, header));
        debug_assert_eq!(group_name(shelf, old), group_name(shelf, header));
        debug_assert!(
            !old.has_steps() || header.has_steps(),
            "steps are removed with the task only"
        );
        let value = match body {
            None => record::encode(id, header, from.record.inline()),
            Some(body) => record::encode(id, header, body),
        };
        self.rows.replace(Table::Tasks, self.key_of(id, shelf, header), value);
        self.edit_index(
            index_rows(self.space, id, shelf, old),
            index_rows(self.space, id, shelf, header),
        );
        self.remove_notes(id, old, Some(header));
    }

    /// Writes the record of a task at another position, and what follows from that.
    fn move_record(
        &mut self,
        id: u64,
        from: &Found,
        to: Shelf,
        header: &Header,
        value: Value,
    ) -> Result<(), R::Error> {
        let old = &from.record.header;
        let (before, after) = (group_name(from.shelf, old), group_name(to, header));
        let groups = self.read_group_change(id, before, after)?;
        let tags = self.read_tag_change(id, Some(old), Some(header))?;
        let parents = self.read_parents(id, old, Some(header))?;
        let steps = self.keys_of_removed_steps(id, old, Some(header))?;
        if self.has_heads(from.shelf) && self.has_heads(to) {
            // Reads what `add_to_heads` needs, before the first edit.
            self.head_cache.reserve(2);
            self.head_of(&header.sub)?;
        }
        if self.has_heads(from.shelf) {
            self.remove_from_heads(&old.sub, (old.order, id))?;
        }
        if self.has_heads(to) {
            self.add_to_heads(&header.sub, (header.order, id))?;
        }
        self.rows.remove(Table::Tasks, self.key_of(id, from.shelf, old));
        self.rows.insert(Table::Tasks, self.key_of(id, to, header), value);
        self.edit_index(
            index_rows(self.space, id, from.shelf, old),
            index_rows(self.space, id, to, header),
        );
        self.write_group_change(groups);
        self.write_tag_change(tags);
        self.remove_edges(id, &parents);
        self.remove_notes(id, old, Some(header));
        self.remove_steps(steps);
        self.count_removed(from.shelf);
        *self.counts.on(to) += 1;
        Ok(())
    }

    /// Writes the row of a new body, if it is separate. `old` is the header before.
    fn write_body(&mut self, id: u64, old: &Header, body: &Body) {
        let key = keys::by_id(self.space, id);
        match (old.body_checksum.is_some(), body) {
            (false, Body::Separate(row, _)) => self.rows.insert(Table::Bodies, key, row.clone()),
            (true, Body::Separate(row, _)) => self.rows.replace(Table::Bodies, key, row.clone()),
            (true, Body::Inline(_)) => self.rows.remove(Table::Bodies, key),
            (false, Body::Inline(_)) => {}
        }
    }

    /// Returns up to `limit` tasks with keys in a range, which are on a shelf.
    fn page_between(
        &mut self,
        shelf: Shelf,
        (mut from, mut to): (Vec<u8>, Vec<u8>),
        limit: usize,
        newest_first: bool,
    ) -> Result<FoundPage, R::Error> {
        let mut page = FoundPage { tasks: Vec::new(), damaged: Vec::new(), may_have_more: true };
        while page.may_have_more && page.tasks.len() < limit {
            let missing = limit - page.tasks.len();
            let rows = if newest_first {
                self.rows.scan_back(Table::Tasks, &from, &to, missing)?
            } else {
                self.rows.scan(Table::Tasks, &from, &to, missing)?
            };
            page.may_have_more = rows.len() == missing;
            match rows.last() {
                None => {}
                Some((last, _)) if newest_first => to.clone_from(last),
                Some((last, _)) => from = keys::after(last),
            }
            for row in rows {
                match found_in(shelf, row) {
                    Ok(found) => page.tasks.push(found),
                    Err(_) => page.damaged.push(page.tasks.len()),
                }
            }
        }
        Ok(page)
    }

    /// Writes the difference between the index rows of a task before and after a change.
    fn edit_index<'h>(
        &mut self,
        before: impl Iterator<Item = IndexRow<'h>> + Clone,
        after: impl Iterator<Item = IndexRow<'h>> + Clone,
    ) {
        for old in before.clone() {
            if !after.clone().any(|new| new.has_key_of(&old)) {
                self.rows.remove(old.table(), old.key());
            }
        }
        for new in after {
            match before.clone().find(|old| old.has_key_of(&new)) {
                Some(old) if old == new => continue,
                Some(_) => self.rows.replace(new.table(), new.key(), new.value()),
                None => self.rows.insert(new.table(), new.key(), new.value()),
            }
            if let Some(time) = new.due() {
                self.earliest_due = self.earliest_due.min(time);
            }
            if let Some(moment) = new.moment() {
                self.earliest_moment = self.earliest_moment.min(moment);
            }
        }
    }

    /// Whether the tasks of a shelf are in sub-queues, which have heads.
    fn has_heads(&self, shelf: Shelf) -> bool {
        self.sub_queued && shelf == Shelf::Ready
    }

    /// The key of a task's record.
    fn key_of(&self, id: u64, shelf: Shelf, header: &Header) -> Vec<u8> {
        keys::task(self.space, self.sub_queued, &position_of(id, shelf, header))
    }

    fn count_removed(&mut self, shelf: Shelf) {
        let count = self.counts.on(shelf);
        *count = count.saturating_sub(1);
    }
}

/// Checks that a record belongs at this order and id of a shelf. A record at another task's
/// position could be taken, but its own rows would not be found there when it is removed.
///
/// # Errors
/// The record belongs at another position.
pub fn check_position(
    record: &Record,
    shelf: Shelf,
    (order, id): (u64, u64),
) -> Result<(), RecordError> {
    if record.header.order_on(shelf) == order { Ok(()) } else { Err(misplaced(id)) }
}

pub(crate) fn found_in(shelf: Shelf, (key, value): Row) -> Result<(u64, Found), RecordError> {
    let rank = keys::order_and_id(&key)?;
    let record = Record::decode(rank.1, value)?;
    check_position(&record, shelf, rank)?;
    Ok((rank.1, Found { shelf, record }))
}

/// The failure group in whose count a task is.
fn group_name(shelf: Shelf, header: &Header) -> Option<&str> {
    group_of(shelf, header).map(|(group, _)| group)
}

fn misplaced(id: u64) -> RecordError {
    RecordError::new(id, "its record (of another position)")
}
