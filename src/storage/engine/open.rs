//! Opening a store: a file, memory or custom storage; read-only; and again after a failure.
//!
//! Invariant: a file of another program is refused and not changed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use redb::{Builder, MultimapTableHandle, TableHandle};
use tubewell_drivers::{Reads, Table};

use super::{Engine, Footprint};
use crate::Error;
use crate::base::sync::{InnerRwLock, Mutex};
use crate::storage::backend::{IoCounters, Storage};
use crate::storage::failure::{guarded, not_a_store, translate, translate_opening};
use crate::storage::file_header::{ForeignDatabase, LAYOUT, NewerLayout};
use crate::storage::generation::Generation;
use crate::storage::journal::replay::{Checkpointed, Replayed, replay};
use crate::storage::journal::{CHECKPOINT_KEY, Journal, decode_checkpoint};
use crate::storage::journal_record::{ReplayError, VERSION};
use crate::storage::lock_wait::retry_while_in_use;
use crate::storage::medium::Medium;
use crate::storage::platform;
use crate::storage::read_only::{ReadOnly, UnreadablePages};
use crate::storage::reader::definition;

/// The index of the last table that this release knows.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 tables")]
const LAST_TABLE: u32 = Table::ALL.len() as u32 - 1;

impl Engine {
    /// Opens the file at `path`. Creates a store if the file does not exist or is empty. Waits for
    /// a lock that is released soon.
    pub(crate) fn open_file(path: &Path, size: Footprint) -> Result<Engine, Error> {
        retry_while_in_use(|| Engine::try_open_file(path, size))
    }

