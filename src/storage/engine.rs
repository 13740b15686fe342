//! One open store file: opening it, reading it, closing it.

mod commits;

use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, ReadTransaction, ReadableDatabase, TableHandle};
use tubewell_drivers::{Reads, Table};

use super::backend::{IoCounters, Storage};
use super::checksums::FileImage;
use super::failure::{guarded, not_a_store, translate, translate_opening};
use super::file_header::{LAYOUT, NewerLayout};
use super::generation::Generation;
use super::journal::{Journal, Replayed, TAKEN, decode_taken};
use super::lock_wait::retry_while_in_use;
use super::medium::Medium;
use super::platform;
use super::read_only::{ReadOnly, Unreadable};
use super::snapshot::{JournalOverlay, Snapshot, definition};
use crate::Error;
use crate::sync::{InnerRwLock, Mutex};

/// Default size of the page cache, in bytes.
pub(crate) const CACHE: usize = 64 << 20;

/// How an engine uses its medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    /// Bytes of memory for pages.
    pub(crate) cache: usize,
    /// Bytes of ballast on the disk, and as many that must be free beside it.
    pub(crate) reserve: u64,
}

/// An open store file, or its like in memory.
///
/// Calls that fail never leave the file half changed. After an I/O error, or a failure that is
/// reported as damage, it takes no more writes until it is reopened.
pub(crate) struct Engine {
    /// Gone once closed, and while it cannot be reopened. Held for reading while a commit is
    /// written or a snapshot begun; alone while pages are moved.
    database: InnerRwLock<Option<Database>>,
    medium: Arc<Medium>,
    /// Ends what is left of the database once that is given up.
    superseded: Arc<AtomicBool>,
    cache: usize,
    io: Arc<IoCounters>,
    /// What the journal has and the database has not, laid over it. Replaced by another once the
    /// database has it all, so that older snapshots stay what they are.
    overlay: InnerRwLock<JournalOverlay>,
    /// Held while a commit is written.
    commits: Mutex<CommitState>,
    /// What of the journal could not be read, of a file that is opened untouched.
    lost: Option<String>,
    /// What of the file the disk could not read, of one that is opened untouched.
    unreadable: Unreadable,
}

/// How the file stands.
#[derive(Debug, Default)]
struct CommitState {
    /// The newest commit of the database is one of this engine, and flushed. Before that, the
    /// newest one that the file names may have been given up when the file was opened.
    ours: bool,
    /// `None` in memory, and in files that were made without one.
    journal: Option<Journal>,
}

impl Engine {
    /// Opens the file at `path`, or makes a new store there if it is missing or empty. A lock that
    /// another owner holds is waited for, see [`lock_wait`](super::lock_wait).
    pub(crate) fn open_file(path: &Path, size: Footprint) -> Result<Engine, Error> {
        retry_while_in_use(|| Engine::try_open_file(path, size))
    }

