//! Checks that the rows of all tubes agree with each other, and says in words where they do not.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ledger::{Counts, position_of};
use crate::record::{Record, check_body};
use crate::{Position, Reads, RecordError, Row, Shelf, Table, keys};

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
pub struct TubeTotals {
    /// Its name.
    pub name: Arc<str>,
    /// Where its rows are.
    pub space: u32,
    /// Whether its ready tasks are kept by sub-queue.
    pub sub_queued: bool,
    /// The counts that were stored with it.
    pub counts: Counts,
}

/// Compares every record, index row and count. `purges` are the spaces whose rows are still being
/// removed: theirs are not looked at. `progress` is told how many tasks have been checked. An empty
/// answer means that all agree.
///
/// # Errors
/// A row could not be read.
pub fn verify_rows<R: Reads>(
    rows: &mut R,
    tubes: &[TubeTotals],
    purges: &[u32],
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<String>, R::Error> {
    let mut verify_rows = RowVerifier {
        rows,
        tubes: tubes.iter().map(|ledger| (ledger.space, ledger)).collect(),
        purges,
        counted: HashMap::new(),
        checked: 0,
        progress,
        found: Vec::new(),
    };
    verify_rows.each(Table::Tasks, RowVerifier::task)?;
    verify_rows.each(Table::Bodies, RowVerifier::body)?;
    verify_rows.each(Table::Places, RowVerifier::place)?;
    verify_rows.each(Table::Heads, RowVerifier::head)?;
    verify_rows.each(Table::Dues, RowVerifier::due)?;
    verify_rows.counts();
    Ok(verify_rows.found)
}

struct RowVerifier<'a, R> {
    rows: &'a mut R,
    tubes: HashMap<u32, &'a TubeTotals>,
    purges: &'a [u32],
    counted: HashMap<u32, Counts>,
    checked: u64,
    progress: &'a mut dyn FnMut(u64),
    found: Vec<String>,
}

type Check<R, E> = fn(&mut R, &[u8], crate::Value) -> Result<(), E>;

