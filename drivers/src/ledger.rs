//! The rows of one tube, kept in step: a task's record, its body, the pointer by id, the head of
//! its sub-queue, its due and the counts. Every change of a stored task goes through here, and
//! reads whatever it needs before its first edit: one that fails has changed nothing.

use std::ops::Deref;
use std::sync::Arc;

use crate::head_cache::{HeadCache, Rank, SubQueueHeads};
use crate::record::{self, Body, Header, Record};
use crate::{NEVER, Position, RecordError, Row, Rows, Shelf, Table, Value, keys};

/// How many tasks a tube has on each shelf. Taken ones are on `ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Counts {
    /// Ready or taken.
    pub ready: u64,
    /// Delayed.
    pub delayed: u64,
    /// Buried.
    pub buried: u64,
}

impl Counts {
    /// All tasks of the tube.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ready + self.delayed + self.buried
    }

    /// The count of one shelf.
    pub fn on(&mut self, shelf: Shelf) -> &mut u64 {
        match shelf {
            Shelf::Ready => &mut self.ready,
            Shelf::Delayed => &mut self.delayed,
            Shelf::Buried => &mut self.buried,
        }
    }
}

/// A stored task, found by its id.
#[derive(Clone, Debug)]
pub struct Found {
    /// Which shelf it is on.
    pub shelf: Shelf,
    /// Its record.
    pub record: Record,
}

/// The books of one tube, open for one call.
#[expect(missing_debug_implementations, reason = "lives within a call")]
pub struct Ledger<'a, R> {
    /// The rows as this call sees them.
    pub rows: &'a mut R,
    /// Where the tube's rows are kept.
    pub space: u32,
    /// Whether its ready tasks are kept by sub-queue.
    pub sub_queued: bool,
    /// Its counts.
    pub counts: &'a mut Counts,
    /// What is known of its sub-queues.
    pub head_cache: &'a mut HeadCache,
    /// The earliest due that this call wrote.
    pub earliest_due: u64,
}

