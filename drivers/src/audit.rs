//! Checks that the rows of all tubes agree with each other, and says in words where they do not.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ledger::{Counts, spot_of};
use crate::record::{Record, check_body};
use crate::{Reads, RecordError, Row, Shelf, Spot, Table, keys};

/// How many rows are in memory at a time.
const PAGE: usize = 1024;
/// Rows of the first page, and after a page of this many bytes: bodies may be large.
const FIRST_PAGE: usize = 4;
const PAGE_BYTES: usize = 4 << 20;
/// After so many findings the rest would tell nobody more.
const FINDINGS_MAX: usize = 100;

/// A tube, as the audit needs to know it.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the store")]
pub struct Books {
    /// Its name.
    pub name: Arc<str>,
    /// Where its rows are.
    pub space: u32,
    /// Whether its ready tasks are kept by sub-queue.
    pub sub_queued: bool,
    /// The counts that were stored with it.
    pub counts: Counts,
}

/// Compares every record, index row and count. `dying` are the spaces whose rows are still being
/// removed: theirs are not looked at. `progress` is told how many tasks have been checked. An empty
/// answer means that all agree.
///
/// # Errors
/// A row could not be read.
pub fn audit<R: Reads>(
    rows: &mut R,
    tubes: &[Books],
    dying: &[u32],
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, R::Error> {
    let mut audit = Audit {
        rows,
        tubes: tubes.iter().map(|books| (books.space, books)).collect(),
        dying,
        counted: HashMap::new(),
        checked: 0,
        progress,
        found: Vec::new(),
    };
    audit.each(Table::Tasks, Audit::task)?;
    audit.each(Table::Bodies, Audit::body)?;
    audit.each(Table::Places, Audit::place)?;
    audit.each(Table::Heads, Audit::head)?;
    audit.each(Table::Dues, Audit::due)?;
    audit.counts();
    Ok(audit.found)
}

struct Audit<'a, R> {
    rows: &'a mut R,
    tubes: HashMap<u32, &'a Books>,
    dying: &'a [u32],
    counted: HashMap<u32, Counts>,
    checked: u64,
    progress: &'a mut dyn FnMut(u64),
    found: Vec<String>,
}

type Check<R, E> = fn(&mut R, &[u8], crate::Value) -> Result<(), E>;

