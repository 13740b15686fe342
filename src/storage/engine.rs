//! One open store file: opening it, writing a batch, closing it.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{
    Builder, Database, Durability, ReadableDatabase, StorageBackend, TableHandle, WriteTransaction,
};
use tubewell_drivers::{Reads, Table};

use super::backend::{IoCounters, Storage, Watcher};
use super::checksums::Still;
use super::failure::{guarded, not_a_store, told, translate, translate_opening};
use super::front::{LAYOUT, NewerLayout};
use super::journal::{Journal, Replayed, TAKEN, decode_taken, encode_taken};
use super::layer::Layer;
use super::lease::Lease;
use super::medium::Medium;
use super::platform;
use super::snapshot::{Over, Snapshot, definition};
use super::untouched::Untouched;
use crate::Error;
use crate::sync::{InnerRwLock, Mutex};

/// One row to be written: its table and key, and its new value, or `None` to remove it.
pub(super) type Edit<'a> = (Table, &'a [u8], Option<&'a [u8]>);

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
    /// Gone once closed, and while it cannot be reopened.
    database: Option<Database>,
    medium: Arc<Medium>,
    /// Ends what is left of the database once that is given up.
    revoked: Arc<AtomicBool>,
    cache: usize,
    io: Arc<IoCounters>,
    /// What the journal has and the database has not, laid over it. Replaced by another once the
    /// database has it all, so that older snapshots stay what they are.
    over: InnerRwLock<Over>,
    /// Held while a commit is written.
    commits: Mutex<Standing>,
    /// What of the journal could not be read, of a file that is opened untouched.
    lost: Option<String>,
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

