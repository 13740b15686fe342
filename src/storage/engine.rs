//! One open store file: opening it, writing a batch, closing it.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, Database, Durability, ReadTransaction, ReadableDatabase, TableHandle, WriteTransaction,
};
use tubewell_drivers::Table;

use super::backend::{IoCounters, Storage, Watcher};
use super::checksums::Still;
use super::failure::{guarded, not_a_store, told, translate, translate_opening};
use super::lease::Lease;
use super::medium::Medium;
use super::platform;
use super::snapshot::{Snapshot, definition};
use super::untouched::Untouched;
use crate::Error;
use crate::sync::{InnerRwLock, Mutex};

/// One row of a batch: its table and key, and its new value, or `None` to remove it.
pub(crate) type Edit<'a> = (Table, &'a [u8], Option<&'a [u8]>);

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
    revoked: Arc<AtomicBool>,
    cache: usize,
    io: Arc<IoCounters>,
    /// Held while a commit is written.
    commits: Mutex<Standing>,
}

/// A repair takes some 2 ms for each MiB.
const SLOW_TO_REPAIR: u64 = 32 << 20;

/// How a commit is made safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    None,
    Plain,
    Restful,
}

/// What is known of the file's newest commit.
#[derive(Debug, Default)]
struct Standing {
    /// It is one of this engine, and flushed. Before that, the newest one that the file names may
    /// have been given up when the file was opened.
    ours: bool,
}

impl Engine {
    /// Opens the file at `path`, or makes a new store there if it is missing or empty.
    pub(crate) fn open_file(path: &Path, size: Footprint) -> Result<Engine, Error> {
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
        let medium = Medium::foreign(storage, Arc::clone(&io), size.reserve);
        Engine::open(medium, io, size.cache)
    }