impl<R: Rows> Ledger<'_, R> {
    /// Stores a new task; returns the row at whose end the body is. A body that is kept apart is
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
        let Body::Apart(row, _) = body else { return Ok(value) };
        self.rows.insert(Table::Bodies, keys::by_id(self.space, id), row.clone());
        Ok(row.clone())
    }

    /// Removes a task and all its rows.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn remove(&mut self, id: u64, shelf: Shelf, header: &Header) -> Result<(), R::Error> {
        self.remove_rows(id, shelf, header)?;
        if header.apart.is_some() {
            self.rows.remove(Table::Bodies, keys::by_id(self.space, id));
        }
        Ok(())
    }

    /// Moves a task to another shelf, with a new header. The body stays as it is.
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
            // What raising the head will ask for, before anything is edited.
            self.head_of(&header.sub)?;
        }
        self.remove_rows(id, from.shelf, &from.record.header)?;
        self.insert_rows(id, to, header, value)
    }

    /// Writes a new header for a task that stays where it is.
    pub fn rewrite(&mut self, id: u64, from: &Found, header: &Header) {
        let value = record::encode(id, header, from.record.inline());
        let position = position_of(id, from.shelf, header);
        let (old, new) = (from.record.header.due(from.shelf), header.due(from.shelf));
        if old != new {
            self.forget_due(id, old);
            self.note_due(&position, new);
        }
        self.rows.replace(Table::Tasks, keys::task(self.space, self.sub_queued, &position), value);
    }

    /// Finds a task by its id.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn find(&mut self, id: u64) -> Result<Option<Found>, R::Error> {
        let home = Position { shelf: Shelf::Ready, order: 0, id, sub: "" };
        if let Some(found) = self.at(&home)? {
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

    /// Reads the task at a known spot.
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

    /// The body of a task that was found.
    ///
    /// # Errors
    /// A row could not be read or is damaged.
    pub fn body(&mut self, id: u64, found: &Found) -> Result<Vec<u8>, R::Error> {
        if found.record.header.apart.is_none() {
            return Ok(found.record.inline().to_vec());
        }
        let Some(body) = self.rows.get(Table::Bodies, &keys::by_id(self.space, id))? else {
            return Err(RecordError::new(id, "its body (missing)").into());
        };
        record::check_body(id, &found.record.header, &body)?;
        Ok(body.to_vec())
    }

    /// Up to `limit` tasks of a shelf in order, behind a spot. Ready tasks of a sub-queued tube
    /// come sub-queue by sub-queue.
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

    /// Up to `limit` tasks of a shelf in order, but for those whose records are damaged.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn sound(&mut self, shelf: Shelf, limit: usize) -> Result<Vec<(u64, Found)>, R::Error> {
        let prefix = keys::shelf_prefix(self.space, shelf);
        let (mut from, mut found) = (prefix.clone(), Vec::new());
        while found.len() < limit {
            let want = limit - found.len();
            let rows = self.rows.scan(Table::Tasks, &from, &keys::end_of(&prefix), want)?;
            let full = rows.len() == want;
            if let Some((last, _)) = rows.last() {
                from = keys::after(last);
            }
            found.extend(rows.into_iter().filter_map(|row| found_in(shelf, row).ok()));
            if !full {
                break;
            }
        }
        Ok(found)
    }

    /// The best ready task of a sub-queue, claims ignored, as (order, id).
    ///
    /// # Errors
    /// A row could not be read.
    pub fn head_of(&mut self, sub: &Arc<str>) -> Result<Option<Rank>, R::Error> {
        if let Some(heads) = self.head_cache.of(sub) {
            return Ok(heads.head());
        }
        let heads = self.read_heads(sub, None, 1)?;
        let head = heads.head();
        self.head_cache.insert(sub, heads);
        Ok(head)
    }

    /// The best ready task of a sub-queue behind another one, claims ignored.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn ready_after(&mut self, sub: &Arc<str>, after: Rank) -> Result<Option<Rank>, R::Error> {
        match self.head_cache.of(sub).and_then(|heads| heads.after(after)) {
            Some(next) => Ok(next),
            None => Ok(self.read_heads(sub, Some(after), 1)?.head()),
        }
    }

    /// Reads the first ready tasks of a sub-queue, or those behind one.
    fn read_heads(
        &mut self,
        sub: &str,
        after: Option<Rank>,
        limit: usize,
    ) -> Result<SubQueueHeads, R::Error> {
        let prefix = keys::sub_prefix(self.space, sub);
        let from = match after {
            None => prefix.clone(),
            Some((order, id)) => keys::after(&keys::ranked(&prefix, order, id)),
        };
        let rows = self.rows.scan(Table::Tasks, &from, &keys::end_of(&prefix), limit)?;
        let ranks =
            rows.iter().map(|(key, _)| keys::order_and_id(key)).collect::<Result<_, _>>()?;
        Ok(SubQueueHeads::new(ranks, rows.len() < limit))
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
            self.raise_head(&header.sub, (header.order, id))?;
        }
        self.rows.insert(Table::Tasks, keys::task(self.space, self.sub_queued, &position), value);
        if !position.is_default() {
            self.rows.insert(Table::Places, keys::by_id(self.space, id), position.pointer().into());
        }
        self.note_due(&position, header.due(shelf));
        *self.counts.on(shelf) += 1;
        Ok(())
    }

    fn remove_rows(&mut self, id: u64, shelf: Shelf, header: &Header) -> Result<(), R::Error> {
        let position = position_of(id, shelf, header);
        if self.sub_queued && shelf == Shelf::Ready {
            self.lower_head(&header.sub, (header.order, id))?;
        }
        self.rows.remove(Table::Tasks, keys::task(self.space, self.sub_queued, &position));
        if !position.is_default() {
            self.rows.remove(Table::Places, keys::by_id(self.space, id));
        }
        self.forget_due(id, header.due(shelf));
        let count = self.counts.on(shelf);
        *count = count.saturating_sub(1);
        Ok(())
    }

    /// A ready task comes to its sub-queue: it is the head if it is better than the one there.
    fn raise_head(&mut self, sub: &Arc<str>, new: Rank) -> Result<(), R::Error> {
        let Some(heads) = self.head_cache.of_mut(sub) else {
            self.head_of(sub)?;
            return self.raise_head(sub, new);
        };
        let old = heads.head();
        heads.add(new);
        let head = heads.head();
        self.move_head(sub, old, head);
        Ok(())
    }

    /// A ready task leaves its sub-queue: if it was the head, the next one is.
    fn lower_head(&mut self, sub: &Arc<str>, gone: Rank) -> Result<(), R::Error> {
        let Some(heads) = self.head_cache.of_mut(sub) else {
            self.head_of(sub)?;
            return self.lower_head(sub, gone);
        };
        let old = heads.head();
        let head = if heads.remove(gone) {
            heads.head()
        } else {
            let heads = self.read_heads(sub, Some(gone), SubQueueHeads::MAX)?;
            let head = heads.head();
            self.head_cache.insert(sub, heads);
            head
        };
        self.move_head(sub, old, head);
        Ok(())
    }

    fn move_head(&mut self, sub: &str, from: Option<Rank>, to: Option<Rank>) {
        if from == to {
            return;
        }
        if let Some((order, id)) = from {
            self.rows.remove(Table::Heads, keys::head(self.space, order, id));
        }
        if let Some((order, id)) = to {
            let key = keys::head(self.space, order, id);
            self.rows.insert(Table::Heads, key, sub.as_bytes().into());
        }
    }

    fn note_due(&mut self, position: &Position<&str>, due: Option<u64>) {
        if let Some(time) = due {
            self.earliest_due = self.earliest_due.min(time);
            let key = keys::due(time, self.space, position.id);
            self.rows.insert(Table::Dues, key, position.pointer().into());
        }
    }

    fn forget_due(&mut self, id: u64, due: Option<u64>) {
        if let Some(time) = due {
            self.rows.remove(Table::Dues, keys::due(time, self.space, id));
        }
    }
}

