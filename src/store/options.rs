//! How a store is opened, and what can be done with a closed one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{BODY_MAX, Driver};

use super::Store;
use crate::clock::Clock;
use crate::core::{Config, check_format, purge_closed};
use crate::micros::micros_ceil;
use crate::storage::{CACHE, Engine, Footprint, Storage};
use crate::{Durability, Error, Result};

/// Default ballast on the disk.
const DISK_RESERVE: u64 = 2 << 20;
/// Default of how far the wall clock may be beyond the last commit: a year.
const WALL_LIMIT: Duration = Duration::from_secs(365 * 86_400);

impl Store {
    /// Opens the store at this path with the default options, or creates it; see
    /// [`StoreOptions::open`].
    ///
    /// # Errors
    /// As [`StoreOptions::open`].
    ///
    /// # Example: one owner at a time
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("app.tubewell");
    /// let store = Store::open(&path)?;
    /// assert!(matches!(Store::open(&path), Err(Error::InUse { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Store::options().open(path)
    }

    /// Opens a store that lives in memory and is gone when it is closed.
    ///
    /// # Errors
    /// As [`StoreOptions::open`].
    pub fn in_memory() -> Result<Store> {
        Store::options().open_in_memory()
    }

    /// Options to open a store with.
    #[must_use]
    pub fn options() -> StoreOptions {
        StoreOptions::default()
    }
}

