//! Readers: read transactions of the database, each used by one snapshot after another.
//!
//! To begin a transaction and to open a table takes several times as long as a look-up, so one reader
//! of the newest commit is kept between snapshots.
//!
//! Invariant: no reader is kept during a commit, nor one that is older than the last commit. A commit
//! frees the pages of the one before, and the next commit can use them if no reader needs them.

use redb::{ReadOnlyTable, ReadTransaction, TableDefinition, TableError};
use tubewell_drivers::Table;

use super::backend::IoCounters;
use super::failure::guarded;
use crate::Error;
use crate::base::sync::InnerMutex;

pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(super) fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

pub(super) type OpenTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A read transaction, and the tables that it has opened.
pub(super) struct Reader {
    tables: [TableState; Table::ALL.len()],
    /// Dropped after the tables.
    pub(super) transaction: ReadTransaction,
}

enum TableState {
    Unopened,
    Missing,
    Open(OpenTable),
}

impl Reader {
    /// A table, or `None` if it does not exist yet.
    pub(super) fn table(&mut self, table: Table) -> Result<Option<&OpenTable>, redb::Error> {
        let state = &mut self.tables[table.index()];
        if let TableState::Unopened = state {
            *state = match self.transaction.open_table(definition(table)) {
                Ok(rows) => TableState::Open(rows),
                Err(TableError::TableDoesNotExist(_)) => TableState::Missing,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(match state {
            TableState::Open(rows) => Some(rows),
            TableState::Unopened | TableState::Missing => None,
        })
    }
}

/// The place of the reader that is kept. Snapshots share it with their engine.
#[derive(Default)]
pub(super) struct KeptReader(InnerMutex<Kept>);

#[derive(Default)]
struct Kept {
    /// How many commits, moves of pages, closes and reopenings have begun or ended.
    changes: u64,
    /// One of them is in progress.
    is_changing: bool,
    reader: Option<Box<Reader>>,
}

/// A reader in use, and the number of changes before it was taken or begun.
pub(super) struct Borrowed {
    pub(super) reader: Box<Reader>,
    changes: u64,
}

impl KeptReader {
    /// Takes the reader that is kept, or begins one.
    pub(super) fn borrow(
        &self,
        begin: impl FnOnce() -> Result<ReadTransaction, Error>,
    ) -> Result<Borrowed, Error> {
        let (changes, kept) = {
            let mut kept = self.0.lock();
            (kept.changes, kept.reader.take())
        };
        let reader = match kept {
            Some(reader) => reader,
            None => Box::new(Reader {
                tables: [const { TableState::Unopened }; Table::ALL.len()],
                transaction: begin()?,
            }),
        };
        Ok(Borrowed { reader, changes })
    }

    /// Keeps a usable reader for the next snapshot, unless it may be older than the last commit.
    pub(super) fn give_back(&self, borrowed: Borrowed, is_usable: bool, io: &IoCounters) {
        let Borrowed { reader, changes } = borrowed;
        let surplus = {
            let mut kept = self.0.lock();
            let is_newest = is_usable && !kept.is_changing && kept.changes == changes;
            if is_newest { kept.reader.replace(reader) } else { Some(reader) }
        };
        discard(surplus, io);
    }

    /// Changes the database, moves its pages, or closes it. Before and after that, the reader that is
    /// kept is discarded and, once they are given back, those in use.
    pub(super) fn change<T>(&self, io: &IoCounters, change: impl FnOnce() -> T) -> T {
        self.renew(io, true);
        let changed = change();
        self.renew(io, false);
        changed
    }

    fn renew(&self, io: &IoCounters, is_changing: bool) {
        let old = {
            let mut kept = self.0.lock();
            kept.changes += 1;
            kept.is_changing = is_changing;
            kept.reader.take()
        };
        discard(old, io);
    }
}

/// Dropping a reader is a call into the engine and may panic. A failure loses nothing, and the next
/// call reports it.
fn discard(reader: Option<Box<Reader>>, io: &IoCounters) {
    let _ = guarded(io, || {
        drop(reader);
        Ok(())
    });
}
