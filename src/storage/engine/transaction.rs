//! A transaction of the database that the application writes its own tables in.
//!
//! Invariant: edits of the store join it after the application has finished, and then it is
//! committed. So an abort takes back what the application has written, and nothing else.

use redb::{Durability, ReadTransaction, ReadableTable, WriteTransaction};
use tubewell_drivers::Table;

use super::commits::{Checkpoint, apply};
use super::{Engine, require_open};
use crate::Error;
use crate::base::sync::MutexGuard;
use crate::storage::commit_error::CommitError;
use crate::storage::failure::guarded;
use crate::storage::journal::CHECKPOINT_KEY;
use crate::storage::reader::definition;

/// From this size on, a walk of all trees takes longer than a third of a second.
const LARGE_FILE: u64 = 128 << 20;

/// An open transaction. No commit of the database runs beside it.
pub(crate) struct EngineTransaction<'a> {
    engine: &'a Engine,
    has_flushed: MutexGuard<'a, bool>,
    transaction: WriteTransaction,
    /// The medium had failed before.
    had_failed: bool,
}

impl Engine {
    /// Begins a transaction. Blocks until the commit of the database in progress has ended.
    pub(crate) fn begin_transaction(&self) -> Result<EngineTransaction<'_>, Error> {
        let has_flushed = self.writing.lock();
        let had_failed = self.io.first_failure().is_some();
        let transaction = guarded(&self.io, || {
            let database = self.database.read();
            let mut transaction = require_open(database.as_ref())?.begin_write()?;
            transaction.set_durability(Durability::Immediate)?;
            // Quick repair doubles the flushes. Without it, after a kill the next open walks the trees.
            let is_large = self.size() > LARGE_FILE;
            transaction.set_quick_repair(is_large && self.journal.is_some());
            Ok(transaction)
        })?;
        Ok(EngineTransaction { engine: self, has_flushed, transaction, had_failed })
    }

    /// Begins a transaction that reads the database as of its last commit.
    pub(crate) fn begin_view(&self) -> Result<ReadTransaction, Error> {
        guarded(&self.io, || self.begin_read())
    }
}

impl EngineTransaction<'_> {
    /// The application's side.
    pub(crate) fn tables(&self) -> &WriteTransaction {
        &self.transaction
    }

    /// Returns an error if the engine would refuse the commit: a call of the application has
    /// panicked, or has failed half-way. The engine does not say so before the commit, but it
    /// forgets what is written from then on.
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        let mark: &[u8] = b"usable";
        let is_usable = guarded(&self.engine.io, || {
            let meta = || self.transaction.open_table(definition(Table::Meta));
            // The commit replaces the row, if there is a journal.
            meta()?.insert(CHECKPOINT_KEY, mark)?;
            let is_usable = meta()?.get(CHECKPOINT_KEY)?.is_some_and(|row| row.value() == mark);
            if self.engine.journal.is_none() {
                meta()?.remove(CHECKPOINT_KEY)?;
            }
            Ok(is_usable)
        })?;
        if is_usable {
            return Ok(());
        }
        let what = "an earlier call on a table of this transaction has panicked or failed half-way";
        Err(Error::Table { what: what.to_owned() })
    }

    /// Commits it, with these edits of the store.
    pub(crate) fn commit(self, edits: &Checkpoint) -> Result<(), CommitError> {
        let EngineTransaction { engine, mut has_flushed, transaction, .. } = self;
        engine.attempt(|unknown| {
            let row = engine.checkpoint_row(edits);
            apply(&transaction, &mut edits.rows(row.as_ref()))?;
            unknown.set(true);
            engine.kept_reader.change(&engine.io, || transaction.commit())?;
            *has_flushed = true;
            engine.note_checkpointed(edits)
        })
    }

    /// Takes back what the application has written. Returns an error if the medium has failed since
    /// the begin: the engine must be reopened then.
    pub(crate) fn abort(self) -> Result<(), Error> {
        let EngineTransaction { engine, transaction, had_failed, .. } = self;
        guarded(&engine.io, || Ok(transaction.abort()?))?;
        match engine.io.first_failure() {
            Some(what) if !had_failed => Err(Error::Io { what }),
            _ => Ok(()),
        }
    }
}
