//! An open store file: reading it, verifying it, closing it.
//!
//! Invariant: a failed call never leaves the file half changed. After an I/O error or damage the
//! engine accepts no further write until it is reopened.

mod commits;
mod open;
#[cfg(feature = "redb")]
mod transaction;

pub(crate) use commits::Checkpoint;
#[cfg(feature = "redb")]
pub(crate) use transaction::EngineTransaction;

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Database, ReadTransaction, ReadableDatabase};

use super::backend::IoCounters;
use super::checksums::FileImage;
use super::failure::{guarded, translate};
use super::journal::Journal;
use super::medium::Medium;
use super::overlay::Overlay;
use super::platform::refuse_existing;
use super::read_only::UnreadablePages;
use super::reader::KeptReader;
use super::snapshot::Snapshot;
use crate::Error;
use crate::base::sync::{InnerRwLock, Mutex};
use crate::values::scrape::FileScrape;

/// Default size of the page cache, in bytes.
pub(crate) const CACHE: usize = 64 << 20;

/// The memory and the disk space that an engine uses, and who may use its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// The size of the page cache, in bytes.
    pub(crate) cache: usize,
    /// The size of the ballast in bytes. As many bytes must be free besides for a put.
    pub(crate) reserve: u64,
    /// The mode of a file that is created, without the bits of the umask. Ignored on systems without modes.
    pub(crate) mode: u32,
}

/// The mode of new files: what tasks contain is for the user of their store alone.
pub(crate) const PRIVATE: u32 = 0o600;

/// An open store: a database and a journal on one medium.
pub(crate) struct Engine {
    /// `None` once closed, and while it cannot be reopened. Locked for reading while a commit is
    /// written or a snapshot begins, for writing while pages are moved.
    database: InnerRwLock<Option<Database>>,
    medium: Arc<Medium>,
    /// The reader that snapshots use in turn.
    kept_reader: Arc<KeptReader>,
    /// Set when the database is closed or reopened: fences snapshots of the old one.
    superseded: Arc<AtomicBool>,
    cache: usize,
    io: Arc<IoCounters>,
    /// `None` in memory.
    journal: Option<Arc<Journal>>,
    /// What the journal had at open and the database has not, also if that is nothing but a new salt.
    /// Snapshots have it on top, until the write buffer takes it.
    replayed: Option<Arc<Overlay>>,
    /// Locked while the database is written. Whether this engine has flushed a commit of it: until
    /// then the file's newest commit may be one that a repair has rolled back.
    writing: Mutex<bool>,
    /// Why the newest commits of a file that was opened read-only cannot be read.
    journal_damage: Option<String>,
    /// The pages of a file that was opened read-only that the disk cannot read.
    unreadable: UnreadablePages,
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

    /// The journal, if commits go there first.
    pub(crate) fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    /// The number of the last record of the journal; 0 without one.
    pub(crate) fn last_record(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.last())
    }

    /// Returns what the journal had at open and the database has not. From now on snapshots do not
    /// have it.
    pub(crate) fn take_replayed(&mut self) -> Overlay {
        let replayed = self.replayed.take().and_then(Arc::into_inner);
        replayed.unwrap_or_default()
    }

    /// Refuses a copy at the path of the file, which may have been removed: the copy would stand in for it.
    pub(crate) fn refuse_own_path(&self, to: &Path) -> Result<(), Error> {
        if !self.medium.is_named(to) {
            return Ok(());
        }
        refuse_existing(to)?;
        Err(Error::invalid(format!(
            "{} is the path of the store itself, whose file was removed: a backup there would replace it; make \
             the backup at another path, close the store, and then move the backup here",
            to.display()
        )))
    }

    /// The rows of the database, with these edits above them.
    pub(crate) fn snapshot_below(&self, above: Overlay) -> Result<Snapshot, Error> {
        self.snapshot_with(Some(Arc::new(above)))
    }

    /// The rows of the database, as of its last commit.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        self.snapshot_with(self.replayed.clone())
    }

    fn snapshot_with(&self, overlay: Option<Arc<Overlay>>) -> Result<Snapshot, Error> {
        let reader = self.kept_reader.borrow(|| guarded(&self.io, || self.begin_read()))?;
        Ok(Snapshot::new(reader, Arc::clone(&self.kept_reader), overlay, Arc::clone(&self.io)))
    }

    /// Verifies the checksum of every page of the last flushed commit, while commits go on. Returns
    /// a description of the damage, or `None` if there is none.
    pub(crate) fn check_pages(&self) -> Result<Option<String>, Error> {
        let image = || {
            let image = FileImage::of(&self.medium);
            image.map_err(|error| Error::Io { what: format!("{}: {error}", self.io.name()) })
        };
        let (snapshot, before) = {
            let _no_commits = self.writing.lock();
            let checked = self.journal.as_ref().map(|journal| journal.check()).transpose();
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
        let mut has_flushed = self.writing.lock();
        // A commit without rows: one that copies a damaged page gives the copy a right checksum.
        let no_rows = &mut std::iter::empty();
        let was_flushed = *has_flushed;
        let write = |unknown: &Cell<_>| self.write(&mut has_flushed, true, no_rows, unknown);
        if !was_flushed && self.attempt(write).is_err() {
            return found;
        }
        let after = image()?;
        if after.is_same_commit(&before) { found } else { after.check(&self.io) }
    }

    /// The size of the file in bytes; 0 if it cannot be determined.
    pub(crate) fn size(&self) -> u64 {
        self.medium.bytes.whole.len().unwrap_or(0)
    }

    /// The file as a scrape shows it. Asks the operating system.
    pub(crate) fn scrape(&self) -> FileScrape {
        FileScrape {
            size: self.size(),
            journal: self.journal.as_ref().map_or(0, |journal| journal.used()),
            reserve: self.medium.reserve(),
            headroom: self.medium.headroom(),
        }
    }

    /// The I/O on the file.
    pub(crate) fn counters(&self) -> &IoCounters {
        &self.io
    }

    /// Closes the file, after the database has taken all edits. After `Ok` the next open needs no
    /// repair. After an error the next open repairs the file, and commits without `sync` may be lost.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        // Earlier failures were reported to their callers or were repaired: the engine writes some
        // pages ahead, and writes them again if that failed.
        self.io.clear_failure();
        let marked = self.checkpoint_replayed().and_then(|()| self.mark_journal_as_empty());
        self.release()?;
        marked?;
        self.io.first_failure().map_or(Ok(()), |what| Err(Error::Io { what }))
    }

    fn release(&mut self) -> Result<(), Error> {
        // A caller may be about to write its record. The file may soon have another owner.
        if let Some(journal) = &self.journal {
            journal.retire();
        }
        let closed = self.close_database();
        // Snapshots that still exist must not read what the next owner writes.
        self.superseded.store(true, Ordering::SeqCst);
        self.medium.close();
        closed
    }

    fn close_database(&mut self) -> Result<(), Error> {
        let database = self.database.get_mut().take();
        let close = || {
            drop(database);
            Ok(())
        };
        self.kept_reader.change(&self.io, || guarded(&self.io, close))
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
