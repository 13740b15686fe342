//! The interface between the rules and the engine: named tables of ordered rows of bytes.

use std::sync::Arc;

use crate::record_error::RecordError;

/// A stored value. It is shared: a write buffer keeps it until it is flushed, while reads use it.
pub type Value = Arc<[u8]>;

/// The tables of a store. [`keys`](crate::keys) has the layout of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One row per task at its [`Position`](crate::Position): the record, and the body if it is
    /// inline.
    Tasks,
    /// Bodies that are too large to be inline. They are written once.
    Bodies,
    /// The positions of tasks by id, except default positions.
    Places,
    /// The first ready task of each sub-queue, taken or not.
    Heads,
    /// The tasks with a delay or a ttl, by the time at which it elapses.
    Dues,
    /// The header of the store, the catalog, and the counts.
    Meta,
    /// The claims that outlive the process.
    Claims,
    /// The failure groups: their tasks, and how many each has.
    Index,
    /// The notes of tasks: the last failure, and the result.
    Notes,
    /// The numbers of tubes with metrics, by day.
    Days,
}

impl Table {
    /// All tables, in the order of their indexes, which are part of the format.
    pub const ALL: [Table; 10] = [
        Table::Tasks,
        Table::Bodies,
        Table::Places,
        Table::Heads,
        Table::Dues,
        Table::Meta,
        Table::Claims,
        Table::Index,
        Table::Notes,
        Table::Days,
    ];

    /// Returns the name of the table in the file. Names are part of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Tasks => "tasks",
            Table::Bodies => "bodies",
            Table::Places => "places",
            Table::Heads => "heads",
            Table::Dues => "dues",
            Table::Meta => "meta",
            Table::Claims => "claims",
            Table::Index => "index",
            Table::Notes => "notes",
            Table::Days => "days",
        }
    }

    /// Returns the index in [`Table::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A row: its key and its value.
pub type Row = (Vec<u8>, Value);

/// The rows as one call sees them.
pub trait Reads {
    /// The error of a read.
    type Error: From<RecordError>;

    /// Returns the value at `key`, or `None` if there is no such row.
    ///
    /// # Errors
    /// The row could not be read.
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, Self::Error>;

    /// Returns up to `limit` rows with `from <= key < to`, in the order of their keys.
    ///
    /// # Errors
    /// A row could not be read.
    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Self::Error>;

    /// Returns the keys of the rows that [`scan`](Reads::scan) returns. An implementation should copy
    /// no value: values may be large.
    ///
    /// # Errors
    /// A row could not be read.
    fn scan_keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, Self::Error> {
        let rows = self.scan(table, from, to, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the last rows with `from <= key < to`, up to `limit`, the last one first.
    ///
    /// # Errors
    /// A row could not be read.
    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Self::Error>;
}

/// The number of rows of the first page, and of the page after one of `PAGE_BYTES` or more: rows may be
/// large.
pub(crate) const FIRST_PAGE: usize = 4;
/// Maximum number of rows that are read at a time.
pub(crate) const PAGE: usize = 1024;
const PAGE_BYTES: usize = 4 << 20;

/// How many rows the page after this one has, which was read with `limit`.
pub(crate) fn next_limit(page: &[Row], limit: usize) -> usize {
    let bytes: usize = page.iter().map(|(_, value)| value.len()).sum();
    if bytes < PAGE_BYTES { (limit * 2).min(PAGE) } else { FIRST_PAGE }
}

/// Rows that can be edited. Later reads see the edits.
pub trait Rows: Reads {
    /// Writes a row. There must be none at `key`.
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value);

    /// Writes a row, and replaces the one at `key` if there is one.
    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value);

    /// Removes a row. There must be one at `key`.
    fn remove(&mut self, table: Table, key: Vec<u8>);
}