    /// Opens the file at `path` to be read, whatever state it is in, and writes nothing to it.
    pub(crate) fn open_untouched(path: &Path, cache: usize) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let refused = |error| Error::Io { what: format!("cannot open {}: {error}", io.name()) };
        let file = std::fs::File::open(path).map_err(refused)?;
        let bytes = Untouched::new(file).map_err(|error| translate(error, &io))?;
        Engine::open(Medium::plain(Box::new(bytes), Arc::clone(&io)), io, cache)
    }

    fn open(medium: Medium, io: Arc<IoCounters>, cache: usize) -> Result<Engine, Error> {
        let (medium, revoked) = (Arc::new(medium), Arc::default());
        let (database, commits) = (InnerRwLock::default(), Mutex::default());
        let mut engine = Engine { database, medium, revoked, cache, io, commits };
        engine.start()?;
        Ok(engine)
    }

    /// Opens the database again on the same medium, after a failure. An error leaves the engine
    /// without one: try again later.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.revoked.store(true, Ordering::SeqCst);
        let database = self.database.get_mut().take();
        // Whatever it says: it did not get to the medium.
        let _ = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        self.io.forgive();
        let rewritten = self.medium.rewrite_unflushed();
        rewritten.map_err(|error| translate(redb::Error::Io(error), &self.io))?;
        self.start()
    }

    fn start(&mut self) -> Result<(), Error> {
        self.revoked = Arc::default();
        let lease = Lease::new(Arc::clone(&self.medium), Arc::clone(&self.revoked));
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache);
        let opened = guarded(&self.io, || Ok(builder.create_with_backend(lease)))?;
        *self.commits.lock() = Standing::default();
        let opened = opened.map_err(|error| translate_opening(error.into(), &self.io))?;
        *self.database.get_mut() = Some(opened);
        self.refuse_strangers()
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

    /// The rows as of the last commit.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Error> {
        let transaction = guarded(&self.io, || self.begin_read())?;
        Ok(Snapshot::new(transaction, Arc::clone(&self.io)))
    }

    /// Writes a batch, all of it or nothing, sorted by table and key.
    ///
    /// With `sync` it returns when the batch and all before it are safe from a power cut; without,
    /// the batch is visible at once and safe with the next one that is.
    pub(crate) fn commit(
        &self,
        edits: &mut dyn Iterator<Item = Edit<'_>>,
        sync: bool,
    ) -> Result<(), CommitError> {
        self.commit_as(if sync { Flush::Plain } else { Flush::None }, edits)
    }

    /// As `commit` with `sync`, and with what an open after a kill would else have to find out by
    /// reading the whole file. Costs some pages and a flush more; a later commit undoes it.
    pub(crate) fn commit_for_a_rest(
        &self,
        edits: &mut dyn Iterator<Item = Edit<'_>>,
    ) -> Result<(), CommitError> {
        self.commit_as(Flush::Restful, edits)
    }

    /// The bytes of the file; 0 if it cannot tell.
    pub(crate) fn size(&self) -> u64 {
        self.medium.bytes.len().unwrap_or(0)
    }

    /// Whether the file is so large that opening it after a kill takes a moment.
    pub(crate) fn is_slow_to_repair(&self) -> bool {
        self.size() >= SLOW_TO_REPAIR
    }

    fn commit_as(
        &self,
        flush: Flush,
        edits: &mut dyn Iterator<Item = Edit<'_>>,
    ) -> Result<(), CommitError> {
        self.attempt(|unknown| self.write(flush, edits, unknown))
    }

    /// Runs a call that writes; it tells from when on what it writes may reach the file.
    fn attempt<T>(
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

    fn write(
        &self,
        flush: Flush,
        edits: &mut dyn Iterator<Item = Edit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let mut standing = self.commits.lock();
        let database = self.database.read();
        let mut transaction = open(database.as_ref())?.begin_write()?;
        let sync = flush != Flush::None;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        transaction.set_quick_repair(flush == Flush::Restful);
        apply(&transaction, edits)?;
        unknown.set(true);
        transaction.commit()?;
        standing.ours |= sync;
        Ok(())
    }

    /// Whether every page of the last commit that was flushed is what was written; if not, says in
    /// words what is wrong. Reads them all, while commits go on.
    pub(crate) fn check_pages(&self) -> Result<Option<String>, Error> {
        let still = || {
            let still = Still::of(&self.medium);
            still.map_err(|error| Error::Io { what: format!("{}: {error}", self.io.name()) })
        };
        let (snapshot, before) = {
            let _nobody_writes = self.commits.lock();
            (self.snapshot()?, still()?)
        };
        // The snapshot keeps the rows' pages, but not those of the engine's own books.
        let found = before.check(&self.io);
        drop(snapshot);
        if found.is_none() {
            return Ok(None);
        }
        if !self.commits.lock().ours && self.commit(&mut std::iter::empty(), true).is_err() {
            return Ok(found);
        }
        let _nobody_writes = self.commits.lock();
        let after = still()?;
        Ok(if after.is(&before) { found } else { after.check(&self.io) })
    }

    /// Gives free space in the file back to the file system; `true` if there was any. Slow, and
    /// nobody else may hold a snapshot. The watcher is told the bytes written on the way.
    pub(crate) fn compact(&self, watcher: Watcher) -> Result<bool, Error> {
        self.io.watch(watcher);
        guarded(&self.io, || self.move_pages())
    }

    /// As `compact`, beside others, who cannot begin to read or to write meanwhile: it takes as
    /// long as moving all that lives in the file does. False if somebody holds a snapshot: nothing
    /// is done then.
    pub(crate) fn shrink(&self) -> Result<bool, CommitError> {
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
        self.shut()?;
        self.io.first_failure().map_or(Ok(()), |what| Err(Error::Io { what }))
    }

    fn shut(&mut self) -> Result<(), Error> {
        let database = self.database.get_mut().take();
        let shut = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        // Snapshots that are still about must not read what the next owner writes.
        self.revoked.store(true, Ordering::SeqCst);
        self.medium.close();
        shut
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

#[cfg(test)]
mod tests;
