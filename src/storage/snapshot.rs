//! Reading: the rows as they were at one commit.

use std::sync::Arc;

use redb::{
    AccessGuard, ReadOnlyTable, ReadTransaction, ReadableTableMetadata, TableDefinition, TableError,
};
use tubewell_drivers::{Reads, Row, Table, Value, keys};

use super::backend::IoCounters;
use super::failure::guarded;
use super::overlay::{Overlay, scan_over};
use crate::Error;
use crate::sync::InnerRwLock;

pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(super) fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

type Entry<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

/// Edits that lie over the rows of the database. Everyone who has it sees what it takes in.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalOverlay(Arc<InnerRwLock<Overlay>>);

impl JournalOverlay {
    pub(super) fn new(edits: Overlay) -> JournalOverlay {
        JournalOverlay(Arc::new(InnerRwLock::new(edits)))
    }

    pub(super) fn absorb(&self, above: &Overlay) {
        self.0.write().absorb(above);
    }

    pub(super) fn edits(&self) -> impl std::ops::Deref<Target = Overlay> {
        self.0.read()
    }
}

/// The rows as of the moment it was taken, whatever the database commits meanwhile.
///
/// While one is alive no page freed since is used again, and the file grows: let none outlive the
/// call that took it.
pub(crate) struct Snapshot {
    tables: [TableState; Table::ALL.len()],
    /// Gone only in drop.
    transaction: Option<ReadTransaction>,
    overlay: Option<JournalOverlay>,
    io: Arc<IoCounters>,
}

enum TableState {
    NotYet,
    Missing,
    Open(ReadOnlyTable<&'static [u8], &'static [u8]>),
}

impl Snapshot {
    pub(super) fn new(
        transaction: ReadTransaction,
        overlay: Option<JournalOverlay>,
        io: Arc<IoCounters>,
    ) -> Snapshot {
        Snapshot {
            tables: [const { TableState::NotYet }; Table::ALL.len()],
            transaction: Some(transaction),
            overlay,
            io,
        }
    }
}

impl Reads for Snapshot {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, Error> {
        if let Some(overlay) = &self.overlay
            && let Some(edit) = overlay.edits().get(table, key)
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
        // The engine takes a range that ends before it begins for a mistake.
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        let Some(overlay) = self.overlay.clone() else { return self.below(table, from, to, limit) };
        let overlay = overlay.edits();
        scan_over(&[&overlay], table, (from, to), limit, |from, to, limit| {
            self.below(table, from, to, limit)
        })
    }
}

impl Snapshot {
    fn below(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, Error> {
        self.read(table, |rows| {
            let range = rows.range::<&[u8]>(from..to)?.take(limit);
            in_order(table, range, from, Some(to), usize::MAX)
        })
    }

    /// How many rows a table of the database has, without reading them.
    pub(crate) fn len(&mut self, table: Table) -> Result<u64, Error> {
        self.read(table, |rows| Ok(rows.len()?))
    }

    /// The rows of a table from a key on, as many as have so many bytes together; one at least.
    pub(crate) fn step(
        &mut self,
        table: Table,
        from: &[u8],
        bytes: usize,
    ) -> Result<Vec<Row>, Error> {
        self.read(table, |rows| in_order(table, rows.range::<&[u8]>(from..)?, from, None, bytes))
    }

    /// Makes keys that the database has between two keys those that there are.
    pub(crate) fn overlay_keys(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        found: &mut Vec<Vec<u8>>,
    ) {
        let Some(overlay) = &self.overlay else { return };
        let overlay = overlay.edits();
        found.retain(|key| overlay.get(table, key).is_none());
        let there = overlay.range(table, from, to).filter(|(_, value)| value.is_some());
        found.extend(there.map(|(key, _)| key.to_vec()));
    }

    /// The keys of a table of the database between two keys, from the first or from the last on, until there are
    /// no more or one cannot be read; the rest is behind the last one told.
    pub(crate) fn keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        backwards: bool,
        engine_panic: &mut dyn FnMut(&[u8]),
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
                // Damaged pages may lead in circles.
                if key < &low[..] || key >= &high[..] {
                    return Err(redb::Error::Corrupted("keys out of their order".into()));
                }
                engine_panic(key);
                if backwards { high = key.to_vec() } else { low = keys::after(key) }
            }
            Ok(())
        })
    }

    /// Reads a table; one that was never written to reads as empty.
    fn read<T: Default>(
        &mut self,
        table: Table,
        read: impl FnOnce(&ReadOnlyTable<&'static [u8], &'static [u8]>) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let Snapshot { tables, transaction, io, .. } = self;
        let seen = &mut tables[table.index()];
        guarded(io, || {
            if let (TableState::NotYet, Some(transaction)) = (&seen, transaction) {
                *seen = match transaction.open_table(definition(table)) {
                    Ok(rows) => TableState::Open(rows),
                    Err(TableError::TableDoesNotExist(_)) => TableState::Missing,
                    Err(error) => return Err(error.into()),
                };
            }
            match seen {
                TableState::Open(rows) => read(rows),
                TableState::NotYet | TableState::Missing => Ok(T::default()),
            }
        })
    }
}

/// The rows of a range, up to so many bytes, but one at least. A damaged page can lead anywhere,
/// back too: whoever reads on must come to an end.
fn in_order<'a>(
    table: Table,
    range: impl Iterator<Item = Result<Entry<'a>, redb::StorageError>>,
    from: &[u8],
    to: Option<&[u8]>,
    bytes: usize,
) -> Result<Vec<Row>, redb::Error> {
    let (mut found, mut held): (Vec<Row>, usize) = (Vec::new(), 0);
    for row in range {
        let (key, value) = row?;
        let (key, value) = (key.value(), value.value());
        let last = found.last().map(|(last, _)| last.as_slice());
        let follows = last.map_or(from <= key, |last| last < key);
        if !follows || to.is_some_and(|to| key >= to) {
            let table = table.name();
            return Err(redb::Error::Corrupted(format!("rows of {table} are out of order")));
        }
        held = held.saturating_add(key.len() + value.len());
        if held > bytes && !found.is_empty() {
            break;
        }
        found.push((key.to_vec(), Value::from(value)));
    }
    Ok(found)
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let Snapshot { tables, transaction, io, .. } = self;
        // Letting go of the pages is a call into the engine like any other; nothing is lost if it
        // fails, and the next call will say so.
        let _ = guarded(io, || {
            tables.fill_with(|| TableState::Missing);
            drop(transaction.take());
            Ok(())
        });
    }
}
