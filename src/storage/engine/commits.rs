//! Commits of the database: what the journal has, and what is too large for it.
//!
//! Invariants: a commit is applied wholly or not at all. It is flushed before the journal uses the
//! places of its records again, and the number of the last record in it is written with its rows.

use std::cell::Cell;
use std::sync::Arc;

use redb::{Durability, WriteTransaction};
use tubewell_drivers::{Table, Value};

use super::{Engine, require_open};
use crate::Error;
use crate::storage::backend::Watcher;
use crate::storage::commit_error::CommitError;
use crate::storage::failure::{attempt, guarded};
use crate::storage::journal::{CHECKPOINT_KEY, Journal, encode_checkpoint};
use crate::storage::overlay::{Overlay, RowEdit};
use crate::storage::reader::definition;

/// Edits on their way into the database, with one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoint {
    /// Edits over edits, the earliest first.
    layers: Vec<Arc<Overlay>>,
    /// How many of the layers the journal has, too.
    pub(crate) logged: usize,
    /// The number of the last record of the journal among them, or before them.
    pub(crate) last_record: u64,
}

impl Checkpoint {
    /// A checkpoint after this record of the journal, without edits so far.
    pub(crate) fn up_to(last_record: u64) -> Checkpoint {
        Checkpoint { last_record, ..Checkpoint::default() }
    }

    /// Adds edits that the journal has, too.
    pub(crate) fn push_logged(&mut self, edits: Overlay) {
        self.push(edits);
        self.logged = self.layers.len();
    }

    /// Adds later edits, which the journal does not have.
    pub(crate) fn push(&mut self, edits: Overlay) {
        if !edits.is_empty() {
            self.layers.push(Arc::new(edits));
        }
    }

    /// Takes the latest edits out.
    #[cfg(feature = "redb")]
    pub(crate) fn pop(&mut self) -> Option<Arc<Overlay>> {
        self.layers.pop()
    }

    /// Puts back what `pop` has returned.
    #[cfg(feature = "redb")]
    pub(crate) fn push_shared(&mut self, edits: Arc<Overlay>) {
        self.layers.push(edits);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// The edits, the earliest first, and the row of [`Engine::checkpoint_row`].
    pub(super) fn rows<'a>(
        &'a self,
        row: Option<&'a Value>,
    ) -> impl Iterator<Item = RowEdit<'a>> + use<'a> {
        let row = row.map(|row| (Table::Meta, CHECKPOINT_KEY, Some(&**row)));
        self.layers.iter().flat_map(|layer| layer.rows()).chain(row)
    }

    /// The edits, the latest first.
    pub(crate) fn layers(&self) -> impl DoubleEndedIterator<Item = &Overlay> {
        self.layers.iter().rev().map(|layer| &**layer)
    }
}

impl Engine {
    /// Commits these edits to the database, all or none. With `sync` it returns when they are
    /// flushed; without, they are visible immediately and flushed with the next commit that is.
    pub(crate) fn checkpoint(&self, edits: &Checkpoint, sync: bool) -> Result<(), CommitError> {
        self.attempt(|unknown| {
            let mut has_flushed = self.writing.lock();
            if self.medium.is_short()
                && let Some(journal) = &self.journal
            {
                self.write_removals(&mut has_flushed, journal, edits, unknown)?;
            }
            let row = self.checkpoint_row(edits);
            self.write(&mut has_flushed, sync, &mut edits.rows(row.as_ref()), unknown)?;
            if sync {
                self.medium.check_name()?;
            }
            self.note_checkpointed(edits)
        })
    }

    /// What the database says about the journal once it has these edits; `None` without a journal.
    pub(super) fn checkpoint_row(&self, edits: &Checkpoint) -> Option<Value> {
        let journal = self.journal.as_ref()?;
        Some(encode_checkpoint(journal.checkpointed(edits.last_record)))
    }

    /// The database has flushed these edits.
    pub(super) fn note_checkpointed(&self, edits: &Checkpoint) -> Result<(), redb::Error> {
        if let Some(journal) = &self.journal {
            journal.records_are_checkpointed(edits.last_record);
            journal.restore_title()?;
        }
        Ok(())
    }

