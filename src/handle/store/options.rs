//! Opening a store, and compacting a closed one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{BODY_MAX, Driver};

use super::Store;
use crate::base::clock::Clock;
use crate::base::micros::micros_ceil;
use crate::core::{Calendar, Config, check_format, purge_closed};
use crate::storage::{CACHE, Engine, Footprint, PRIVATE, Storage};
use crate::{Durability, Error, Result};

/// What reads cron expressions.
#[cfg(feature = "cron")]
const CALENDAR: Option<Calendar> = Some(Calendar { read: crate::values::cron::read });
#[cfg(not(feature = "cron"))]
const CALENDAR: Option<Calendar> = None;
/// Default ballast on the disk.
const DISK_RESERVE: u64 = 2 << 20;
/// Default limit of the wall clock beyond the last commit: a year.
const WALL_LIMIT: Duration = Duration::from_secs(365 * 86_400);

impl Store {
    /// Opens the store at this path with the default options, or creates it; see
    /// [`StoreOptions::open`].
    ///
    /// # Errors
    /// Those of [`StoreOptions::open`].
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

    /// Creates a store in memory. Its content is lost when it is closed.
    ///
    /// # Errors
    /// Those of [`StoreOptions::open`].
    pub fn in_memory() -> Result<Store> {
        Store::options().open_in_memory()
    }

    /// The options for opening a store.
    #[must_use]
    pub fn options() -> StoreOptions {
        StoreOptions::default()
    }
}

/// The options for opening a store.
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
    file_mode: u32,
    durability: Durability,
    pub(crate) clock: Clock,
    grace: Duration,
    max_pending: (usize, usize),
    max_body: usize,
    pub(crate) wall_limit: Duration,
    pub(crate) trust_wall: bool,
    hold_due: bool,
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
            file_mode: PRIVATE,
            durability: Durability::Flush,
            clock: Clock::system(),
            grace: Duration::ZERO,
            max_pending: (65_536, 256 << 20),
            max_body: BODY_MAX,
            wall_limit: WALL_LIMIT,
            trust_wall: false,
            hold_due: false,
            drivers: Vec::new(),
        }
    }
}

impl StoreOptions {
    /// The memory for cached pages of the file, in bytes. Default 64 MiB.
    #[must_use]
    pub fn cache_size(mut self, bytes: usize) -> StoreOptions {
        self.cache = bytes;
        self
    }