/// Checks that a record is the one that belongs at this rank: a task at another place would be
/// handed out, but never be found there to be removed.
///
/// # Errors
/// It belongs elsewhere.
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
    RecordError::new(id, "its record (at another's place)")
}

/// Where a task's row is, given its shelf and header.
#[must_use]
pub fn position_of(id: u64, shelf: Shelf, header: &Header) -> Position<&str> {
    Position { shelf, order: header.order, id, sub: &header.sub }
}

/// Removes up to `limit` tasks of a space that no tube uses any more; true when none is left.
///
/// A damaged task goes as well; its due, which nobody can name any more, stays.
///
/// # Errors
/// A row could not be read.
pub fn purge_slice<R: Rows>(rows: &mut R, space: u32, limit: usize) -> Result<bool, R::Error> {
    let prefix = keys::space_prefix(space);
    let end = keys::end_of(&prefix);
    let mut left = limit;
    for table in [Table::Tasks, Table::Bodies, Table::Places, Table::Heads] {
        if left == 0 {
            return Ok(false);
        }
        let found = rows.scan(table, &prefix, &end, left)?;
        left -= found.len();
        for (key, value) in found {
            if table == Table::Tasks {
                purge_due(rows, space, &key, value);
            }
            rows.remove(table, key);
        }
    }
    Ok(left > 0)
}

fn purge_due<R: Rows>(rows: &mut R, space: u32, key: &[u8], value: Value) {
    let named = keys::space_and_shelf(key).and_then(|(_, shelf)| {
        let (_, id) = keys::order_and_id(key)?;
        Ok((shelf, id, Record::decode(id, value)?))
    });
    if let Ok((shelf, id, record)) = named
        && let Some(time) = record.header.due(shelf)
    {
        debug_assert_ne!(time, NEVER, "a due that never comes has no row");
        rows.remove(Table::Dues, keys::due(time, space, id));
    }
}
