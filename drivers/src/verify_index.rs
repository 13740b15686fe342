//! Verification of the index rows: compares them with [`index_rows`], in both directions.
//!
//! Each row that a record yields is in its table, and each row of these tables is one that the
//! record of its task yields.

use crate::index_rows::index_rows;
use crate::keys::{self, Position};
use crate::record::{Header, Record};
use crate::record_error::RecordError;
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// The index rows of a record are in their tables. A task at its default position has no
    /// pointer: one would lead to a second record of the task.
    pub(crate) fn expect_index_rows(
        &mut self,
        tube: &TubeTotals,
        position: &Position<&str>,
        header: &Header,
    ) -> Result<(), R::Error> {
        let id = position.id;
        for row in index_rows(tube.space, id, position.shelf, header) {
            let found = self.rows.get(row.table(), &row.key())?;
            if found != Some(row.value()) {
                self.report_index_row(tube, row.table(), id);
            }
        }
        if position.is_default()
            && self.rows.get(Table::Places, &keys::by_id(tube.space, id))?.is_some()
        {
            self.report_index_row(tube, Table::Places, id);
        }
        Ok(())
    }

    fn report_index_row(&mut self, tube: &TubeTotals, table: Table, id: u64) {
        if table == Table::Places {
            self.report(tube.space, format_args!("task {id} is not where its pointer says"));
        } else {
            let table = table.name();
            self.report(tube.space, format_args!("task {id} has no matching row in {table:?}"));
        }
    }

    /// A row of `places`.
    pub(crate) fn pointer(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Places) else { return Ok(()) };
        let id = keys::id_of(key).unwrap_or_default();
        let position = match Position::from_pointer(id, &value) {
            Ok(position) => position,
            Err(error) => {
                self.report(tube.space, error);
                return Ok(());
            }
        };
        match self.row_at(&tube, &position)? {
            None => self.report(
                tube.space,
                format_args!("a pointer leads to task {id}, which is not there"),
            ),
            Some(record) => {
                // A damaged record is a finding of its own.
                if yields(&tube, &position, record, (Table::Places, key, &value)) == Ok(false) {
                    self.report_stray(&tube, Table::Places, id);
                }
            }
        }
        Ok(())
    }

    /// A row of `dues`.
    pub(crate) fn due(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Ok((_, space, id)) = keys::split_due(key) else {
            self.found.push("a key of \"dues\" cannot be read".into());
            return Ok(());
        };
        self.timed(Table::Dues, (space, id), key, &value)
    }

    /// A row that leads from a time to a task: a due, or a moment of the wall clock.
    pub(crate) fn timed(
        &mut self,
        table: Table,
        (space, id): (u32, u64),
        key: &[u8],
        value: &Value,
    ) -> Result<(), R::Error> {
        let Some(tube) = self.owner(Some(space), table) else { return Ok(()) };
        let position = Position::from_pointer(id, value).ok();
        self.expect_yielded(&tube, (id, position), (table, key, value))
    }

    /// An index row is one that the record of its task yields. The position of the task is missing if
    /// it cannot be read.
    pub(crate) fn expect_yielded(
        &mut self,
        tube: &TubeTotals,
        (id, position): (u64, Option<Position>),
        row: (Table, &[u8], &Value),
    ) -> Result<(), R::Error> {
        let is_yielded = match position {
            None => false,
            Some(position) => self
                .row_at(tube, &position)?
                .is_some_and(|record| yields(tube, &position, record, row) == Ok(true)),
        };
        if !is_yielded {
            self.report_stray(tube, row.0, id);
        }
        Ok(())
    }

    pub(crate) fn report_stray(&mut self, tube: &TubeTotals, table: Table, id: u64) {
        let table = table.name();
        self.report(tube.space, format_args!("a row of {table:?} does not match task {id}"));
    }

    /// The row of `tasks` at a position.
    pub(crate) fn row_at(
        &mut self,
        tube: &TubeTotals,
        position: &Position,
    ) -> Result<Option<Value>, R::Error> {
        self.rows.get(Table::Tasks, &keys::task(tube.space, tube.sub_queued, position))
    }
}

/// Whether the record at a position yields an index row.
fn yields(
    tube: &TubeTotals,
    position: &Position,
    record: Value,
    (table, key, value): (Table, &[u8], &Value),
) -> Result<bool, RecordError> {
    let record = Record::decode(position.id, record)?;
    let mut rows = index_rows(tube.space, position.id, position.shelf, &record.header);
    Ok(rows.any(|row| row.table() == table && row.key() == key && row.value() == *value))
}