    /// When a call that changes a task returns, in tubes without a durability of their own. Default
    /// [`Durability::Flush`]. It is not stored in the file: it holds until the store is closed.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> StoreOptions {
        self.durability = durability;
        self
    }

    /// The clock; tests use a [`ManualClock`](crate::ManualClock). Default the operating system's.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> StoreOptions {
        self.clock = clock.into();
        self
    }

    /// How long a session without handles keeps its claims, to be resumed by its id. Default 0:
    /// they are released immediately.
    #[must_use]
    pub fn session_grace(mut self, grace: Duration) -> StoreOptions {
        self.grace = grace;
        self
    }

    /// The size of the write buffer: the changes that may wait to be written, in rows and bytes.
    /// Default 65,536 rows and 256 MiB. A task has one to four rows. While the buffer is full,
    /// calls block, stand in line ([`Ticket`](crate::Ticket)) or are refused with
    /// [`Overloaded`](Error::Overloaded) (back pressure).
    #[must_use]
    #[doc(alias = "back pressure")]
    pub fn max_pending(mut self, rows: usize, bytes: usize) -> StoreOptions {
        self.max_pending = (rows.max(1), bytes.max(1));
        self
    }

    /// The largest body, in bytes. Default and upper limit [`MAX_BODY`](crate::MAX_BODY).
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> StoreOptions {
        self.max_body = bytes;
        self
    }

    /// How many bytes of disk space are reserved behind the end of the file (ballast). Default 2
    /// MiB.
    ///
    /// When less than this is free besides the ballast, [`put`](crate::Tube::put) and the other
    /// calls that store more data (new bodies, results, steps) return
    /// [`DiskFull`](crate::Error::DiskFull), unless there is free space inside the file. Takes,
    /// acks and the other calls go on, and use the ballast at last. With 0 there is no ballast, and
    /// the first call that needs a byte of a full disk fails.
    ///
    /// Ballast needs a file system that can reserve space for a file, such as ext4, XFS and tmpfs
    /// on Linux. On copy-on-write file systems (btrfs, ZFS) and on other operating systems there is
    /// none yet. Puts are still refused in time if the operating system reports the free space,
    /// which all but Windows do.
    #[must_use]
    pub fn disk_reserve(mut self, bytes: u64) -> StoreOptions {
        self.disk_reserve = bytes;
        self
    }

    /// The permissions of a file that [`open`](StoreOptions::open) creates, as `chmod` takes them. Default
    /// `0o600`: only the user who creates the store can read or write it. The bits of the process's umask are
    /// taken away. A file that exists keeps its mode, and
    /// [`StoreAdmin::backup`](crate::expert::StoreAdmin::backup) creates files with mode `0o600`. Ignored on
    /// systems without modes.
    ///
    /// Every process that can open the file, even only for reading, can take its lock and so keep the owner
    /// out: give a mode like `0o660` only to groups that are trusted.
    #[must_use]
    #[doc(alias = "chmod")]
    #[doc(alias = "umask")]
    pub fn file_mode(mut self, mode: u32) -> StoreOptions {
        self.file_mode = mode;
        self
    }

    /// How far the wall clock may be ahead of the store's last commit to be trusted at open.
    /// Default 365 days.
    ///
    /// A clock further ahead is probably wrong, and a wrong clock would expire every task that has a ttl. The
    /// store then continues from its last commit, as if no time had passed, and
    /// [`StoreAdmin::clock_report`](crate::expert::StoreAdmin::clock_report) reports it. The store trusts
    /// such a clock when it is opened again a day or more later by the same clock, and the clock has advanced
    /// with the store's own time; or with [`trust_wall_clock`](StoreOptions::trust_wall_clock).
    #[must_use]
    pub fn wall_clock_limit(mut self, limit: Duration) -> StoreOptions {
        self.wall_limit = limit;
        self
    }

    /// Whether to trust the wall clock however far ahead it is. Default no. Set this only after
    /// checking the clock: every task that is due by it is processed immediately, and the timeline
    /// never runs backwards.
    #[must_use]
    pub fn trust_wall_clock(mut self, trust: bool) -> StoreOptions {
        self.trust_wall = trust;
        self
    }

    /// Whether what falls due for tasks (delays, ttls and the runs of schedules) waits for the first
    /// [`StoreAdmin::catch_up`](crate::expert::StoreAdmin::catch_up). Default no: the store begins with it as
    /// soon as it is open.
    ///
    /// Use it to change or remove a schedule, or to drop a tube, before the runs are put that fell due
    /// while the store was closed. Without a catch-up, they wait for the next open. Takes do not
    /// deliver tasks that have expired, and claims end as always.
    #[must_use]
    pub fn hold_due_work(mut self, hold: bool) -> StoreOptions {
        self.hold_due = hold;
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
    /// The cost of opening a cleanly closed store does not depend on its content. If the process
    /// was killed, the file is flushed and its journal (write-ahead log) is replayed first. A new
    /// file survives a power cut once this returns. The call blocks for its reads and writes.
    ///
    /// # Errors
    /// [`InUse`](Error::InUse) if another process, or another handle of this one, holds the lock of
    /// the file. The open is retried for one second before that: a process that was killed may
    /// leave the lock behind for a moment, if it was about to start a child.
    /// [`NewerFormat`](Error::NewerFormat), [`NotAStore`](Error::NotAStore),
    /// [`Corrupt`](Error::Corrupt), [`Io`](Error::Io); [`Invalid`](Error::Invalid) for invalid
    /// options. The file did not change.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_file(path.as_ref(), self.footprint())?;
        self.start(engine, false)
    }

    /// Creates a store in memory. Its content is lost when it is closed.
    ///
    /// # Errors
    /// Those of [`open`](StoreOptions::open).
    pub fn open_in_memory(self) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_memory(self.cache)?;
        self.start(engine, true)
    }

    /// Opens a store on a storage that the caller implements.
    ///
    /// # Errors
    /// Those of [`open`](StoreOptions::open).
    pub fn open_on(self, storage: Box<dyn Storage>) -> Result<Store> {
        self.check()?;
        let engine = Engine::open_on(storage, self.footprint())?;
        self.start(engine, false)
    }

    /// Returns the free space inside the file of a closed store to the file system. Returns the
    /// size of the file before and after, in bytes.
    ///
    /// The rows of dropped and truncated tubes are removed first. The time and the writes are in
    /// proportion to the content. If it is interrupted at any moment, by a kill or a power cut, the
    /// store opens and has all its tasks.
    ///
    /// `progress` is called with the number of bytes written, and the largest number there may be. Its
    /// panics are ignored.
    ///
    /// # Errors
    /// Those of [`open`](StoreOptions::open); [`Io`](Error::Io) if there is no file.
    ///
    /// # Example
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("jobs");
    /// use tubewell::Store;
    ///
    /// let store = Store::open(&path)?;
    /// store.tube("jobs")?.put("work")?;
    /// store.close()?;
    /// let (before, after) = Store::options().compact(&path, |_, _| {})?;
    /// println!("{before} bytes, and {after} now");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn compact(
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

    /// As [`compact`](StoreOptions::compact), for a store on a storage that the caller implements.
    ///
    /// # Errors
    /// Those of [`open_on`](StoreOptions::open_on).
    pub fn compact_on(self, storage: Box<dyn Storage>) -> Result<()> {
        compact_engine(Engine::open_on(storage, self.footprint())?, Box::new(|_| {}))
    }

    fn footprint(&self) -> Footprint {
        Footprint { cache: self.cache, reserve: self.disk_reserve, mode: self.file_mode }
    }

    fn check(&self) -> Result<()> {
        if self.max_body > BODY_MAX {
            return Err(Error::invalid(format!("max_body is at most {BODY_MAX} bytes")));
        }
        Ok(())
    }

    fn start(self, engine: Engine, in_memory: bool) -> Result<Store> {
        let config = Config {
            durability: self.durability,
            grace: micros_ceil(self.grace),
            max_pending_rows: self.max_pending.0,
            max_pending_bytes: self.max_pending.1,
            max_body: self.max_body,
            wall_limit: micros_ceil(self.wall_limit),
            trust_wall: self.trust_wall,
            hold_due: self.hold_due,
            calendar: CALENDAR,
            in_memory,
        };
        Store::start(engine, config, self.clock, self.drivers)
    }
}

/// Makes the file as small as its content.
fn compact_engine(mut engine: Engine, progress: Box<dyn Fn(u64) + Send + Sync>) -> Result<()> {
    check_format(&engine)?;
    engine.watch(progress);
    engine.checkpoint_replayed()?;
    let engine = Arc::new(engine);
    purge_closed(&engine)?;
    engine.compact()?;
    Arc::into_inner(engine).map_or(Ok(()), Engine::close)
}