impl<R: Reads> Audit<'_, R> {
    fn each(&mut self, table: Table, check: Check<Self, R::Error>) -> Result<(), R::Error> {
        let mut from = Vec::new();
        let end = vec![u8::MAX; 600];
        let mut limit = FIRST_PAGE;
        loop {
            let page: Vec<Row> = self.rows.scan(table, &from, &end, limit)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = keys::after(last);
            let bytes: usize = page.iter().map(|(_, value)| value.len()).sum();
            limit = if bytes < PAGE_BYTES { (limit * 2).min(PAGE) } else { FIRST_PAGE };
            for (key, value) in page {
                if self.found.len() >= FINDINGS_MAX {
                    return Ok(());
                }
                check(self, &key, value)?;
            }
            (self.progress)(self.checked);
        }
    }

    fn say(&mut self, space: u32, what: impl std::fmt::Display) {
        let finding = match self.tubes.get(&space) {
            Some(books) => format!("tube {:?}: {what}", books.name),
            None => format!("rows of no tube (space {space}): {what}"),
        };
        self.found.push(finding);
    }

    /// The tube of a row; a row of no tube is a finding, one that is being removed is not.
    fn owner(&mut self, space: Option<u32>, table: Table) -> Option<Books> {
        let Some(space) = space else {
            self.found.push(format!("a key of {:?} is too short", table.name()));
            return None;
        };
        if self.dying.contains(&space) {
            return None;
        }
        let books = self.tubes.get(&space).map(|books| (*books).clone());
        if books.is_none() {
            self.say(space, format_args!("a row of {:?} is left over", table.name()));
        }
        books
    }

    fn task(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(books) = self.owner(keys::space_of(key), Table::Tasks) else { return Ok(()) };
        let (Ok((_, shelf)), Ok((_, id))) = (keys::space_and_shelf(key), keys::order_and_id(key))
        else {
            self.say(books.space, "a key of \"tasks\" cannot be read");
            return Ok(());
        };
        *self.counted.entry(books.space).or_default().on(shelf) += 1;
        self.checked += 1;
        let record = match Record::decode(id, value) {
            Ok(record) => record,
            Err(error) => {
                self.say(books.space, error);
                return Ok(());
            }
        };
        let spot = spot_of(id, shelf, &record.header);
        if keys::task(books.space, books.sub_queued, &spot) != key {
            self.say(
                books.space,
                format_args!("task {id} is stored at another place than its record says"),
            );
        }
        self.expect_pointer(&books, &spot)?;
        self.expect_due(&books, &spot, &record)?;
        self.expect_body(&books, id, &record)?;
        if books.sub_queued && shelf == Shelf::Ready {
            self.expect_head(&books, &spot)?;
        }
        Ok(())
    }

    fn expect_pointer(&mut self, books: &Books, spot: &Spot<&str>) -> Result<(), R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(books.space, spot.id))?;
        let wanted = (!spot.is_default()).then(|| spot.pointer());
        if pointer.as_deref() != wanted.as_deref() {
            self.say(books.space, format_args!("task {} is not where its pointer says", spot.id));
        }
        Ok(())
    }

    fn expect_due(
        &mut self,
        books: &Books,
        spot: &Spot<&str>,
        record: &Record,
    ) -> Result<(), R::Error> {
        if let Some(time) = record.header.due(spot.shelf) {
            let due = self.rows.get(Table::Dues, &keys::due(time, books.space, spot.id))?;
            if due.as_deref() != Some(&spot.pointer()[..]) {
                self.say(books.space, format_args!("task {} is missing among the dues", spot.id));
            }
        }
        Ok(())
    }

    fn expect_body(&mut self, books: &Books, id: u64, record: &Record) -> Result<(), R::Error> {
        let body = self.rows.get(Table::Bodies, &keys::by_id(books.space, id))?;
        let sound = match (&record.header.apart, body) {
            (None, None) => Ok(()),
            (Some(_), Some(body)) => check_body(id, &record.header, &body),
            (Some(_), None) => Err(RecordError::new(id, "its body (missing)")),
            (None, Some(_)) => Err(RecordError::new(id, "its body (stored twice)")),
        };
        if let Err(error) = sound {
            self.say(books.space, error);
        }
        Ok(())
    }

    /// Exactly the first ready task of a sub-queue is its head.
    fn expect_head(&mut self, books: &Books, spot: &Spot<&str>) -> Result<(), R::Error> {
        let prefix = keys::sub_prefix(books.space, spot.sub);
        let first = self.rows.scan(Table::Tasks, &prefix, &keys::end_of(&prefix), 1)?;
        let is_first =
            first.first().is_some_and(|(key, _)| *key == keys::task(books.space, true, spot));
        let head = self.rows.get(Table::Heads, &keys::head(books.space, spot.order, spot.id))?;
        match (is_first, head) {
            (true, None) => self.say(
                books.space,
                format_args!("task {} should be the head of its sub-queue", spot.id),
            ),
            (false, Some(_)) => self.say(
                books.space,
                format_args!("task {} should not be the head of its sub-queue", spot.id),
            ),
            (true, Some(sub)) if *sub != *spot.sub.as_bytes() => {
                self.say(
                    books.space,
                    format_args!("task {} is the head of another sub-queue", spot.id),
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&mut self, key: &[u8], _: crate::Value) -> Result<(), R::Error> {
        let Some(books) = self.owner(keys::space_of(key), Table::Bodies) else { return Ok(()) };
        let id = keys::id_of(key).unwrap_or_default();
        if self.find(&books, id)?.is_none() {
            self.say(books.space, format_args!("the body of task {id} has no task"));
        }
        Ok(())
    }

    fn place(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(books) = self.owner(keys::space_of(key), Table::Places) else { return Ok(()) };
        let id = keys::id_of(key).unwrap_or_default();
        match Spot::from_pointer(id, &value) {
            Ok(spot)
                if self
                    .rows
                    .get(Table::Tasks, &keys::task(books.space, books.sub_queued, &spot))?
                    .is_some() => {}
            Ok(_) => self
                .say(books.space, format_args!("a pointer leads to task {id}, which is not there")),
            Err(error) => self.say(books.space, error),
        }
        Ok(())
    }

    fn head(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(books) = self.owner(keys::space_of(key), Table::Heads) else { return Ok(()) };
        let (Ok((order, id)), Ok(sub)) = (keys::order_and_id(key), std::str::from_utf8(&value))
        else {
            self.say(books.space, "a head of a sub-queue cannot be read");
            return Ok(());
        };
        let spot = Spot { shelf: Shelf::Ready, order, id, sub };
        if self.rows.get(Table::Tasks, &keys::task(books.space, true, &spot))?.is_none() {
            self.say(
                books.space,
                format_args!("the head of a sub-queue is task {id}, which is not ready there"),
            );
        }
        Ok(())
    }

    fn due(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Ok((time, space, id)) = keys::split_due(key) else {
            self.found.push("a key of \"dues\" cannot be read".into());
            return Ok(());
        };
        let Some(books) = self.owner(Some(space), Table::Dues) else { return Ok(()) };
        let due = match Spot::from_pointer(id, &value) {
            Err(_) => None,
            Ok(spot) => {
                let row =
                    self.rows.get(Table::Tasks, &keys::task(space, books.sub_queued, &spot))?;
                row.and_then(|row| Record::decode(id, row).ok())
                    .and_then(|record| record.header.due(spot.shelf))
            }
        };
        if due != Some(time) {
            self.say(space, format_args!("a due of task {id} does not belong to it"));
        }
        Ok(())
    }

    fn find(&mut self, books: &Books, id: u64) -> Result<Option<crate::Value>, R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(books.space, id))?;
        let spot = match pointer.map(|pointer| Spot::from_pointer(id, &pointer)) {
            None => Spot { shelf: Shelf::Ready, order: 0, id, sub: "".into() },
            Some(Ok(spot)) => spot,
            Some(Err(_)) => return Ok(None),
        };
        self.rows.get(Table::Tasks, &keys::task(books.space, books.sub_queued, &spot))
    }

    fn counts(&mut self) {
        let tubes: Vec<Books> = self.tubes.values().map(|books| (*books).clone()).collect();
        for books in tubes {
            let counted = self.counted.get(&books.space).copied().unwrap_or_default();
            if counted != books.counts {
                self.say(
                    books.space,
                    format_args!("the counts say {:?}, the tasks {counted:?}", books.counts),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RecordError, Value};

    /// Bodies of no tube, all of this size, so many of them.
    struct Bodies {
        count: u64,
        size: usize,
        most_at_once: usize,
    }

    impl Reads for Bodies {
        type Error = RecordError;

        fn get(&mut self, _table: Table, _key: &[u8]) -> Result<Option<Value>, RecordError> {
            Ok(None)
        }

        fn scan(
            &mut self,
            table: Table,
            from: &[u8],
            _to: &[u8],
            limit: usize,
        ) -> Result<Vec<Row>, RecordError> {
            if table != Table::Bodies {
                return Ok(Vec::new());
            }
            let body: Value = vec![0; self.size].into();
            let keys = (0..self.count).map(|id| keys::by_id(1, id));
            let rows: Vec<Row> = keys
                .filter(|key| key.as_slice() >= from)
                .take(limit)
                .map(|key| (key, body.clone()))
                .collect();
            self.most_at_once = self.most_at_once.max(rows.len() * self.size);
            Ok(rows)
        }
    }

    /// The audit read a thousand rows at a time, however large: large bodies took memory by the
    /// gigabyte.
    #[test]
    fn few_large_bodies_are_in_memory_at_a_time() {
        for (count, size) in [(100, 1 << 20), (5000, 4 << 10)] {
            let mut bodies = Bodies { count, size, most_at_once: 0 };
            audit(&mut bodies, &[], &[1], &mut |_| {}).unwrap();
            assert!(bodies.most_at_once <= 8 << 20, "{} bytes", bodies.most_at_once);
        }
    }
}