/// How a store is opened.
///
/// # Example
/// ```
/// use tubewell::{Durability, Store};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.tubewell");
/// let store = Store::options()
///     .cache_size(16 << 20)
///     .durability(Durability::relaxed())
///     .open(&path)?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StoreOptions {
    pub(crate) cache: usize,
    disk_reserve: u64,
    durability: Durability,
    pub(crate) clock: Clock,
    grace: Duration,
    max_pending: (usize, usize),
    max_body: usize,
    pub(crate) wall_limit: Duration,
    pub(crate) trust_wall: bool,
    drivers: Vec<Arc<dyn Driver>>,
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("cache", &self.cache)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            cache: CACHE,
            disk_reserve: DISK_RESERVE,
            durability: Durability::Flush,
            clock: Clock::system(),
            grace: Duration::ZERO,
            max_pending: (65_536, 256 << 20),
            max_body: BODY_MAX,
            wall_limit: WALL_LIMIT,
            trust_wall: false,
            drivers: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// Memory for pages of the file, in bytes. Default 64 MiB.
    #[must_use]
    pub fn cache_size(mut self, bytes: usize) -> StoreOptions {
        self.cache = bytes;
        self
    }

    /// When changes are acknowledged, in tubes that do not say otherwise. Default
    /// [`Durability::Flush`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> StoreOptions {
        self.durability = durability;
        self
    }

    /// The clock, for tests that move time themselves. Default the system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> StoreOptions {
        self.clock = clock.into();
        self
    }

    /// How long a session that nobody has a handle of keeps its claims, to be resumed by its id.
    /// Default 0: they are released at once.
    #[must_use]
    pub fn session_grace(mut self, grace: Duration) -> StoreOptions {
        self.grace = grace;
        self
    }

    /// How much may wait for a flush before callers are held up: rows and bytes. A task is one to
    /// four rows. Default 65,536 rows, 256 MiB.
    #[must_use]
    pub fn max_pending(mut self, rows: usize, bytes: usize) -> StoreOptions {
        self.max_pending = (rows.max(1), bytes.max(1));
        self
    }

    /// Largest body, in bytes. Default and upper limit [`MAX_BODY`](crate::MAX_BODY).
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> StoreOptions {
        self.max_body = bytes;
        self
    }

    /// How many bytes of room on the disk are held as ballast, behind the end of the file. When
    /// less than that is left beside it, [`put`](crate::Tube::put) answers
    /// [`DiskFull`](crate::Error::DiskFull), unless there is room inside the file; what remains of
    /// the work goes on, in the room of the ballast in the end. Default 2 MiB; 0 holds none, and a
    /// full disk is then met by whichever call needs a byte.
    ///
    /// Ballast needs a file system that can hold room for a file: ext4, XFS, tmpfs and the like on
    /// Linux. On file systems that copy on write (btrfs, ZFS) and on other operating systems so
    /// far there is none, but puts are refused in time all the same where the system tells how
    /// much is left (all but Windows).
    #[must_use]
    pub fn disk_reserve(mut self, bytes: u64) -> StoreOptions {
        self.disk_reserve = bytes;
        self
    }

    /// How far the wall clock may be beyond the store's last commit to be believed when the store
    /// is opened. Default 365 days.
    ///
    /// One that is further ahead is more often wrong than right, and believing a wrong one ends
    /// every task that has a ttl. So the store goes on from its last commit, as if no time had
    /// passed, and says so in [`Store::clock_report`]. It believes such a clock when it is opened
    /// again a day or more later by that same clock, and the clock has gone on as a sound one
    /// does; or when [`trust_wall_clock`](StoreOptions::trust_wall_clock) says so.
    #[must_use]
    pub fn wall_clock_limit(mut self, limit: Duration) -> StoreOptions {
        self.wall_limit = limit;
        self
    }

    /// Believes the wall clock however far ahead it is: for somebody who has looked at it. Default
    /// no. What fell due by it is done at once, and the time line never runs back.
    #[must_use]
    pub fn trust_wall_clock(mut self, trust: bool) -> StoreOptions {
        self.trust_wall = trust;
        self
    }

    /// Registers a driver before the tubes are loaded.
    #[must_use]
    pub fn driver(mut self, driver: impl Driver) -> StoreOptions {
        self.drivers.push(Arc::new(driver));
        self
    }

    /// Opens the store at this path, or creates it.
    ///
    /// A cleanly closed store opens at the same cost whatever it holds; one whose process was
    /// killed is flushed first, and its journal read. A new file survives a power cut once this
    /// returns.
    ///
    /// # Errors
    /// [`InUse`](Error::InUse) if another process, or another store in this one, holds the lock of
    /// the file. The open is retried for one second before that: a process that was killed may
    /// leave the lock behind for a moment, if it was about to start a child. [`NewerFormat`](Error::NewerFormat),
    /// [`NotAStore`](Error::NotAStore), [`Corrupt`](Error::Corrupt), [`Io`](Error::Io), and
    /// [`Invalid`](Error::Invalid) for options that cannot be. The file is as it was.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_file(path.as_ref(), self.footprint())?;
        self.start(engine)
    }

    /// Opens a store that lives in memory and is gone when it is closed.
    ///
    /// # Errors
    /// As [`open`](StoreOptions::open).
    pub fn open_in_memory(self) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_memory(self.cache)?;
        self.start(engine)
    }

    /// Opens a store on storage of the caller's own.
    ///
    /// # Errors
    /// As [`open`](StoreOptions::open).
    pub fn open_on(self, storage: Box<dyn Storage>) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_on(storage, self.footprint())?;
        self.start(engine)
    }

    /// Gives the free space inside a closed store back to the file system; answers with the size
    /// of the file before and after.
    ///
    /// The rows of dropped and truncated tubes are removed first. Takes time and writes in the
    /// order of what is stored. Killed or cut off at any moment, it leaves a store that opens and
    /// has everything.
    ///
    /// # Errors
    /// As [`open`](StoreOptions::open); [`Io`](Error::Io) if there is no file.
    pub fn compact(self, path: impl AsRef<Path>) -> Result<(u64, u64)> {
        self.compact_with(path, |_, _| {})
    }

    /// As [`compact`](StoreOptions::compact); `progress` is told on the way how many bytes have
    /// been written, and how many there are at most to write. What it panics with is ignored.
    ///
    /// # Errors
    /// As [`compact`](StoreOptions::compact).
    pub fn compact_with(
        self,
        path: impl AsRef<Path>,
        progress: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> Result<(u64, u64)> {
        let path = path.as_ref();
        let size = || {
            let meta = std::fs::metadata(path);
            let io = |error| Error::Io { what: format!("cannot read {}: {error}", path.display()) };
            meta.map(|meta| meta.len()).map_err(io)
        };
        let before = size()?;
        let engine = Engine::open_file(path, self.footprint())?;
        compact_engine(engine, Box::new(move |written| progress(written.min(before), before)))?;
        Ok((before, size()?))
    }

    /// As [`compact`](StoreOptions::compact), of a store on storage of the caller's own.
    ///
    /// # Errors
    /// As [`open_on`](StoreOptions::open_on).
    pub fn compact_on(self, storage: Box<dyn Storage>) -> Result<()> {
        compact_engine(Engine::open_on(storage, self.footprint())?, Box::new(|_| {}))
    }

    fn footprint(&self) -> Footprint {
        Footprint { cache: self.cache, reserve: self.disk_reserve }
    }

    fn check(&self) -> Result<()> {
        if self.max_body > BODY_MAX {
            return Err(Error::invalid(format!("max_body is at most {BODY_MAX} bytes")));
        }
        Ok(())
    }

    fn start(self, engine: Engine) -> Result<Store> {
        let config = Config {
            durability: self.durability,
            grace: micros_ceil(self.grace),
            max_pending_rows: self.max_pending.0,
            max_pending_bytes: self.max_pending.1,
            max_body: self.max_body,
            wall_limit: micros_ceil(self.wall_limit),
            trust_wall: self.trust_wall,
        };
        Store::start(engine, config, self.clock, self.drivers)
    }
}

/// Makes the file as small as what lives in it.
fn compact_engine(engine: Engine, told: Box<dyn Fn(u64) + Send + Sync>) -> Result<()> {
    check_format(&engine)?;
    engine.watch(told);
    let engine = Arc::new(engine);
    purge_closed(&engine)?;
    engine.compact()?;
    Arc::into_inner(engine).map_or(Ok(()), Engine::close)
}
