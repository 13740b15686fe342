//! Verification: checks that the rows of all tubes agree, and describes each disagreement.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::counts::Counts;
use crate::index_rows::position_of;
use crate::keys::{self, Position, Shelf};
use crate::limits::DEFAULT_ORDER;
use crate::record::{Record, check_body};
use crate::record_error::RecordError;
use crate::tables::{FIRST_PAGE, Reads, Row, Table, Value, next_limit};

/// The check of a table stops after this many findings.
pub(crate) const MAX_FINDINGS: usize = 100;

/// A tube with its counts, as the verification needs it.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the store")]
pub struct TubeTotals {
    /// The name of the tube.
    pub name: Arc<str>,
    /// The space of its rows.
    pub space: u32,
    /// Whether the tube has sub-queues.
    pub sub_queued: bool,
    /// The counts that the store has for it.
    pub counts: Counts,
}

/// Checks every record, index row and count. Returns a description of each disagreement; an empty
/// list means that all rows agree.
///
/// The rows of the spaces in `purges` are being removed and are skipped. `progress` is called with
/// the number of tasks checked so far, and may end the check: what was found up to there is the answer.
///
/// # Errors
/// A row could not be read.
pub fn verify_rows<R: Reads>(
    rows: &mut R,
    tubes: &[TubeTotals],
    purges: &[u32],
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<String>, R::Error> {
    let mut verifier = RowVerifier {
        rows,
        tubes: tubes.iter().map(|tube| (tube.space, tube)).collect(),
        purges,
        counted: HashMap::new(),
        group: None,
        tag: None,
        checked: 0,
        progress,
        is_stopped: false,
        found: Vec::new(),
    };
    verifier.each(Table::Tasks, RowVerifier::task)?;
    verifier.each(Table::Bodies, RowVerifier::body)?;
    verifier.each(Table::Places, RowVerifier::pointer)?;
    verifier.each(Table::Heads, RowVerifier::head)?;
    verifier.each(Table::Dues, RowVerifier::due)?;
    verifier.each(Table::Index, RowVerifier::index)?;
    if !verifier.is_stopped {
        verifier.end_of_group()?;
        verifier.end_of_tag()?;
    }
    verifier.each(Table::Notes, RowVerifier::note)?;
    verifier.each(Table::Days, RowVerifier::day)?;
    if !verifier.is_stopped {
        verifier.counts();
    }
    Ok(verifier.found)
}

pub(crate) struct RowVerifier<'a, R> {
    pub(crate) rows: &'a mut R,
    tubes: HashMap<u32, &'a TubeTotals>,
    pub(crate) purges: &'a [u32],
    pub(crate) counted: HashMap<u32, Counts>,
    /// The failure group whose rows are being read.
    pub(crate) group: Option<GroupRows>,
    /// The tag whose rows are being read, and their number so far.
    pub(crate) tag: Option<(String, u64)>,
    checked: u64,
    progress: &'a mut dyn FnMut(u64) -> ControlFlow<()>,
    is_stopped: bool,
    pub(crate) found: Vec<String>,
}

/// The rows of one failure group, which follow each other in the table.
pub(crate) struct GroupRows {
    pub(crate) tube: TubeTotals,
    pub(crate) name: String,
    pub(crate) count: u64,
}

type Check<R, E> = fn(&mut R, &[u8], Value) -> Result<(), E>;

