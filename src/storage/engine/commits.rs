//! Commits: into the journal, and from there into the database.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{Durability, WriteTransaction};
use tubewell_drivers::Table;

use super::{Engine, Standing, open};
use crate::Error;
use crate::storage::backend::Watcher;
use crate::storage::failure::{guarded, told, translate};
use crate::storage::journal::{TAKEN, encode_taken};
use crate::storage::layer::Layer;
use crate::storage::snapshot::{Over, definition};

/// One row to be written: its table and key, and its new value, or `None` to remove it.
pub(in crate::storage) type Edit<'a> = (Table, &'a [u8], Option<&'a [u8]>);

/// A batch that was not committed, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitError {
    /// What the engine said.
    pub(crate) why: String,
    /// The batch may be in the file, wholly; otherwise it certainly is not.
    pub(crate) unknown: bool,
    /// The medium refused something: once it works again the engine can be reopened. Otherwise the
    /// file is damaged, or the engine has a defect.
    pub(crate) may_pass: bool,
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Error {
        if error.may_pass { Error::Io { what: error.why } } else { Error::corrupt(error.why) }
    }
}

/// The database takes what the journal has when it is more than so many rows and nobody waits for
/// the commit,
const ENOUGH_ROWS: usize = 1024;
/// or more than so many and somebody does, who is not to wait long.
const MOST_ROWS: usize = 2048;

impl Engine {
    /// Makes a commit, all of it or nothing.
    ///
    /// With `sync` it returns when the commit and all before it are safe from a power cut; without,
    /// it is visible at once and safe with the next one that is, where there is no journal. `awaited`:
    /// somebody waits for it.
    pub(crate) fn commit(
        &self,
        edits: &Layer,
        sync: bool,
        awaited: bool,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| {
            let mut standing = self.commits.lock();
            if let Some(journal) = &mut standing.journal {
                journal.check_usable()?;
                unknown.set(true);
                let most = if awaited { MOST_ROWS } else { ENOUGH_ROWS };
                let few = self.over.read().edits().len() <= most;
                if few && journal.append(edits)? {
                    self.over.read().absorb(edits);
                    return Ok(());
                }
                unknown.set(false);
            }
            self.pass_on(&mut standing, sync, edits, unknown)
        })
    }

    /// Writes rows of a store that is being made, sorted by table and key, past the journal.
    pub(in crate::storage) fn load(
        &self,
        rows: &mut dyn Iterator<Item = Edit<'_>>,
        sync: bool,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| {
            let mut standing = self.commits.lock();
            self.write(&mut standing, sync, rows, unknown)
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
            Err(panic) => told(panic.as_ref()),
        };
        let may_pass = self.io.first_failure().is_some();
        Err(CommitError { why, unknown: unknown.get(), may_pass })
    }

    /// Has the database take all that the journal has, and these edits.
    fn pass_on(
        &self,
        standing: &mut Standing,
        sync: bool,
        edits: &Layer,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let Some(journal) = &standing.journal else {
            return self.write(standing, sync, &mut edits.rows(), unknown);
        };
        let taken = encode_taken(journal.last());
        let over = self.over.read().clone();
        // The pages of what is removed can be used by the next commit only. Between the two the
        // journal makes up for what is missing, and so they are not to be of what it has not.
        if self.medium.is_short() {
            self.write(standing, true, &mut over.edits().removals(), unknown)?;
        }
        over.absorb(edits);
        {
            let all = over.edits();
            let mut rows = all.rows().chain([(Table::Meta, TAKEN, Some(&*taken))]);
            self.write(standing, true, &mut rows, unknown)?;
        }
        if let Some(journal) = &mut standing.journal {
            *self.over.write() = Over::default();
            journal.restart();
        }
        Ok(())
    }

    /// Has the database take all that the journal has.
    pub(super) fn settle(&self, standing: &mut Standing) -> Result<(), Error> {
        if self.over.read().edits().is_empty() {
            return Ok(());
        }
        let nothing = Layer::default();
        Ok(self.attempt(|unknown| self.pass_on(standing, true, &nothing, unknown))?)
    }

    /// As `settle`, for the last time: the next open finds that there is nothing in the journal.
    pub(super) fn settle_for_good(&self) -> Result<(), Error> {
        let mut standing = self.commits.lock();
        self.settle(&mut standing)?;
        let Some(journal) = &mut standing.journal else { return Ok(()) };
        journal.mark_end().map_err(|error| self.refused(error))
    }

    pub(super) fn write(
        &self,
        standing: &mut Standing,
        sync: bool,
        rows: &mut dyn Iterator<Item = Edit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let database = self.database.read();
        let mut transaction = open(database.as_ref())?.begin_write()?;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        // Where commits are few, each can afford to spare the next open a repair.
        transaction.set_quick_repair(sync && standing.journal.is_some());
        apply(&transaction, rows)?;
        unknown.set(true);
        transaction.commit()?;
        standing.ours |= sync;
        Ok(())
    }

    /// Has the watcher told of the bytes that are written from now on. There is one at most.
    pub(crate) fn watch(&self, watcher: Watcher) {
        self.io.watch(watcher);
    }

    /// Gives free space in the file back to the file system; `true` if there was any. Slow, and
    /// nobody else may hold a snapshot.
    pub(crate) fn compact(&self) -> Result<bool, Error> {
        self.settle(&mut self.commits.lock())?;
        guarded(&self.io, || self.move_pages())
    }

    /// As `compact`, beside others, who cannot begin to read or to write meanwhile: it takes as
    /// long as moving all that lives in the database does. False if somebody holds a snapshot: nothing
    /// is done then.
    pub(crate) fn shrink(&self) -> Result<bool, CommitError> {
        let nothing = Layer::default();
        self.attempt(|unknown| self.pass_on(&mut self.commits.lock(), true, &nothing, unknown))?;
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
    edits: &mut dyn Iterator<Item = Edit<'_>>,
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
