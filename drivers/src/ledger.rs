//! The ledger of a tube: turns each change of a stored task into edits of rows.
//!
//! Invariants: the rows of a task agree: record, body, pointer, head of its sub-queue, due, and
//! counts. A change reads all it needs before its first edit, so one that fails has edited nothing.

use std::ops::Deref;

use crate::head_cache::HeadCache;
use crate::keys::{self, Position, Shelf};
use crate::record::{self, Body, Header, Record};
use crate::record_error::RecordError;
use crate::tables::{Row, Rows, Table, Value};

/// The number of tasks of a tube on each shelf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Counts {
    /// Tasks that are ready or taken.
    pub ready: u64,
    /// Tasks that are delayed.
    pub delayed: u64,
    /// Tasks that are buried.
    pub buried: u64,
}

impl Counts {
    /// Returns the number of all tasks of the tube.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ready + self.delayed + self.buried
    }

    /// Returns the count of one shelf.
    pub fn on(&mut self, shelf: Shelf) -> &mut u64 {
        match shelf {
            Shelf::Ready => &mut self.ready,
            Shelf::Delayed => &mut self.delayed,
            Shelf::Buried => &mut self.buried,
        }
    }
}

/// A stored task.
#[derive(Clone, Debug)]
pub struct Found {
    /// The shelf of the task.
    pub shelf: Shelf,
    /// The record of the task.
    pub record: Record,
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
        self.insert_rows(id, shelf, header, value.clone())?;
        let Body::Separate(row, _) = body else { return Ok(value) };
        self.rows.insert(Table::Bodies, keys::by_id(self.space, id), row.clone());
        Ok(row.clone())
    }

    /// Removes a task with all its rows.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn remove(&mut self, id: u64, shelf: Shelf, header: &Header) -> Result<(), R::Error> {
        self.remove_rows(id, shelf, header)?;
        if header.body_checksum.is_some() {
            self.rows.remove(Table::Bodies, keys::by_id(self.space, id));
        }
        Ok(())
    }

    /// Moves a task to another shelf and gives it a new header. The body does not change.
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
        if self.sub_queued && to == Shelf::Ready {
            // Reads what `insert_rows` needs, before the first edit.
            self.head_of(&header.sub)?;
        }
        self.remove_rows(id, from.shelf, &from.record.header)?;
        self.insert_rows(id, to, header, value)
    }

    /// Gives a task a new header. Its position and its body do not change.
    pub fn rewrite(&mut self, id: u64, from: &Found, header: &Header) {
        let value = record::encode(id, header, from.record.inline());
        let position = position_of(id, from.shelf, header);
        let (old, new) = (from.record.header.due(from.shelf), header.due(from.shelf));
        if old != new {
            self.remove_due(id, old);
            self.insert_due(&position, new);
        }
        self.rows.replace(Table::Tasks, keys::task(self.space, self.sub_queued, &position), value);
    }

    /// Finds a task by its id. Returns `None` if there is no such task.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn find(&mut self, id: u64) -> Result<Option<Found>, R::Error> {
        let default = Position { shelf: Shelf::Ready, order: 0, id, sub: "" };
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
                check_position(&record, (position.order, position.id))?;
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
        let Some(body) = self.rows.get(Table::Bodies, &keys::by_id(self.space, id))? else {
            return Err(RecordError::new(id, "its body (missing)").into());
        };
        record::check_body(id, &found.record.header, &body)?;
        Ok(body.to_vec())
    }

    /// Returns up to `limit` tasks of a shelf in order, from the first one or after a position.
    /// Ready tasks of a sub-queued tube are in the order of their sub-queues.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn page(
        &mut self,
        shelf: Shelf,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Vec<(u64, Found)>, R::Error> {
        let prefix = keys::shelf_prefix(self.space, shelf);
        let from = match after {
            None => prefix.clone(),
            Some(position) => keys::after(&keys::task(self.space, self.sub_queued, position)),
        };
        let rows = self.rows.scan(Table::Tasks, &from, &keys::end_of(&prefix), limit)?;
        rows.into_iter().map(|row| Ok(found_in(shelf, row)?)).collect()
    }

    /// Returns up to `limit` tasks of a shelf in order. Skips damaged records.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn undamaged(&mut self, shelf: Shelf, limit: usize) -> Result<Vec<(u64, Found)>, R::Error> {
        let prefix = keys::shelf_prefix(self.space, shelf);
        let (mut from, mut found) = (prefix.clone(), Vec::new());
        while found.len() < limit {
            let missing = limit - found.len();
            let rows = self.rows.scan(Table::Tasks, &from, &keys::end_of(&prefix), missing)?;
            let may_have_more = rows.len() == missing;
            if let Some((last, _)) = rows.last() {
                from = keys::after(last);
            }
            found.extend(rows.into_iter().filter_map(|row| found_in(shelf, row).ok()));
            if !may_have_more {
                break;
            }
        }
        Ok(found)
    }

    fn insert_rows(
        &mut self,
        id: u64,
        shelf: Shelf,
        header: &Header,
        value: Value,
    ) -> Result<(), R::Error> {
        let position = position_of(id, shelf, header);
        if self.sub_queued && shelf == Shelf::Ready {
            self.add_to_heads(&header.sub, (header.order, id))?;
        }
        self.rows.insert(Table::Tasks, keys::task(self.space, self.sub_queued, &position), value);
        if !position.is_default() {
            self.rows.insert(Table::Places, keys::by_id(self.space, id), position.pointer().into());
        }
        self.insert_due(&position, header.due(shelf));
        *self.counts.on(shelf) += 1;
        Ok(())
    }

    fn remove_rows(&mut self, id: u64, shelf: Shelf, header: &Header) -> Result<(), R::Error> {
        let position = position_of(id, shelf, header);
        if self.sub_queued && shelf == Shelf::Ready {
            self.remove_from_heads(&header.sub, (header.order, id))?;
        }
        self.rows.remove(Table::Tasks, keys::task(self.space, self.sub_queued, &position));
        if !position.is_default() {
            self.rows.remove(Table::Places, keys::by_id(self.space, id));
        }
        self.remove_due(id, header.due(shelf));
        let count = self.counts.on(shelf);
        *count = count.saturating_sub(1);
        Ok(())
    }

    fn insert_due(&mut self, position: &Position<&str>, due: Option<u64>) {
        if let Some(time) = due {
            self.earliest_due = self.earliest_due.min(time);
            let key = keys::due(time, self.space, position.id);
            self.rows.insert(Table::Dues, key, position.pointer().into());
        }
    }

    fn remove_due(&mut self, id: u64, due: Option<u64>) {
        if let Some(time) = due {
            self.rows.remove(Table::Dues, keys::due(time, self.space, id));
        }
    }
}

/// Checks that a record belongs at this order and id. A record at another task's position could be
/// taken, but its own rows would not be found there when it is removed.
///
/// # Errors
/// The record belongs at another position.
pub fn check_position(record: &Record, (order, id): (u64, u64)) -> Result<(), RecordError> {
    if record.header.order == order { Ok(()) } else { Err(misplaced(id)) }
}

fn found_in(shelf: Shelf, (key, value): Row) -> Result<(u64, Found), RecordError> {
    let rank = keys::order_and_id(&key)?;
    let record = Record::decode(rank.1, value)?;
    check_position(&record, rank)?;
    Ok((rank.1, Found { shelf, record }))
}

fn misplaced(id: u64) -> RecordError {
    RecordError::new(id, "its record (of another position)")
}

/// Returns the position of a task with this shelf and header.
#[must_use]
pub fn position_of(id: u64, shelf: Shelf, header: &Header) -> Position<&str> {
    Position { shelf, order: header.order, id, sub: &header.sub }
}
