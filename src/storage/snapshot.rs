//! Snapshots: the rows as of one commit, with the edits of the journal above the tables.

use std::sync::Arc;

use redb::{AccessGuard, ReadableTableMetadata, WriteTransaction};
use tubewell_drivers::{Reads, Row, Table, Value, keys};

use super::backend::IoCounters;
use super::failure::guarded;
use super::overlay::{Overlay, scan_back_over, scan_over};
use super::reader::{Borrowed, KeptReader, OpenTable};
use super::untyped::{copy_own_tables, own_rows};
use crate::Error;

/// No key of the store is so long.
const BEHIND_ALL_KEYS: [u8; 1024] = [u8::MAX; 1024];
/// The rows of a chunk that is merged with edits: some may have bodies of the largest size.
const MERGED_ROWS: usize = 64;

type Entry<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

/// The rows of the database as of the moment it was taken, with the edits above them that were
/// read from the journal at open.
///
/// While a snapshot exists, pages that are freed are not used again and the file grows. So a
/// snapshot must not outlive the call that took it.
pub(crate) struct Snapshot {
    /// `None` only in `drop`.
    reader: Option<Borrowed>,
    /// A read has failed, so that the reader is not kept.
    has_failed: bool,
    kept: Arc<KeptReader>,
    overlay: Option<Arc<Overlay>>,
    io: Arc<IoCounters>,
}

impl Snapshot {
    pub(super) fn new(
        reader: Borrowed,
        kept: Arc<KeptReader>,
        overlay: Option<Arc<Overlay>>,
        io: Arc<IoCounters>,
    ) -> Snapshot {
        Snapshot { reader: Some(reader), has_failed: false, kept, overlay, io }
    }
}

impl Reads for Snapshot {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, Error> {
        if let Some(overlay) = &self.overlay
            && let Some(edit) = overlay.get(table, key)
        {
            return Ok(edit.cloned());
        }
        self.read(table, |rows| Ok(rows.get(key)?.map(|found| Value::from(found.value()))))
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        self.scan_with(table, from, to, limit, |value| Value::from(value))
    }

    fn scan_keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let rows = self.scan_without_values(table, from, to, limit)?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        // As in `scan_with`.
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let overlay = self.overlay.clone();
        let overlays: Vec<&Overlay> = overlay.iter().map(|overlay| &**overlay).collect();
        scan_back_over(&overlays, table, (from, to), limit, |from, to, limit| {
            self.scan_database_back(table, from, to, limit)
        })
    }
}