/// How the file stands.
#[derive(Debug, Default)]
struct Standing {
    /// The newest commit of the database is one of this engine, and flushed. Before that, the
    /// newest one that the file names may have been given up when the file was opened.
    ours: bool,
    /// `None` in memory, and in files that were made without one.
    journal: Option<Journal>,
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
        let mut engine = Engine::closed(Medium::plain(Box::new(bytes), Arc::clone(&io)), io, cache);
        engine.lost = engine.start()?;
        Ok(engine)
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
            database: None,
            medium: Arc::new(medium),
            revoked: Arc::default(),
            cache,
            io,
            over: InnerRwLock::default(),
            commits: Mutex::default(),
            lost: None,
        }
    }

    /// Opens the database again on the same medium, after a failure. An error leaves the engine
    /// without one: try again later.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.revoked.store(true, Ordering::SeqCst);
        let database = self.database.take();
        // Whatever it says: it did not get to the medium.
        let _ = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        self.io.forgive();
        let rewritten = self.medium.rewrite_unflushed();
        rewritten.map_err(|error| translate(redb::Error::Io(error), &self.io))?;
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
        self.revoked = Arc::default();
        let lease = Lease::new(Arc::clone(&self.medium), Arc::clone(&self.revoked));
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache);
        let opened = guarded(&self.io, || Ok(builder.create_with_backend(lease)))?;
        *self.commits.lock() = Standing::default();
        *self.over.write() = Over::default();
        let opened = opened.map_err(|error| self.told_newer(error.into()));
        self.database = Some(opened?);
        self.refuse_strangers()?;
        if !self.medium.has_journal() {
            return Ok(None);
        }
        let taken = decode_taken(self.snapshot()?.get(Table::Meta, TAKEN)?.as_deref())?;
        let replayed = Journal::replay(&self.medium, taken);
        let Replayed { journal, edits, damage } =
            replayed.map_err(|error| translate(redb::Error::Io(error), &self.io))?;
        self.commits.lock().journal = Some(journal);
        *self.over.write() = Over::new(edits);
        Ok(damage)
    }

    fn told_newer(&self, error: redb::Error) -> Error {
        if let redb::Error::Io(why) = &error
            && let Some(NewerLayout(found)) = why.get_ref().and_then(|why| why.downcast_ref())
        {
            let why = format!("a newer release made it: its layout is {found}, known is {LAYOUT}");
            return not_a_store(&self.io, why);
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
            let transaction = self.database()?.begin_read()?;
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
        let over = self.over.read();
        let transaction = guarded(&self.io, || Ok(self.database()?.begin_read()?))?;
        let over = self.medium.has_journal().then(|| over.clone());
        Ok(Snapshot::new(transaction, over, Arc::clone(&self.io)))
    }

    /// The rows as of the last commit, whatever is committed meanwhile.
    pub(crate) fn still(&self) -> Result<Snapshot, Error> {
        let mut standing = self.commits.lock();
        if !self.over.read().is_empty() {
            self.settle(&mut standing)?;
        }
        let transaction = guarded(&self.io, || Ok(self.database()?.begin_read()?))?;
        Ok(Snapshot::new(transaction, None, Arc::clone(&self.io)))
    }

    /// Makes a commit, all of it or nothing.
    ///
    /// With `sync` it returns when the commit and all before it are safe from a power cut; without,
    /// it is visible at once and safe with the next one that is, where there is no journal.
    pub(crate) fn commit(&self, edits: &Layer, sync: bool) -> Result<(), CommitError> {
        self.commit_as(if sync { Flush::Plain } else { Flush::None }, edits)
    }

    /// As `commit` with `sync`, and with what an open after a kill would else have to find out by
    /// reading the whole file. Costs some pages and a flush more; a later commit undoes it.
    pub(crate) fn commit_for_a_rest(&self, edits: &Layer) -> Result<(), CommitError> {
        self.commit_as(Flush::Restful, edits)
    }

    /// Writes rows of a store that is being made, sorted by table and key, past the journal.
    pub(super) fn load(
        &self,
        rows: &mut dyn Iterator<Item = Edit<'_>>,
        sync: bool,
    ) -> Result<(), CommitError> {
        let flush = if sync { Flush::Plain } else { Flush::None };
        self.told(|unknown| {
            let mut standing = self.commits.lock();
            self.write(&mut standing, flush, rows, unknown)
        })
    }

    /// Whether the file is so large that opening it after a kill takes a moment.
    pub(crate) fn is_slow_to_repair(&self) -> bool {
        !self.medium.has_journal() && self.medium.bytes.len().is_ok_and(|len| len >= SLOW_TO_REPAIR)
    }

    fn commit_as(&self, flush: Flush, edits: &Layer) -> Result<(), CommitError> {
        self.told(|unknown| {
            let mut standing = self.commits.lock();
            if let Some(journal) = &mut standing.journal
                && flush != Flush::Restful
            {
                journal.check_usable()?;
                unknown.set(true);
                if journal.append(edits)? {
                    self.over.read().absorb(edits);
                    return Ok(());
                }
                unknown.set(false);
            }
            self.pass_on(&mut standing, flush, edits, unknown)
        })
    }

    /// Runs what makes a commit, and says what became of it if it failed.
    fn told(
        &self,
        commit: impl FnOnce(&Cell<bool>) -> Result<(), redb::Error>,
    ) -> Result<(), CommitError> {
        // Whether the failed call may have reached the file.
        let unknown = Cell::new(false);
        let why = match catch_unwind(AssertUnwindSafe(|| commit(&unknown))) {
            Ok(Ok(())) => return Ok(()),
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
        flush: Flush,
        edits: &Layer,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let Some(journal) = &standing.journal else {
            return self.write(standing, flush, &mut edits.rows(), unknown);
        };
        let taken = encode_taken(journal.last());
        let over = self.over.read().clone();
        over.absorb(edits);
        {
            let all = over.edits();
            // The pages of what is removed can be used by the next commit only. Read without the
            // journal, the file is no store between the two; nobody does.
            if self.medium.is_short() {
                self.write(standing, Flush::Plain, &mut all.removals(), unknown)?;
            }
            let mut rows = all.rows().chain([(Table::Meta, TAKEN, Some(&*taken))]);
            self.write(standing, Flush::Restful, &mut rows, unknown)?;
        }
        if let Some(journal) = &mut standing.journal {
            *self.over.write() = Over::default();
            journal.restart();
        }
        Ok(())
    }

    /// Has the database take all that the journal has.
    fn settle(&self, standing: &mut Standing) -> Result<(), Error> {
        let settled =
            self.told(|unknown| self.pass_on(standing, Flush::Plain, &Layer::default(), unknown));
        settled.map_err(|error| match error.may_pass {
            true => Error::Io { what: error.why },
            false => Error::corrupt(error.why),
        })
    }

    fn write(
        &self,
        standing: &mut Standing,
        flush: Flush,
        rows: &mut dyn Iterator<Item = Edit<'_>>,
        unknown: &Cell<bool>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.database()?.begin_write()?;
        let sync = flush != Flush::None;
        let durability = if sync { Durability::Immediate } else { Durability::None };
        transaction.set_durability(durability)?;
        transaction.set_quick_repair(flush == Flush::Restful);
        apply(&transaction, rows)?;
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
            let standing = self.commits.lock();
            if let Some(journal) = &standing.journal {
                let checked = journal.check();
                let damage =
                    checked.map_err(|error| translate(redb::Error::Io(error), &self.io))?;
                if damage.is_some() {
                    return Ok(damage);
                }
            }
            (self.snapshot()?, still()?)
        };
        // The snapshot keeps the rows' pages, but not those of the engine's own books.
        let found = before.check(&self.io);
        drop(snapshot);
        if found.is_none() {
            return Ok(None);
        }
        let mut standing = self.commits.lock();
        // A commit that writes no row: one that copies a damaged page makes it look sound.
        let nothing = &mut std::iter::empty();
        let ours = standing.ours;
        let own = |unknown: &Cell<_>| self.write(&mut standing, Flush::Restful, nothing, unknown);
        if !ours && self.told(own).is_err() {
            return Ok(found);
        }
        let after = still()?;
        Ok(if after.is(&before) { found } else { after.check(&self.io) })
    }

    /// Gives free space in the file back to the file system; `true` if there was any. Slow, and
    /// nobody else may hold a snapshot. The watcher is told the bytes written on the way.
    pub(crate) fn compact(&mut self, watcher: Watcher) -> Result<bool, Error> {
        self.settle(&mut self.commits.lock())?;
        let Engine { database, io, .. } = self;
        io.watch(watcher);
        guarded(io, || {
            let database = database.as_mut().ok_or(redb::Error::DatabaseClosed)?;
            Ok(database.compact()?)
        })
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
        let settled = self.settle_for_good();
        self.shut()?;
        settled?;
        self.io.first_failure().map_or(Ok(()), |what| Err(Error::Io { what }))
    }

    /// Leaves nothing in the journal, and says so there.
    fn settle_for_good(&self) -> Result<(), Error> {
        let mut standing = self.commits.lock();
        if !self.over.read().is_empty() {
            self.settle(&mut standing)?;
        }
        let Some(journal) = &mut standing.journal else { return Ok(()) };
        journal.mark_end().map_err(|error| translate(redb::Error::Io(error), &self.io))
    }

    fn shut(&mut self) -> Result<(), Error> {
        let database = self.database.take();
        let shut = guarded(&self.io, || {
            drop(database);
            Ok(())
        });
        // Snapshots that are still about must not read what the next owner writes.
        self.revoked.store(true, Ordering::SeqCst);
        self.medium.close();
        shut
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }
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
