//! The narrow seam between the rules and the engine: named tables of ordered byte rows.

use std::sync::Arc;

/// A stored value; shared, because the same bytes may wait in memory for their flush and be read.
pub type Value = Arc<[u8]>;

/// The tables a tube's rows live in. Keys are laid out in [`crate::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// One row per task: its record and a small body, at the place where its driver looks for it.
    Tasks,
    /// Bodies too large to sit in the record; written once.
    Bodies,
    /// Where a task is, for those that are not where their id alone says.
    Places,
    /// The best ready task of each sub-queue, claims ignored.
    Heads,
    /// What comes due, by time.
    Dues,
    /// The store's header, the catalog, the counts.
    Meta,
}

impl Table {
    /// Every table, in the order of their indexes.
    pub const ALL: [Table; 6] =
        [Table::Tasks, Table::Bodies, Table::Places, Table::Heads, Table::Dues, Table::Meta];

    /// The name of the table in the file; part of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Tasks => "tasks",
            Table::Bodies => "bodies",
            Table::Places => "places",
            Table::Heads => "heads",
            Table::Dues => "dues",
            Table::Meta => "meta",
        }
    }

    /// Position in [`Table::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A row: its key and its value.
pub type Row = (Vec<u8>, Value);

/// Rows as one call sees them.
pub trait Reads {
    /// What reading can fail with.
    type Error: From<crate::RecordError>;

    /// The value at `key`, if there is one.
    ///
    /// # Errors
    /// The engine could not read.
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, Self::Error>;

    /// Up to `limit` rows with `from <= key < to`, in order of their keys.
    ///
    /// # Errors
    /// The engine could not read.
    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Self::Error>;
}

/// Rows that can be edited. Edits are seen by the reads that follow.
pub trait Rows: Reads {
    /// Writes a row that was not there.
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value);

    /// Writes a row that may have been there.
    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value);

    /// Removes a row that was there.
    fn remove(&mut self, table: Table, key: Vec<u8>);
}