impl Snapshot {
    fn scan_database_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        if from >= to {
            return Ok(Vec::new());
        }
        self.read(table, |rows| {
            let mut found: Vec<Row> = Vec::new();
            for row in rows.range::<&[u8]>(from..to)?.rev().take(limit) {
                let row = row?;
                let key = row.0.value();
                let end = found.last().map_or(to, |(last, _)| last);
                if key < from || key >= end {
                    return Err(out_of_order(table));
                }
                found.push((key.to_vec(), Value::from(row.1.value())));
            }
            Ok(found)
        })
    }

    /// The rows of a range, up to `limit`. Those of the database have empty values, so that none is
    /// copied.
    pub(crate) fn scan_without_values(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        self.scan_with(table, from, to, limit, |_| Value::default())
    }

    /// The rows of a range, up to `limit`, with what `value` makes of the values of the database.
    fn scan_with(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
        value: impl Fn(&[u8]) -> Value,
    ) -> Result<Vec<Row>, Error> {
        // The engine does not accept a reversed range.
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let overlay = self.overlay.clone();
        let overlays: Vec<&Overlay> = overlay.iter().map(|overlay| &**overlay).collect();
        scan_over(&overlays, table, (from, to), limit, |from, to, limit| {
            self.read(table, |rows| {
                let range = rows.range::<&[u8]>(from..to)?.take(limit);
                in_order(table, range, (from, Some(to)), usize::MAX, &value)
            })
        })
    }

    /// The number of rows of a table of the database. Reads none of them.
    pub(crate) fn len(&mut self, table: Table) -> Result<u64, Error> {
        self.read(table, |rows| Ok(rows.len()?))
    }

    /// The rows of a table from a key on: up to `bytes` bytes, at least one row. Few rows if there are edits
    /// above the database, which are merged by numbers of rows.
    pub(crate) fn read_chunk(
        &mut self,
        table: Table,
        from: &[u8],
        bytes: usize,
    ) -> Result<Vec<Row>, Error> {
        if self.overlay.is_some() {
            return self.scan(table, from, &BEHIND_ALL_KEYS, MERGED_ROWS);
        }
        self.read(table, |rows| {
            let range = rows.range::<&[u8]>(from..)?;
            in_order(table, range, (from, None), bytes, |value| Value::from(value))
        })
    }

    /// Copies the tables of the application into another database, up to `bytes` bytes with each
    /// of its transactions, which `begin` begins.
    pub(super) fn copy_own_tables(
        &self,
        begin: &dyn Fn() -> Result<WriteTransaction, redb::Error>,
        bytes: usize,
    ) -> Result<(), Error> {
        let Some(from) = &self.reader else { return Ok(()) };
        guarded(&self.io, || copy_own_tables(&from.reader.transaction, begin, bytes))
    }

    /// The number of rows in the tables of the application.
    pub(crate) fn own_rows(&self) -> Result<u64, Error> {
        let Some(from) = &self.reader else { return Ok(0) };
        guarded(&self.io, || own_rows(&from.reader.transaction))
    }

    /// Applies the journal's edits to `keys`, the keys of the database between two keys. The result
    /// is not sorted.
    pub(crate) fn apply_journal_to_keys(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        keys: &mut Vec<Vec<u8>>,
    ) {
        let Some(overlay) = &self.overlay else { return };
        keys.retain(|key| overlay.get(table, key).is_none());
        let written = overlay.range(table, from, to).filter(|(_, value)| value.is_some());
        keys.extend(written.map(|(key, _)| key.to_vec()));
    }

    /// Calls `each` with the keys of the database between two keys, forwards or backwards. After an
    /// error the unread keys are those beyond the last one that `each` got.
    pub(crate) fn database_keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        backwards: bool,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        if from >= to {
            return Ok(());
        }
        self.read(table, |rows| {
            let mut range = rows.range::<&[u8]>(from..to)?;
            let (mut low, mut high) = (from.to_vec(), to.to_vec());
            while let Some(row) = if backwards { range.next_back() } else { range.next() } {
                let row = row?;
                let key = row.0.value();
                // Damaged pages can form a cycle.
                if key < &low[..] || key >= &high[..] {
                    return Err(out_of_order(table));
                }
                each(key);
                if backwards { high = key.to_vec() } else { low = keys::after(key) }
            }
            Ok(())
        })
    }

    /// Reads a table. A table that does not exist yet reads as empty.
    fn read<T: Default>(
        &mut self,
        table: Table,
        read: impl FnOnce(&OpenTable) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let Some(from) = &mut self.reader else { return Ok(T::default()) };
        let found = guarded(&self.io, || match from.reader.table(table)? {
            Some(rows) => read(rows),
            None => Ok(T::default()),
        });
        self.has_failed |= found.is_err();
        found
    }
}

/// The rows of a range, up to `bytes` bytes, but at least one row. Damaged pages can form a cycle:
/// the order of the keys is checked so that a caller that reads on terminates. `make` makes the values.
fn in_order<'a>(
    table: Table,
    range: impl Iterator<Item = Result<Entry<'a>, redb::StorageError>>,
    (from, to): (&[u8], Option<&[u8]>),
    bytes: usize,
    make: impl Fn(&[u8]) -> Value,
) -> Result<Vec<Row>, redb::Error> {
    let (mut found, mut size): (Vec<Row>, usize) = (Vec::new(), 0);
    for row in range {
        let (key, value) = row?;
        let (key, value) = (key.value(), value.value());
        let last = found.last().map(|(last, _)| last.as_slice());
        let follows = last.map_or(from <= key, |last| last < key);
        if !follows || to.is_some_and(|to| key >= to) {
            return Err(out_of_order(table));
        }
        size = size.saturating_add(key.len() + value.len());
        if size > bytes && !found.is_empty() {
            break;
        }
        found.push((key.to_vec(), make(value)));
    }
    Ok(found)
}

fn out_of_order(table: Table) -> redb::Error {
    redb::Error::Corrupted(format!("rows of {} are out of order", table.name()))
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            self.kept.give_back(reader, !self.has_failed, &self.io);
        }
    }
}
