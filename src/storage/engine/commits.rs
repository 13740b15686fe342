//! Commits: into the journal, and from there into the database.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Durability, WriteTransaction};
use tubewell_drivers::Table;

use super::{CommitState, Engine, open};
use crate::Error;
use crate::storage::backend::Watcher;
use crate::storage::commit_error::CommitError;
use crate::storage::failure::{engine_panic, guarded, translate};
use crate::storage::journal::{TAKEN, encode_taken};
use crate::storage::overlay::{Overlay, RowEdit};
use crate::storage::snapshot::{JournalOverlay, definition};

/// The database takes what the journal has when it is more than so many rows and nobody waits for
/// the commit,
const ENOUGH_ROWS: usize = 1024;
/// or more than so many and somebody does, who is not to wait long.
const MOST_ROWS: usize = 2048;

impl Engine {
    /// Makes a commit, all of it or nothing.
    ///
    /// With `sync` it returns when the commit and all before it are safe from a power cut; without,
    /// it is visible at once and safe with the next one that is, where there is no journal. `has_waiters`:
    /// somebody waits for it.
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
                let most = if has_waiters { MOST_ROWS } else { ENOUGH_ROWS };
                let few = self.overlay.read().edits().len() <= most;
                if few && journal.append(edits)? {
                    self.overlay.read().absorb(edits);
                    return Ok(());
                }
                unknown.set(false);
            }
            self.checkpoint_with(&mut state, sync, edits, unknown)
        })
    }

    /// Writes rows of a store that is being made, sorted by table and key, past the journal.
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

    /// Runs a call that writes; it tells from when on what it writes may reach the file.
    pub(super) fn attempt<T>(
        &self,
        write: impl FnOnce(&Cell<bool>) -> Result<T, redb::Error>,
    ) -> Result<T, CommitError> {
        let unknown = Cell::new(false);
        let why = match catch_unwind(AssertUnwindSafe(|| write(&unknown))) {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => {
                // The engine checks this first, and rolls back.
                unknown.set(unknown.get() && !matches!(error, redb::Error::TransactionPoisoned));
                translate(error, &self.io).to_string()
            }
            Err(panic) => engine_panic(panic.as_ref()),
        };
        let may_pass = self.io.first_failure().is_some();
        Err(CommitError { why, unknown: unknown.get(), may_pass })
    }

    /// Has the database take all that the journal has, and these edits.
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
        let taken = encode_taken(journal.last());
        let overlay = self.overlay.read().clone();
        // The pages of what is removed can be used by the next commit only. Between the two the
        // journal makes up for what is missing, and so they are not to be of what it has not.
        if self.medium.is_short() {
            self.write(state, true, &mut overlay.edits().removals(), unknown)?;
        }
        overlay.absorb(edits);
        {
            let all = overlay.edits();
            let mut rows = all.rows().chain([(Table::Meta, TAKEN, Some(&*taken))]);
            self.write(state, true, &mut rows, unknown)?;
        }
        if let Some(journal) = &mut state.journal {
            *self.overlay.write() = JournalOverlay::default();
            journal.restart();
        }
        Ok(())
    }

    /// Has the database take all that the journal has.
    pub(super) fn checkpoint(&self, state: &mut CommitState) -> Result<(), Error> {
        if self.overlay.read().edits().is_empty() {
            return Ok(());
        }
        let nothing = Overlay::default();
        Ok(self.attempt(|unknown| self.checkpoint_with(state, true, &nothing, unknown))?)
    }

    /// As `checkpoint`, for the last time: the next open finds that there is nothing in the journal.
    pub(super) fn checkpoint_at_close(&self) -> Result<(), Error> {
        let mut state = self.commits.lock();
        self.checkpoint(&mut state)?;
        let Some(journal) = &mut state.journal else { return Ok(()) };
        journal.mark_end().map_err(|error| self.refused(error))
    }

    pub(super) fn write(
        &self,
        state: &mut CommitState,
        sync: bool,
        rows: &mut dyn Iterator<Item = RowEdit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let database = self.database.read();
        let mut transaction = open(database.as_ref())?.begin_write()?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        // Where commits are few, each can afford to spare the next open a repair.
        transaction.set_quick_repair(sync && state.journal.is_some());
        apply(&transaction, rows)?;
        unknown.set(true);
        transaction.commit()?;
        state.ours |= sync;
        Ok(())
    }

    /// Has the watcher told of the bytes that are written from now on. There is one at most.
    pub(crate) fn watch(&self, watcher: Watcher) {
        self.io.watch(watcher);
    }

    /// Gives free space in the file back to the file system; `true` if there was any. Slow, and
    /// nobody else may hold a snapshot.
    pub(crate) fn compact(&self) -> Result<bool, Error> {
        self.checkpoint(&mut self.commits.lock())?;
        guarded(&self.io, || self.move_pages())
    }

    /// As `compact`, beside others, who cannot begin to read or to write meanwhile: it takes as
    /// long as moving all that lives in the database does. False if somebody holds a snapshot: nothing
    /// is done then.
    pub(crate) fn shrink(&self) -> Result<bool, CommitError> {
        let nothing = Overlay::default();
        self.attempt(|unknown| {
            self.checkpoint_with(&mut self.commits.lock(), true, &nothing, unknown)
        })?;
        self.attempt(|_| match self.move_pages() {
            Err(redb::Error::TransactionInProgress) => Ok(false),
            moved => moved.map(|_| true),
        })
    }

    /// Each step of it is a commit: cut off at any moment it leaves every row as it was.
    fn move_pages(&self) -> Result<bool, redb::Error> {
        let _nobody_writes = self.commits.lock();
        let mut database = self.database.write();
        Ok(open(database.as_mut())?.compact()?)
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
