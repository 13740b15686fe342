//! Commits: into the journal, and from there into the database by checkpoints.
//!
//! Invariants: a commit is applied wholly or not at all. A checkpoint is flushed before the journal
//! restarts, and the number of the last record in it is written with its rows.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Durability, WriteTransaction};
use tubewell_drivers::Table;

use super::{CommitState, Engine, require_open};
use crate::Error;
use crate::storage::backend::Watcher;
use crate::storage::commit_error::CommitError;
use crate::storage::failure::{engine_panic, guarded, translate};
use crate::storage::journal::{CHECKPOINT_KEY, encode_checkpoint};
use crate::storage::overlay::{Overlay, RowEdit};
use crate::storage::snapshot::{JournalOverlay, definition};

/// With more edits than this in the journal, a commit without waiters makes a checkpoint.
const CHECKPOINT_ROWS: usize = 1024;
/// With more edits than this, a commit with waiters makes one too, and they wait for it.
const CHECKPOINT_ROWS_WITH_WAITERS: usize = 2048;

impl Engine {
    /// Commits all edits or none.
    ///
    /// With `sync` it returns when this commit and all before it are flushed. Without, and if there
    /// is no journal, the commit is visible immediately and is flushed with the next one that is.
    /// `has_waiters`: a caller waits for the commit.
    pub(crate) fn commit(
        &self,
        edits: &Overlay,
        sync: bool,
        has_waiters: bool,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| {
            let mut state = self.commits.lock();
            if let Some(journal) = &mut state.journal {
                journal.check_usable()?;
                unknown.set(true);
                let max = if has_waiters { CHECKPOINT_ROWS_WITH_WAITERS } else { CHECKPOINT_ROWS };
                let fits = self.overlay.read().edits().len() <= max;
                if fits && journal.append(edits)? {
                    self.overlay.read().absorb(edits);
                    return Ok(());
                }
                unknown.set(false);
            }
            self.checkpoint_with(&mut state, sync, edits, unknown)
        })
    }

    /// Writes rows of a new store, sorted by table and key, to the database. Bypasses the journal.
    pub(in crate::storage) fn load(
        &self,
        rows: &mut dyn Iterator<Item = RowEdit<'_>>,
        sync: bool,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| {
            let mut state = self.commits.lock();
            self.write(&mut state, sync, rows, unknown)
        })
    }

    /// Runs `write`, which sets its argument while a failure leaves the outcome unknown.
    pub(super) fn attempt<T>(
        &self,
        write: impl FnOnce(&Cell<bool>) -> Result<T, redb::Error>,
    ) -> Result<T, CommitError> {
        let unknown = Cell::new(false);
        let why = match catch_unwind(AssertUnwindSafe(|| write(&unknown))) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => {
                // The engine returns this error before it writes, and rolls back.
                unknown.set(unknown.get() && !matches!(error, redb::Error::TransactionPoisoned));
                translate(error, &self.io).to_string()
            }
            Err(panic) => engine_panic(panic.as_ref()),
        };
        let is_transient = self.io.first_failure().is_some();
        Err(CommitError { why, outcome_unknown: unknown.get(), is_transient })
    }

    /// Makes a checkpoint that includes `edits`.
    fn checkpoint_with(
        &self,
        state: &mut CommitState,
        sync: bool,
        edits: &Overlay,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let Some(journal) = &state.journal else {
            return self.write(state, sync, &mut edits.rows(), unknown);
        };
        let last_record = encode_checkpoint(journal.last());
        let overlay = self.overlay.read().clone();
        // If disk space is short, removals go first, since only the next commit can reuse their
        // pages. Only those of the journal: until the second commit the journal restores them, but
        // it does not know those of `edits`.
        if self.medium.is_short() {
            self.write(state, true, &mut overlay.edits().removals(), unknown)?;
        }
        overlay.absorb(edits);
        {
            let all = overlay.edits();
            let row = (Table::Meta, CHECKPOINT_KEY, Some(&*last_record));
            self.write(state, true, &mut all.rows().chain([row]), unknown)?;
        }
        if let Some(journal) = &mut state.journal {
            *self.overlay.write() = JournalOverlay::default();
            journal.restart();
        }
        Ok(())
    }

    /// Makes a checkpoint: the database takes all edits of the journal.
    pub(super) fn checkpoint(&self, state: &mut CommitState) -> Result<(), Error> {
        if self.overlay.read().edits().is_empty() {
            return Ok(());
        }
        let no_edits = Overlay::default();
        Ok(self.attempt(|unknown| self.checkpoint_with(state, true, &no_edits, unknown))?)
    }

    /// Makes the last checkpoint, and marks the journal as empty for the next open.
    pub(super) fn checkpoint_at_close(&self) -> Result<(), Error> {
        let mut state = self.commits.lock();
        self.checkpoint(&mut state)?;
        let Some(journal) = &mut state.journal else { return Ok(()) };
        journal.write_end_mark().map_err(|error| self.io_error(error))
    }

    pub(super) fn write(
        &self,
        state: &mut CommitState,
        sync: bool,
        rows: &mut dyn Iterator<Item = RowEdit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let database = self.database.read();
        let mut transaction = require_open(database.as_ref())?.begin_write()?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        // With a journal, commits of the database are rare enough to save the next open a repair.
        transaction.set_quick_repair(sync && state.journal.is_some());
        apply(&transaction, rows)?;
        unknown.set(true);
        transaction.commit()?;
        state.has_flushed |= sync;
        Ok(())
    }

    /// Calls `watcher` at every write from now on. There is one watcher: a later one is ignored.
    pub(crate) fn watch(&self, watcher: Watcher) {
        self.io.watch(watcher);
    }

    /// Returns free space in the file to the file system; true if there was any. It is slow, and
    /// fails while a snapshot exists.
    pub(crate) fn compact(&self) -> Result<bool, Error> {
        self.checkpoint(&mut self.commits.lock())?;
        guarded(&self.io, || self.move_pages())
    }

    /// As [`compact`](Engine::compact), while the store is in use: reads and commits block until
    /// all live pages have been moved. Returns false, and does nothing, while a snapshot exists.
    pub(crate) fn shrink(&self) -> Result<bool, CommitError> {
        let no_edits = Overlay::default();
        self.attempt(|unknown| {
            self.checkpoint_with(&mut self.commits.lock(), true, &no_edits, unknown)
        })?;
        self.attempt(|_| match self.move_pages() {
            Err(redb::Error::TransactionInProgress) => Ok(false),
            moved => moved.map(|_| true),
        })
    }

    /// Moves pages in steps. Each step is a commit that keeps every row, so a crash does no harm.
    fn move_pages(&self) -> Result<bool, redb::Error> {
        let _no_commits = self.commits.lock();
        let mut database = self.database.write();
        Ok(require_open(database.as_mut())?.compact()?)
    }
}

fn apply(
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