    /// If disk space is short, removals go first, since only the next commit can reuse their pages.
    /// Only those that the journal has on the disk: it restores them until the second commit.
    fn write_removals(
        &self,
        has_flushed: &mut bool,
        journal: &Journal,
        edits: &Checkpoint,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        for layer in &edits.layers[..edits.logged] {
            journal.flush_to(edits.last_record)?;
            self.write(has_flushed, true, &mut layer.removals(), unknown)?;
            unknown.set(false);
        }
        Ok(())
    }

    /// Writes rows of a new store, sorted by table and key, to the database. Bypasses the journal.
    pub(in crate::storage) fn load(
        &self,
        rows: &mut dyn Iterator<Item = RowEdit<'_>>,
        sync: bool,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| self.write(&mut self.writing.lock(), sync, rows, unknown))
    }

    /// Begins a transaction in a new store, which nothing else writes or reads before it has ended.
    pub(in crate::storage) fn begin_write(&self) -> Result<WriteTransaction, redb::Error> {
        Ok(require_open(self.database.read().as_ref())?.begin_write()?)
    }

    pub(super) fn attempt<T>(
        &self,
        write: impl FnOnce(&Cell<bool>) -> Result<T, redb::Error>,
    ) -> Result<T, CommitError> {
        attempt(&self.io, write)
    }

    /// The database takes what the journal had at open, if no write buffer has taken it.
    pub(crate) fn checkpoint_replayed(&mut self) -> Result<(), Error> {
        let Some(replayed) = self.replayed.take() else { return Ok(()) };
        let last_record = self.last_record();
        let edits = Checkpoint { layers: vec![replayed], logged: 0, last_record };
        Ok(self.checkpoint(&edits, true)?)
    }

    /// Marks the journal as empty for the next open, if the database has all its edits.
    pub(super) fn mark_journal_as_empty(&self) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let marked = journal.restore_title().and_then(|()| journal.write_end_mark());
        marked.map_err(|error| self.io_error(error))
    }

    pub(super) fn write(
        &self,
        has_flushed: &mut bool,
        sync: bool,
        rows: &mut dyn Iterator<Item = RowEdit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let database = self.database.read();
        let mut transaction = require_open(database.as_ref())?.begin_write()?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        // With a journal, commits of the database are rare enough to save the next open a repair.
        transaction.set_quick_repair(sync && self.journal.is_some());
        // Every store has this table from its first commit on, also if that has removals only:
        // `check_is_store` looks for it.
        drop(transaction.open_table(definition(Table::Meta))?);
        apply(&transaction, rows)?;
        unknown.set(true);
        self.kept_reader.change(&self.io, || transaction.commit())?;
        *has_flushed |= sync;
        Ok(())
    }

    /// Calls `watcher` at every write from now on. There is one watcher: a later one is ignored.
    pub(crate) fn watch(&self, watcher: Watcher) {
        self.io.watch(watcher);
    }

    /// Returns free space in the file to the file system; true if there was any. It is slow, and
    /// fails while a snapshot exists.
    pub(crate) fn compact(&self) -> Result<bool, Error> {
        guarded(&self.io, || self.move_pages())
    }

    /// As [`compact`](Engine::compact), while the store is in use: reads and commits of the database
    /// block until all live pages have been moved. Returns false, and does nothing, while a snapshot
    /// exists.
    pub(crate) fn shrink(&self) -> Result<bool, CommitError> {
        self.attempt(|_| match self.move_pages() {
            Err(redb::Error::TransactionInProgress) => Ok(false),
            moved => moved.map(|_| true),
        })
    }

    /// Moves pages in steps. Each step is a commit that keeps every row, so a crash does no harm.
    fn move_pages(&self) -> Result<bool, redb::Error> {
        let _no_commits = self.writing.lock();
        let mut database = self.database.write();
        let database = require_open(database.as_mut())?;
        Ok(self.kept_reader.change(&self.io, || database.compact())?)
    }
}

pub(super) fn apply(
    transaction: &WriteTransaction,
    edits: &mut dyn Iterator<Item = RowEdit<'_>>,
) -> Result<(), redb::Error> {
    let mut next = edits.next();
    while let Some((table, ..)) = next {
        let mut rows = transaction.open_table(definition(table))?;
        while let Some((_, key, value)) = next.filter(|edit| edit.0 == table) {
            match value {
                Some(value) => drop(rows.insert(key, value)?),
                None => drop(rows.remove(key)?),
            }
            next = edits.next();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