impl<R: Reads> RowVerifier<'_, R> {
    fn each(&mut self, table: Table, check: Check<Self, R::Error>) -> Result<(), R::Error> {
        let mut from = Vec::new();
        let end = vec![u8::MAX; 600];
        let mut limit = FIRST_PAGE;
        while !self.is_stopped {
            let page: Vec<Row> = self.rows.scan(table, &from, &end, limit)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = keys::after(last);
            limit = next_limit(&page, limit);
            for (key, value) in page {
                if self.found.len() >= MAX_FINDINGS {
                    return Ok(());
                }
                check(self, &key, value)?;
            }
            self.is_stopped = (self.progress)(self.checked).is_break();
        }
        Ok(())
    }

    pub(crate) fn report(&mut self, space: u32, what: impl std::fmt::Display) {
        let finding = match self.tubes.get(&space) {
            Some(tube) => format!("tube {:?}: {what}", tube.name),
            None => format!("rows of no tube (space {space}): {what}"),
        };
        self.found.push(finding);
    }

    /// The tube of a row. A row without a tube is a finding, unless its space is being removed.
    pub(crate) fn owner(&mut self, space: Option<u32>, table: Table) -> Option<TubeTotals> {
        let Some(space) = space else {
            self.found.push(format!("a key of {:?} is too short", table.name()));
            return None;
        };
        if self.purges.contains(&space) {
            return None;
        }
        let tube = self.tubes.get(&space).map(|tube| (*tube).clone());
        if tube.is_none() {
            self.report(space, format_args!("a row of {:?} is left over", table.name()));
        }
        tube
    }

    fn task(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Tasks) else { return Ok(()) };
        let (Ok((_, shelf)), Ok((_, id))) = (keys::space_and_shelf(key), keys::order_and_id(key))
        else {
            self.report(tube.space, "a key of \"tasks\" cannot be read");
            return Ok(());
        };
        *self.counted.entry(tube.space).or_default().on(shelf) += 1;
        self.checked += 1;
        let record = match Record::decode(id, value) {
            Ok(record) => record,
            Err(error) => {
                self.report(tube.space, error);
                return Ok(());
            }
        };
        let position = position_of(id, shelf, &record.header);
        if keys::task(tube.space, tube.sub_queued, &position) != key {
            self.report(
                tube.space,
                format_args!("task {id} is stored at another position than its record says"),
            );
        }
        self.expect_index_rows(&tube, &position, &record.header)?;
        self.expect_body(&tube, id, &record)?;
        self.expect_notes(&tube, id, &record.header)?;
        self.expect_edges(&tube, shelf, id, &record.header)?;
        self.expect_schedule(&tube, shelf, id, &record.header);
        if tube.sub_queued && shelf == Shelf::Ready {
            self.expect_head(&tube, &position)?;
        }
        Ok(())
    }

    /// A task without a body of its own is not looked up among the bodies: the look-up would read the large body that
    /// is stored before it. `body` finds what should not be there.
    fn expect_body(&mut self, tube: &TubeTotals, id: u64, record: &Record) -> Result<(), R::Error> {
        if record.header.body_checksum.is_none() {
            return Ok(());
        }
        let checked = match self.rows.get(Table::Bodies, &keys::by_id(tube.space, id))? {
            Some(body) => check_body(id, &record.header, &body),
            None => Err(RecordError::new(id, "its body (missing)")),
        };
        if let Err(error) = checked {
            self.report(tube.space, error);
        }
        Ok(())
    }

    /// The first ready task of a sub-queue, and no other, has a row in `heads`.
    fn expect_head(
        &mut self,
        tube: &TubeTotals,
        position: &Position<&str>,
    ) -> Result<(), R::Error> {
        let prefix = keys::sub_prefix(tube.space, position.sub);
        let first = self.rows.scan(Table::Tasks, &prefix, &keys::end_of(&prefix), 1)?;
        let is_first =
            first.first().is_some_and(|(key, _)| *key == keys::task(tube.space, true, position));
        let head =
            self.rows.get(Table::Heads, &keys::head(tube.space, position.order, position.id))?;
        match (is_first, head) {
            (true, None) => self.report(
                tube.space,
                format_args!("task {} should be the head of its sub-queue", position.id),
            ),
            (false, Some(_)) => self.report(
                tube.space,
                format_args!("task {} should not be the head of its sub-queue", position.id),
            ),
            (true, Some(sub)) if *sub != *position.sub.as_bytes() => {
                self.report(
                    tube.space,
                    format_args!("task {} is the head of another sub-queue", position.id),
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn body(&mut self, key: &[u8], _: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Bodies) else { return Ok(()) };
        let Ok((_, id)) = keys::split_by_id(key) else {
            self.report(tube.space, "a key of \"bodies\" cannot be read");
            return Ok(());
        };
        let Some(row) = self.find(&tube, id)? else {
            self.report(tube.space, format_args!("the body of task {id} has no task"));
            return Ok(());
        };
        // A record that cannot be read is reported with the tasks.
        if Record::decode(id, row).is_ok_and(|record| record.header.body_checksum.is_none()) {
            self.report(tube.space, RecordError::new(id, "its body (stored twice)"));
        }
        Ok(())
    }

    fn head(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Heads) else { return Ok(()) };
        let (Ok((_, order, id)), Ok(sub)) = (keys::split_head(key), std::str::from_utf8(&value))
        else {
            self.report(tube.space, "a head of a sub-queue cannot be read");
            return Ok(());
        };
        let position = Position { shelf: Shelf::Ready, order, id, sub };
        if self.rows.get(Table::Tasks, &keys::task(tube.space, true, &position))?.is_none() {
            self.report(
                tube.space,
                format_args!("the head of a sub-queue is task {id}, which is not ready there"),
            );
        }
        Ok(())
    }

    pub(crate) fn find(&mut self, tube: &TubeTotals, id: u64) -> Result<Option<Value>, R::Error> {
        match self.position(tube, id)? {
            Some(position) => self.row_at(tube, &position),
            None => Ok(None),
        }
    }

    /// The position of a task; `None` if its pointer cannot be read.
    pub(crate) fn position(
        &mut self,
        tube: &TubeTotals,
        id: u64,
    ) -> Result<Option<Position>, R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(tube.space, id))?;
        Ok(match pointer {
            None => {
                Some(Position { shelf: Shelf::Ready, order: DEFAULT_ORDER, id, sub: "".into() })
            }
            Some(pointer) => Position::from_pointer(id, &pointer).ok(),
        })
    }

    fn counts(&mut self) {
        let tubes: Vec<TubeTotals> = self.tubes.values().map(|tube| (*tube).clone()).collect();
        for tube in tubes {
            let counted = self.counted.get(&tube.space).copied().unwrap_or_default();
            if counted != tube.counts {
                self.report(
                    tube.space,
                    format_args!("the counts say {:?}, the tasks {counted:?}", tube.counts),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with bodies of one size.
    struct Bodies {
        count: u64,
        size: usize,
        max_bytes_read: usize,
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
            self.max_bytes_read = self.max_bytes_read.max(rows.len() * self.size);
            Ok(rows)
        }

        fn scan_back(
            &mut self,
            _table: Table,
            _from: &[u8],
            _to: &[u8],
            _limit: usize,
        ) -> Result<Vec<Row>, RecordError> {
            Ok(Vec::new())
        }
    }

    /// Regression: a thousand rows were read at a time, so large bodies took gigabytes of memory.
    #[test]
    fn verify_rows_reads_few_large_bodies_at_a_time() {
        for (count, size) in [(100, 1 << 20), (5000, 4 << 10)] {
            let mut bodies = Bodies { count, size, max_bytes_read: 0 };
            verify_rows(&mut bodies, &[], &[1], &mut |_| ControlFlow::Continue(())).unwrap();
            assert!(bodies.max_bytes_read <= 8 << 20, "{} bytes", bodies.max_bytes_read);
        }
    }
}
