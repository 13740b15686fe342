//! An open store file: reading it, verifying it, closing it.
//!
//! Invariant: a failed call never leaves the file half changed. After an I/O error or damage the
//! engine accepts no further write until it is reopened.

mod commits;
mod open;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, ReadTransaction, ReadableDatabase};

use super::backend::IoCounters;
use super::checksums::FileImage;
use super::failure::{guarded, translate};
use super::journal::Journal;
use super::medium::Medium;
use super::read_only::UnreadablePages;
use super::snapshot::{JournalOverlay, Snapshot};
use crate::Error;
use crate::sync::{InnerRwLock, Mutex};

/// Default size of the page cache, in bytes.
pub(crate) const CACHE: usize = 64 << 20;

/// The memory and the disk space that an engine uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// The size of the page cache, in bytes.
    pub(crate) cache: usize,
    /// The size of the ballast in bytes. As many bytes must be free besides for a put.
    pub(crate) reserve: u64,
}

/// An open store: a database and a journal on one medium.
pub(crate) struct Engine {
    /// `None` once closed, and while it cannot be reopened. Locked for reading while a commit is
    /// written or a snapshot begins, for writing while pages are moved.
    database: InnerRwLock<Option<Database>>,
    medium: Arc<Medium>,
    /// Set when the database is closed or reopened: fences snapshots of the old one.
    superseded: Arc<AtomicBool>,
    cache: usize,
    io: Arc<IoCounters>,
    /// The edits that the journal has and the database has not. A checkpoint replaces it by an
    /// empty one, so that older snapshots keep theirs.
    overlay: InnerRwLock<JournalOverlay>,
    /// Locked while a commit is written.
    commits: Mutex<CommitState>,
    /// Why the newest commits of a file that was opened read-only cannot be read.
    journal_damage: Option<String>,
    /// The pages of a file that was opened read-only that the disk cannot read.
    unreadable: UnreadablePages,
}

/// What the next commit builds on.
#[derive(Debug, Default)]
struct CommitState {
    /// This engine has flushed a commit of the database. Until then the file's newest commit may be
    /// one that a repair has rolled back.
    has_flushed: bool,
    /// `None` in memory, and in files of releases before the journal.
    journal: Option<Journal>,
}

impl Engine {
    /// How many pages of a file that was opened read-only were requested and could not be read.
    /// They are returned as zeros. The engine does not always detect that: a file of zeros looks
    /// like an empty store, and zeros in the journal look like its end.
    pub(crate) fn unreadable_pages(&self) -> usize {
        self.unreadable.count()
    }

    /// Why the newest commits cannot be read. Only a file that is opened read-only opens then.
    pub(crate) fn journal_damage(&self) -> Option<&str> {
        self.journal_damage.as_deref()
    }

    /// Whether the disk has space for `bytes` more, besides the `uncommitted` bytes, and for the
    /// work that must go on when it is full.
    pub(crate) fn admits(&self, bytes: u64, uncommitted: u64) -> bool {
        self.medium.admits(bytes, uncommitted)
    }

    /// Whether the ballast is held: no write has run out of disk space.
    pub(crate) fn has_ballast(&self) -> bool {
        self.medium.has_ballast()
    }

    /// The rows as of the last commit or a later one. Rows of later commits may appear in it one by
    /// one, so it is for short reads.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        // The overlay is taken before the transaction: a checkpoint in between puts its edits into
        // the database too, so that an edit may be seen twice but never missed.
        let overlay = self.overlay.read();
        let transaction = guarded(&self.io, || self.begin_read())?;
        let overlay = self.medium.has_journal().then(|| overlay.clone());
        Ok(Snapshot::new(transaction, overlay, Arc::clone(&self.io)))
    }

    /// The rows as of the last commit. Later commits do not appear in it. Makes a checkpoint.
    pub(crate) fn stable_snapshot(&self) -> Result<Snapshot, Error> {
        let mut state = self.commits.lock();
        self.checkpoint(&mut state)?;
        let transaction = guarded(&self.io, || self.begin_read())?;
        Ok(Snapshot::new(transaction, None, Arc::clone(&self.io)))
    }

    /// Verifies the checksum of every page of the last flushed commit, while commits go on. Returns
    /// a description of the damage, or `None` if there is none.
    pub(crate) fn check_pages(&self) -> Result<Option<String>, Error> {
        let image = || {
            let image = FileImage::of(&self.medium);
            image.map_err(|error| Error::Io { what: format!("{}: {error}", self.io.name()) })
        };
        let (snapshot, before) = {
            let state = self.commits.lock();
            let checked = state.journal.as_ref().map(Journal::check).transpose();
            if let Some(damage) = checked.map_err(|error| self.io_error(error))?.flatten() {
                return Ok(Some(damage));
            }
            (self.snapshot()?, image()?)
        };
        // The snapshot keeps the pages of the rows, but commits reuse those of the engine's own
        // allocator: damage that was found must be confirmed without commits in between.
        let found = before.check(&self.io);
        drop(snapshot);
        if matches!(found, Ok(None)) {
            return found;
        }
        let mut state = self.commits.lock();
        // A commit without rows: one that copies a damaged page gives the copy a right checksum.
        let no_rows = &mut std::iter::empty();
        let has_flushed = state.has_flushed;
        let write = |unknown: &Cell<_>| self.write(&mut state, true, no_rows, unknown);
        if !has_flushed && self.attempt(write).is_err() {
            return found;
        }
        let after = image()?;
        if after.is_same_commit(&before) { found } else { after.check(&self.io) }
    }

    /// The size of the file in bytes; 0 if it cannot be determined.
    pub(crate) fn size(&self) -> u64 {
        self.medium.bytes.whole.len().unwrap_or(0)
    }

    /// The number of edits that the journal has and the database has not, and their size in bytes.
    pub(crate) fn uncheckpointed(&self) -> (usize, usize) {
        let overlay = self.overlay.read();
        let edits = overlay.edits();
        (edits.len(), edits.bytes())
    }

    /// The I/O on the file.
    pub(crate) fn counters(&self) -> &IoCounters {
        &self.io
    }

    /// Closes the file. After `Ok` every commit is flushed and the next open needs no repair. After
    /// an error the next open repairs the file, and commits without `sync` may be lost.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        // Earlier failures were reported to their callers or were repaired: the engine writes some
        // pages ahead, and writes them again if that failed.
        self.io.clear_failure();
        let checkpointed = self.checkpoint_at_close();
        self.release()?;
        checkpointed?;
        self.io.first_failure().map_or(Ok(()), |what| Err(Error::Io { what }))
    }

    fn release(&mut self) -> Result<(), Error> {
        let database = self.database.get_mut().take();
        let closed = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        // Snapshots that still exist must not read what the next owner writes.
        self.superseded.store(true, Ordering::SeqCst);
        self.medium.close();
        closed
    }

    /// Translates an error of the medium.
    fn io_error(&self, error: std::io::Error) -> Error {
        translate(redb::Error::Io(error), &self.io)
    }

    fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        Ok(require_open(self.database.read().as_ref())?.begin_read()?)
    }
}

fn require_open<T>(database: Option<T>) -> Result<T, redb::Error> {
    database.ok_or(redb::Error::DatabaseClosed)
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        let _ = self.release();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("io", &self.io).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