    fn try_open_file(path: &Path, size: Footprint) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let failed =
            |to: &str, error| Error::Io { what: format!("cannot {to} {}: {error}", io.name()) };
        let file = platform::open_or_create(path, size.mode)?;
        let is_new =
            file.metadata().map_err(|error| failed("get the length of", error))?.len() == 0;
        let medium = Medium::file(file, path, Arc::clone(&io), size.reserve)
            .map_err(|error| failed("open", error))?;
        let engine = Engine::open(medium, Arc::clone(&io), size.cache)?;
        // At every open, since the process that created the file may have been killed before this.
        // A failure matters for a new file only: the entry of another may be flushed already.
        match platform::sync_directory_of(path) {
            Err(error) if is_new => Err(failed("flush the directory of", error)),
            _ => Ok(engine),
        }
    }

    /// Creates a store in memory. Dropping it removes it.
    pub(crate) fn open_memory(cache: usize) -> Result<Engine, Error> {
        let io = IoCounters::new("the store in memory".into());
        Engine::open(Medium::memory(Arc::clone(&io)), io, cache)
    }

    /// Opens the store on storage of the application. Creates one if the storage is empty.
    pub(crate) fn open_on(storage: Box<dyn Storage>, size: Footprint) -> Result<Engine, Error> {
        let io = IoCounters::new("the storage".into());
        let medium = Medium::custom(storage, Arc::clone(&io), size.reserve);
        Engine::open(medium, io, size.cache)
    }

    /// Opens the file at `path` for reading, damaged or not, and writes nothing to it. Waits for a
    /// lock that is released soon.
    pub(crate) fn open_read_only(path: &Path, cache: usize) -> Result<Engine, Error> {
        retry_while_in_use(|| Engine::try_open_read_only(path, cache))
    }

    /// As `open_read_only`, without waiting for the lock.
    pub(crate) fn try_open_read_only(path: &Path, cache: usize) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        let failed = |error| Error::Io { what: format!("cannot open {}: {error}", io.name()) };
        // A directory has no bytes and opening a pipe would block. Pages that cannot be read would
        // be taken for damaged ones.
        let kind = std::fs::metadata(path).map_err(failed)?;
        if kind.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        if !kind.is_file() {
            let name = io.name();
            let what = format!("cannot open {name}: it is not a regular file, a store is one");
            return Err(Error::Io { what });
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        Engine::from_read_only(file, io, cache)
    }

    fn from_read_only(
        file: std::fs::File,
        io: Arc<IoCounters>,
        cache: usize,
    ) -> Result<Engine, Error> {
        let bytes = ReadOnly::new(file).map_err(|error| translate(error, &io))?;
        let unreadable = bytes.unreadable();
        let medium = Medium::volatile(Box::new(bytes), Arc::clone(&io));
        let mut engine = Engine::closed(medium, io, cache);
        engine.unreadable = unreadable;
        engine.journal_damage = engine.start()?.map(|damage| damage.to_string());
        Ok(engine)
    }

    /// Opens a file of which no page can be read.
    #[cfg(test)]
    pub(crate) fn open_unreadable(path: &Path) -> Result<Engine, Error> {
        let io = IoCounters::new(path.display().to_string());
        // A descriptor that is open for writing only cannot be read.
        let file = std::fs::File::options().write(true).open(path);
        let failed = |error| Error::Io { what: format!("cannot open {}: {error}", io.name()) };
        let file = file.map_err(failed)?;
        Engine::from_read_only(file, io, 1 << 20)
    }

    fn open(medium: Medium, io: Arc<IoCounters>, cache: usize) -> Result<Engine, Error> {
        let mut engine = Engine::closed(medium, io, cache);
        engine.start_undamaged()?;
        Ok(engine)
    }

    fn closed(medium: Medium, io: Arc<IoCounters>, cache: usize) -> Engine {
        Engine {
            database: InnerRwLock::default(),
            medium: Arc::new(medium),
            kept_reader: Arc::default(),
            superseded: Arc::default(),
            cache,
            io,
            journal: None,
            replayed: None,
            writing: Mutex::default(),
            journal_damage: None,
            unreadable: UnreadablePages::default(),
        }
    }

    /// Opens the database again on the same medium, after a failure. The journal begins anew: memory
    /// has its edits, and the first commit must be a checkpoint with them. After an error the engine
    /// has no database, and the call can be repeated.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.io.clear_failure();
        // First: the database stays open, so that a backup can save what it has.
        self.medium.check_name().map_err(|error| self.io_error(error))?;
        if let Some(journal) = &self.journal {
            journal.retire();
        }
        self.superseded.store(true, Ordering::SeqCst);
        // The result is ignored: the old database no longer reaches the medium.
        let _ = self.close_database();
        self.io.clear_failure();
        let rewritten = self.medium.rewrite_unflushed();
        rewritten.map_err(|error| self.io_error(error))?;
        self.start_database()?;
        if let Some(journal) = &mut self.journal {
            *journal = Arc::new(journal.next_run());
        }
        Ok(())
    }

    /// Starts the engine; a journal that cannot be read is an error.
    fn start_undamaged(&mut self) -> Result<(), Error> {
        match self.start()? {
            None => Ok(()),
            Some(ReplayError::UnknownTable { table, .. }) => Err(Error::NewerFormat {
                what: "table",
                found: table.into(),
                supported: LAST_TABLE,
            }),
            Some(ReplayError::UnknownVersion { version, .. }) => Err(Error::NewerFormat {
                what: "journal version",
                found: version.into(),
                supported: VERSION.into(),
            }),
            Some(ReplayError::Damaged(damage)) => {
                Err(Error::corrupt(format!("{}: {damage}", self.io.name())))
            }
        }
    }

    /// Starts the engine. Returns why edits of the journal cannot be read, if there are such.
    fn start(&mut self) -> Result<Option<ReplayError>, Error> {
        self.start_database()?;
        if self.medium.has_journal() { self.replay() } else { Ok(None) }
    }

    fn start_database(&mut self) -> Result<(), Error> {
        self.superseded = Arc::default();
        let generation = Generation::new(Arc::clone(&self.medium), Arc::clone(&self.superseded));
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache);
        let opened = guarded(&self.io, || Ok(builder.create_with_backend(generation)))?;
        *self.writing.lock() = false;
        let opened = opened.map_err(|error| self.opening_error(error.into()));
        *self.database.get_mut() = Some(opened?);
        self.check_is_store()
    }

    /// Reads the journal into the overlay. Returns why some of its edits cannot be read.
    fn replay(&mut self) -> Result<Option<ReplayError>, Error> {
        let checkpoint = match self.last_checkpoint() {
            Ok(checkpoint) => checkpoint,
            Err(Error::Corrupt { what }) => return Ok(Some(ReplayError::Damaged(what))),
            Err(error) => return Err(error),
        };
        let replayed = replay(&self.medium, checkpoint).map_err(|error| self.io_error(error))?;
        self.journal = Some(Arc::new(Journal::new(&self.medium, &replayed)));
        let must_restart = self.journal.as_ref().is_some_and(|journal| journal.must_restart());
        let Replayed { edits, damage, .. } = replayed;
        self.replayed = (must_restart || !edits.is_empty()).then(|| Arc::new(edits));
        Ok(damage)
    }

    /// What the database says about the journal.
    fn last_checkpoint(&self) -> Result<Checkpointed, Error> {
        decode_checkpoint(self.snapshot()?.get(Table::Meta, CHECKPOINT_KEY)?.as_deref())
    }

    fn opening_error(&self, error: redb::Error) -> Error {
        if let redb::Error::Io(why) = &error
            && let Some(NewerLayout(found)) = why.get_ref().and_then(|why| why.downcast_ref())
        {
            return Error::NewerFormat { what: "layout", found: *found, supported: LAYOUT };
        }
        if let redb::Error::Io(why) = &error
            && let Some(foreign) =
                why.get_ref().and_then(|why| why.downcast_ref::<ForeignDatabase>())
        {
            return not_a_store(&self.io, foreign.to_string());
        }
        // The title says that the file is a store, so that other bytes in it are damage.
        if let redb::Error::Io(why) = &error
            && why.kind() == io::ErrorKind::InvalidData
            && self.medium.has_journal()
        {
            let name = self.io.name();
            return Error::corrupt(format!("{name}: its database does not begin with a header"));
        }
        translate_opening(error, &self.io)
    }

    /// Refuses a database of another program. Every store has the table of its header from the
    /// first commit on.
    fn check_is_store(&self) -> Result<(), Error> {
        let header = Table::Meta.name();
        let foreign = guarded(&self.io, || {
            let transaction = self.begin_read()?;
            let tables = transaction.list_tables()?.map(|table| table.name().to_owned());
            let multimaps = transaction.list_multimap_tables()?;
            let multimaps = multimaps.map(|table| table.name().to_owned());
            let names: Vec<_> = tables.chain(multimaps).collect();
            let is_store = names.is_empty() || names.iter().any(|name| name == header);
            for table in Table::ALL.into_iter().filter(|t| names.iter().any(|n| n == t.name())) {
                transaction.open_table(definition(table))?;
            }
            Ok(if is_store { None } else { names.into_iter().next() })
        })?;
        match foreign {
            None => Ok(()),
            Some(table) => Err(not_a_store(
                &self.io,
                format!("it is a database of another program, with a table {table:?}"),
            )),
        }
    }
}

#[cfg(test)]
mod tests;