    fn try_open_file(path: &Path, size: Footprint) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let refused =
            |what: &str, error| Error::Io { what: format!("cannot {what} {}: {error}", io.name()) };
        let file = platform::open_or_create(path)?;
        let is_new = file.metadata().map_err(|error| refused("measure", error))?.len() == 0;
        let medium = Medium::file(file, Arc::clone(&io), size.reserve)
            .map_err(|error| refused("open", error))?;
        let engine = Engine::open(medium, Arc::clone(&io), size.cache)?;
        // On every open, not only the first: the process that made the file may have been killed
        // before it came to this. Only of a new file is it certain that it matters.
        match platform::sync_directory_of(path) {
            Err(error) if is_new => Err(refused("flush the directory of", error)),
            _ => Ok(engine),
        }
    }

    /// A new store in memory, gone when it is dropped.
    pub(crate) fn open_memory(cache: usize) -> Result<Engine, Error> {
        let io = IoCounters::new("the store in memory".into());
        Engine::open(Medium::memory(Arc::clone(&io)), io, cache)
    }

    /// Opens the store on a medium of the caller's, or makes a new one if that is empty.
    pub(crate) fn open_on(storage: Box<dyn Storage>, size: Footprint) -> Result<Engine, Error> {
        let io = IoCounters::new("the storage".into());
        let medium = Medium::custom(storage, Arc::clone(&io), size.reserve);
        Engine::open(medium, io, size.cache)
    }

    /// Opens the file at `path` to be read, whatever state it is in, and writes nothing to it.
    /// A lock that another owner holds is waited for.
    pub(crate) fn open_read_only(path: &Path, cache: usize) -> Result<Engine, Error> {
        retry_while_in_use(|| Engine::try_open_read_only(path, cache))
    }

    /// As `open_read_only`, without waiting for the lock.
    pub(crate) fn try_open_read_only(path: &Path, cache: usize) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let refused = |error| Error::Io { what: format!("cannot open {}: {error}", io.name()) };
        // Others can be opened, too, but a directory has no bytes, and a pipe would be waited for;
        // what cannot be read would count as damaged.
        let kind = std::fs::metadata(path).map_err(refused)?;
        if kind.is_dir() {
            return Err(refused(std::io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            let what = format!("cannot open {}: it is no file, a store is one", io.name());
            return Err(Error::Io { what });
        }
        let file = std::fs::File::open(path).map_err(refused)?;
        Engine::of_read_only(file, io, cache)
    }

    fn of_read_only(
        file: std::fs::File,
        io: Arc<IoCounters>,
        cache: usize,
    ) -> Result<Engine, Error> {
        let bytes = ReadOnly::new(file).map_err(|error| translate(error, &io))?;
        let unreadable = bytes.unreadable();
        let mut engine = Engine::closed(Medium::plain(Box::new(bytes), Arc::clone(&io)), io, cache);
        engine.unreadable = unreadable;
        engine.lost = engine.start()?;
        Ok(engine)
    }

    /// Opens a file of which the disk can read nothing.
    #[cfg(test)]
    pub(crate) fn open_unreadable(path: &Path) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let file = std::fs::File::options().write(true).open(path);
        let refused = |error| Error::Io { what: format!("cannot open {}: {error}", io.name()) };
        let file = file.map_err(refused)?;
        Engine::of_read_only(file, io, 1 << 20)
    }

    /// How many pages of a file that was opened untouched were wanted, and the disk could not read
    /// them. They count as zeros, which are not always noticed: nothing at all looks like a store
    /// that was never made, and the rest of a journal like its end.
    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable.count()
    }

    /// What of the newest commits could not be read, in words; only of a file that was opened
    /// untouched: others are not opened then.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn open(medium: Medium, io: Arc<IoCounters>, cache: usize) -> Result<Engine, Error> {
        let mut engine = Engine::closed(medium, io, cache);
        engine.start_whole()?;
        Ok(engine)
    }

    fn closed(medium: Medium, io: Arc<IoCounters>, cache: usize) -> Engine {
        Engine {
            database: InnerRwLock::default(),
            medium: Arc::new(medium),
            superseded: Arc::default(),
            cache,
            io,
            overlay: InnerRwLock::default(),
            commits: Mutex::default(),
            lost: None,
            unreadable: Unreadable::default(),
        }
    }

    /// Opens the database again on the same medium, after a failure. An error leaves the engine
    /// without one: try again later.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.superseded.store(true, Ordering::SeqCst);
        let database = self.database.get_mut().take();
        // Whatever it says: it did not get to the medium.
        let _ = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        self.io.forgive();
        let rewritten = self.medium.rewrite_unflushed();
        rewritten.map_err(|error| self.refused(error))?;
        self.start_whole()
    }

    fn start_whole(&mut self) -> Result<(), Error> {
        match self.start()? {
            None => Ok(()),
            Some(lost) => Err(Error::corrupt(format!("{}: {lost}", self.io.name()))),
        }
    }

    /// Answers with what could not be read of the journal.
    fn start(&mut self) -> Result<Option<String>, Error> {
        self.superseded = Arc::default();
        let generation = Generation::new(Arc::clone(&self.medium), Arc::clone(&self.superseded));
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache);
        let opened = guarded(&self.io, || Ok(builder.create_with_backend(generation)))?;
        *self.commits.lock() = CommitState::default();
        *self.overlay.write() = JournalOverlay::default();
        let opened = opened.map_err(|error| self.newer_layout(error.into()));
        *self.database.get_mut() = Some(opened?);
        self.refuse_strangers()?;
        if self.medium.has_journal() { self.replay() } else { Ok(None) }
    }

    /// Lays what the journal has over the database; answers with what could not be read of it.
    fn replay(&mut self) -> Result<Option<String>, Error> {
        let taken = match self.taken() {
            Ok(taken) => taken,
            Err(Error::Corrupt { what }) => return Ok(Some(what)),
            Err(error) => return Err(error),
        };
        let replayed = Journal::replay(&self.medium, taken);
        let Replayed { journal, edits, damage } = replayed.map_err(|error| self.refused(error))?;
        self.commits.lock().journal = Some(journal);
        *self.overlay.write() = JournalOverlay::new(edits);
        Ok(damage)
    }

    /// The number of the last record of the journal that the database has.
    fn taken(&self) -> Result<u64, Error> {
        decode_taken(self.snapshot()?.get(Table::Meta, TAKEN)?.as_deref())
    }

    fn newer_layout(&self, error: redb::Error) -> Error {
        if let redb::Error::Io(why) = &error
            && let Some(NewerLayout(found)) = why.get_ref().and_then(|why| why.downcast_ref())
        {
            return Error::NewerFormat { what: "layout", found: *found, supported: LAYOUT };
        }
        translate_opening(error, &self.io)
    }

    /// Whether the disk has room for `bytes` more, beside those on their way already, and for what
    /// must go on when it is full.
    pub(crate) fn admits(&self, bytes: u64, on_their_way: u64) -> bool {
        self.medium.admits(bytes, on_their_way)
    }

    /// Whether nothing has run out of room on the disk yet.
    pub(crate) fn has_ballast(&self) -> bool {
        self.medium.has_ballast()
    }

    /// An application's own file must not become a store by mistake. Each of ours has its header
    /// from the first commit on.
    fn refuse_strangers(&self) -> Result<(), Error> {
        let header = Table::Meta.name();
        let strange = guarded(&self.io, || {
            let transaction = self.begin_read()?;
            let names: Vec<_> = transaction.list_tables()?.map(|t| t.name().to_owned()).collect();
            let ours = names.is_empty() || names.iter().any(|name| name == header);
            for table in Table::ALL.into_iter().filter(|t| names.iter().any(|n| n == t.name())) {
                transaction.open_table(definition(table))?;
            }
            Ok(if ours { None } else { names.into_iter().next() })
        })?;
        match strange {
            None => Ok(()),
            Some(table) => Err(not_a_store(
                &self.io,
                format!("it holds a table {table:?} but no {header:?}: another application's?"),
            )),
        }
    }

    /// The rows as of the last commit, or a later one. For reads that are soon over: rows of
    /// later commits may show up in it one by one.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        // First what is laid over: the database may take that in meanwhile, but no more than that.
        let overlay = self.overlay.read();
        let transaction = guarded(&self.io, || self.begin_read())?;
        let overlay = self.medium.has_journal().then(|| overlay.clone());
        Ok(Snapshot::new(transaction, overlay, Arc::clone(&self.io)))
    }

    /// The rows as of the last commit, whatever is committed meanwhile.
    pub(crate) fn stable_snapshot(&self) -> Result<Snapshot, Error> {
        let mut state = self.commits.lock();
        self.checkpoint(&mut state)?;
        let transaction = guarded(&self.io, || self.begin_read())?;
        Ok(Snapshot::new(transaction, None, Arc::clone(&self.io)))
    }

    /// Whether every page of the last commit that was flushed is what was written; if not, says in
    /// words what is wrong. Reads them all, while commits go on.
    pub(crate) fn check_pages(&self) -> Result<Option<String>, Error> {
        let still = || {
            let still = FileImage::of(&self.medium);
            still.map_err(|error| Error::Io { what: format!("{}: {error}", self.io.name()) })
        };
        let (snapshot, before) = {
            let state = self.commits.lock();
            let checked = state.journal.as_ref().map(Journal::check).transpose();
            if let Some(damage) = checked.map_err(|error| self.refused(error))?.flatten() {
                return Ok(Some(damage));
            }
            (self.snapshot()?, still()?)
        };
        // The snapshot keeps the rows' pages, but not those of the engine's own books.
        let found = before.check(&self.io);
        drop(snapshot);
        if matches!(found, Ok(None)) {
            return found;
        }
        let mut state = self.commits.lock();
        // A commit that writes no row: one that copies a damaged page makes it look sound.
        let nothing = &mut std::iter::empty();
        let ours = state.ours;
        let own = |unknown: &Cell<_>| self.write(&mut state, true, nothing, unknown);
        if !ours && self.attempt(own).is_err() {
            return found;
        }
        let after = still()?;
        if after.is(&before) { found } else { after.check(&self.io) }
    }

    /// The bytes of the file; 0 if it cannot tell.
    pub(crate) fn size(&self) -> u64 {
        self.medium.bytes.whole.len().unwrap_or(0)
    }

    /// How many edits the journal has and the database has not, and how many bytes they have.
    pub(crate) fn uncheckpointed(&self) -> (usize, usize) {
        let overlay = self.overlay.read();
        let edits = overlay.edits();
        (edits.len(), edits.bytes())
    }

    /// What has gone to and from the file.
    pub(crate) fn counters(&self) -> &IoCounters {
        &self.io
    }

    /// Closes the file, with every commit safe from a power cut, and so that the next open needs
    /// no repair. After an error the next open repairs; commits without `sync` may be lost.
    pub(crate) fn close(mut self) -> Result<(), Error> {
        // Earlier failures were told to those whom they concerned, or were overcome: the engine
        // writes some pages ahead, and again if that failed.
        self.io.forgive();
        let settled = self.checkpoint_at_close();
        self.shut()?;
        settled?;
        self.io.first_failure().map_or(Ok(()), |what| Err(Error::Io { what }))
    }

    fn shut(&mut self) -> Result<(), Error> {
        let database = self.database.get_mut().take();
        let shut = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        // Snapshots that are still about must not read what the next owner writes.
        self.superseded.store(true, Ordering::SeqCst);
        self.medium.close();
        shut
    }

    /// What it means that the medium refused a call.
    fn refused(&self, error: std::io::Error) -> Error {
        translate(redb::Error::Io(error), &self.io)
    }

    fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        Ok(open(self.database.read().as_ref())?.begin_read()?)
    }
}

fn open<T>(database: Option<T>) -> Result<T, redb::Error> {
    database.ok_or(redb::Error::DatabaseClosed)
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Whoever wants to know how it went calls close.
        let _ = self.shut();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("io", &self.io).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