impl<R: Reads> RowVerifier<'_, R> {
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
            Some(ledger) => format!("tube {:?}: {what}", ledger.name),
            None => format!("rows of no tube (space {space}): {what}"),
        };
        self.found.push(finding);
    }

    /// The tube of a row; a row of no tube is a finding, one that is being removed is not.
    fn owner(&mut self, space: Option<u32>, table: Table) -> Option<TubeTotals> {
        let Some(space) = space else {
            self.found.push(format!("a key of {:?} is too short", table.name()));
            return None;
        };
        if self.purges.contains(&space) {
            return None;
        }
        let ledger = self.tubes.get(&space).map(|ledger| (*ledger).clone());
        if ledger.is_none() {
            self.say(space, format_args!("a row of {:?} is left over", table.name()));
        }
        ledger
    }

    fn task(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(ledger) = self.owner(keys::space_of(key), Table::Tasks) else { return Ok(()) };
        let (Ok((_, shelf)), Ok((_, id))) = (keys::space_and_shelf(key), keys::order_and_id(key))
        else {
            self.say(ledger.space, "a key of \"tasks\" cannot be read");
            return Ok(());
        };
        *self.counted.entry(ledger.space).or_default().on(shelf) += 1;
        self.checked += 1;
        let record = match Record::decode(id, value) {
            Ok(record) => record,
            Err(error) => {
                self.say(ledger.space, error);
                return Ok(());
            }
        };
        let position = position_of(id, shelf, &record.header);
        if keys::task(ledger.space, ledger.sub_queued, &position) != key {
            self.say(
                ledger.space,
                format_args!("task {id} is stored at another place than its record says"),
            );
        }
        self.expect_pointer(&ledger, &position)?;
        self.expect_due(&ledger, &position, &record)?;
        self.expect_body(&ledger, id, &record)?;
        if ledger.sub_queued && shelf == Shelf::Ready {
            self.expect_head(&ledger, &position)?;
        }
        Ok(())
    }

    fn expect_pointer(
        &mut self,
        ledger: &TubeTotals,
        position: &Position<&str>,
    ) -> Result<(), R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(ledger.space, position.id))?;
        let has_waiters = (!position.is_default()).then(|| position.pointer());
        if pointer.as_deref() != has_waiters.as_deref() {
            self.say(
                ledger.space,
                format_args!("task {} is not where its pointer says", position.id),
            );
        }
        Ok(())
    }

    fn expect_due(
        &mut self,
        ledger: &TubeTotals,
        position: &Position<&str>,
        record: &Record,
    ) -> Result<(), R::Error> {
        if let Some(time) = record.header.due(position.shelf) {
            let due = self.rows.get(Table::Dues, &keys::due(time, ledger.space, position.id))?;
            if due.as_deref() != Some(&position.pointer()[..]) {
                self.say(
                    ledger.space,
                    format_args!("task {} is missing among the dues", position.id),
                );
            }
        }
        Ok(())
    }

    fn expect_body(
        &mut self,
        ledger: &TubeTotals,
        id: u64,
        record: &Record,
    ) -> Result<(), R::Error> {
        let body = self.rows.get(Table::Bodies, &keys::by_id(ledger.space, id))?;
        let sound = match (&record.header.apart, body) {
            (None, None) => Ok(()),
            (Some(_), Some(body)) => check_body(id, &record.header, &body),
            (Some(_), None) => Err(RecordError::new(id, "its body (missing)")),
            (None, Some(_)) => Err(RecordError::new(id, "its body (stored twice)")),
        };
        if let Err(error) = sound {
            self.say(ledger.space, error);
        }
        Ok(())
    }

    /// Exactly the first ready task of a sub-queue is its head.
    fn expect_head(
        &mut self,
        ledger: &TubeTotals,
        position: &Position<&str>,
    ) -> Result<(), R::Error> {
        let prefix = keys::sub_prefix(ledger.space, position.sub);
        let first = self.rows.scan(Table::Tasks, &prefix, &keys::end_of(&prefix), 1)?;
        let is_first =
            first.first().is_some_and(|(key, _)| *key == keys::task(ledger.space, true, position));
        let head =
            self.rows.get(Table::Heads, &keys::head(ledger.space, position.order, position.id))?;
        match (is_first, head) {
            (true, None) => self.say(
                ledger.space,
                format_args!("task {} should be the head of its sub-queue", position.id),
            ),
            (false, Some(_)) => self.say(
                ledger.space,
                format_args!("task {} should not be the head of its sub-queue", position.id),
            ),
            (true, Some(sub)) if *sub != *position.sub.as_bytes() => {
                self.say(
                    ledger.space,
                    format_args!("task {} is the head of another sub-queue", position.id),
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&mut self, key: &[u8], _: crate::Value) -> Result<(), R::Error> {
        let Some(ledger) = self.owner(keys::space_of(key), Table::Bodies) else { return Ok(()) };
        let id = keys::id_of(key).unwrap_or_default();
        if self.find(&ledger, id)?.is_none() {
            self.say(ledger.space, format_args!("the body of task {id} has no task"));
        }
        Ok(())
    }

    fn place(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(ledger) = self.owner(keys::space_of(key), Table::Places) else { return Ok(()) };
        let id = keys::id_of(key).unwrap_or_default();
        match Position::from_pointer(id, &value) {
            Ok(position)
                if self
                    .rows
                    .get(Table::Tasks, &keys::task(ledger.space, ledger.sub_queued, &position))?
                    .is_some() => {}
            Ok(_) => self.say(
                ledger.space,
                format_args!("a pointer leads to task {id}, which is not there"),
            ),
            Err(error) => self.say(ledger.space, error),
        }
        Ok(())
    }

    fn head(&mut self, key: &[u8], value: crate::Value) -> Result<(), R::Error> {
        let Some(ledger) = self.owner(keys::space_of(key), Table::Heads) else { return Ok(()) };
        let (Ok((order, id)), Ok(sub)) = (keys::order_and_id(key), std::str::from_utf8(&value))
        else {
            self.say(ledger.space, "a head of a sub-queue cannot be read");
            return Ok(());
        };
        let position = Position { shelf: Shelf::Ready, order, id, sub };
        if self.rows.get(Table::Tasks, &keys::task(ledger.space, true, &position))?.is_none() {
            self.say(
                ledger.space,
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
        let Some(ledger) = self.owner(Some(space), Table::Dues) else { return Ok(()) };
        let due = match Position::from_pointer(id, &value) {
            Err(_) => None,
            Ok(position) => {
                let row = self
                    .rows
                    .get(Table::Tasks, &keys::task(space, ledger.sub_queued, &position))?;
                row.and_then(|row| Record::decode(id, row).ok())
                    .and_then(|record| record.header.due(position.shelf))
            }
        };
        if due != Some(time) {
            self.say(space, format_args!("a due of task {id} does not belong to it"));
        }
        Ok(())
    }

    fn find(&mut self, ledger: &TubeTotals, id: u64) -> Result<Option<crate::Value>, R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(ledger.space, id))?;
        let position = match pointer.map(|pointer| Position::from_pointer(id, &pointer)) {
            None => Position { shelf: Shelf::Ready, order: 0, id, sub: "".into() },
            Some(Ok(position)) => position,
            Some(Err(_)) => return Ok(None),
        };
        self.rows.get(Table::Tasks, &keys::task(ledger.space, ledger.sub_queued, &position))
    }

    fn counts(&mut self) {
        let tubes: Vec<TubeTotals> = self.tubes.values().map(|ledger| (*ledger).clone()).collect();
        for ledger in tubes {
            let counted = self.counted.get(&ledger.space).copied().unwrap_or_default();
            if counted != ledger.counts {
                self.say(
                    ledger.space,
                    format_args!("the counts say {:?}, the tasks {counted:?}", ledger.counts),
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
            verify_rows(&mut bodies, &[], &[1], &mut |_| {}).unwrap();
            assert!(bodies.most_at_once <= 8 << 20, "{} bytes", bodies.most_at_once);
        }
    }
}
