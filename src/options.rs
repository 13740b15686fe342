//! What a store and its tubes can be told when they are opened.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{BODY_MAX, Driver};

use crate::clock::{Clock, micros_ceil};
use crate::core::Config;
use crate::events::{Callback, Event};
use crate::storage::{Engine, Footprint, Storage};
use crate::{Error, Result, Salvaged, Store, TubeInfo};

/// Default size of the page cache.
pub(crate) const CACHE: usize = 64 << 20;
/// Default ballast on the disk.
const DISK_RESERVE: u64 = 2 << 20;
/// Default longest time until a relaxed change is flushed.
const RELAXED: Duration = Duration::from_millis(50);
/// Default of how far the wall clock may be beyond the last commit: a year.
const WALL_LIMIT: Duration = Duration::from_secs(365 * 86_400);
/// How long the sweeper's own edits may wait for a flush, in microseconds.
pub(crate) const SWEEP_FLUSH: u64 = 50_000;

/// When a call that changes something returns.
///
/// # Example: what may be lost, and what not
/// ```
/// use std::time::Duration;
/// use tubewell::{Durability, FIFO, Store, TubeOptions};
///
/// # let store = Store::in_memory()?;
/// let orders = store.create_tube("orders", FIFO, TubeOptions::new())?;
/// orders.put("2 teapots")?; // on the disk
///
/// let relaxed = Durability::Relaxed { max_delay: Duration::from_millis(10) };
/// let clicks = store.create_tube("clicks", FIFO, TubeOptions::new().durability(relaxed))?;
/// clicks.put("at 3, 4")?; // on the disk within 10 ms
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a third kind would be a new promise")]
pub enum Durability {
    /// After the flush that holds the change. Callers at the same time share one flush. Nothing
    /// acknowledged is lost by a killed process, a crashed operating system or a power cut.
    #[default]
    Flush,
    /// As soon as the change is applied; takers see it at once. A flush follows within
    /// `max_delay`, and at close. A killed process, a crashed operating system and a power cut
    /// all lose what was changed since the last flush: the file never holds half of it.
    Relaxed {
        /// The longest time until the flush begins.
        max_delay: Duration,
    },
}

impl Durability {
    /// Relaxed, with a flush within 50 ms.
    #[must_use]
    pub fn relaxed() -> Durability {
        Durability::Relaxed { max_delay: RELAXED }
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
    cache: usize,
    disk_reserve: u64,
    durability: Durability,
    clock: Clock,
    grace: Duration,
    max_pending: (usize, usize),
    max_body: usize,
    wall_limit: Duration,
    trust_wall: bool,
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
    /// [`InUse`](Error::InUse) if somebody has it open, [`NewerFormat`](Error::NewerFormat),
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
        squeeze(engine, Box::new(move |written| progress(written.min(before), before)))?;
        Ok((before, size()?))
    }

    /// As [`compact`](StoreOptions::compact), of a store on storage of the caller's own.
    ///
    /// # Errors
    /// As [`open_on`](StoreOptions::open_on).
    pub fn compact_on(self, storage: Box<dyn Storage>) -> Result<()> {
        squeeze(Engine::open_on(storage, self.footprint())?, Box::new(|_| {}))
    }

    /// Reads everything that can be read in the file of a closed store, damaged or not, and tells
    /// `each` of it: tubes, then the tasks of each in the order of their ids. The file is not
    /// written to.
    ///
    /// What is damaged is skipped and told as [`Lost`](Salvaged::Lost). Of the wall clock the same is
    /// made as at an open. Needs memory for the keys
    /// of the largest tube, some 60 bytes a task, and for the largest body.
    ///
    /// # Errors
    /// What `each` answers ends it; [`Corrupt`](Error::Corrupt) if not even the file's outermost
    /// structure can be read, and as [`open`](StoreOptions::open).
    pub fn salvage(
        self,
        path: impl AsRef<Path>,
        mut each: impl FnMut(Salvaged) -> Result<()>,
    ) -> Result<()> {
        let engine = Engine::open_untouched(path.as_ref(), self.cache)?;
        let limit = if self.trust_wall { Duration::MAX } else { self.wall_limit };
        crate::salvage::salvage(&engine, self.clock.wall(), micros_ceil(limit), &mut each)
    }

    /// Reads which tubes a closed store has, by name. The file is not written to.
    ///
    /// No task is read, so the cost does not depend on how many there are. A file whose process was
    /// killed is recovered in memory first, which takes as long as an open.
    ///
    /// A tube is `usable` if its driver is one of tubewell's own. A tube whose definition is damaged
    /// is left out.
    ///
    /// # Errors
    /// As [`open`](StoreOptions::open), but [`InUse`](Error::InUse) without a wait: the call may
    /// complete a command line while a user types it. [`Io`](Error::Io) if there is no file.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("app.tubewell");
    /// let store = Store::open(&path)?;
    /// store.create_tube("mail", FIFO, TubeOptions::new())?;
    /// store.close()?;
    ///
    /// let tubes = Store::options().read_tubes(&path)?;
    /// assert_eq!(tubes[0].name, "mail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_tubes(self, path: impl AsRef<Path>) -> Result<Vec<TubeInfo>> {
        let engine = Engine::try_open_untouched(path.as_ref(), self.cache)?;
        crate::salvage::read_tubes(&engine)
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
fn squeeze(engine: Engine, told: Box<dyn Fn(u64) + Send + Sync>) -> Result<()> {
    crate::core::check_format(&engine)?;
    engine.watch(told);
    let engine = Arc::new(engine);
    crate::core::clear_the_dead(&engine)?;
    engine.compact()?;
    Arc::into_inner(engine).map_or(Ok(()), Engine::close)
}

/// How a tube is created. All but the callback is stored with it.
///
/// An option that the driver does not have is refused, not ignored. Times are rounded up to
/// microseconds; `Duration::MAX` is for ever.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::{Error, FIFO, LIMFIFOTTL, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let options = TubeOptions::new()
///     .capacity(1000)
///     .ttr(Duration::from_secs(60)) // a worker has a minute
///     .ttl(Duration::from_secs(86_400)) // and the task a day
///     .if_not_exists(true);
/// store.create_tube("uploads", LIMFIFOTTL, options.clone())?;
/// assert!(matches!(store.create_tube("plain", FIFO, options), Err(Error::Unsupported { .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default)]
pub struct TubeOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) pri: Option<u32>,
    pub(crate) temporary: bool,
    pub(crate) capacity: Option<u64>,
    pub(crate) durability: Option<Durability>,
    pub(crate) if_not_exists: bool,
    pub(crate) callback: Option<Callback>,
}

impl std::fmt::Debug for TubeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TubeOptions")
            .field("ttl", &self.ttl)
            .field("ttr", &self.ttr)
            .field("pri", &self.pri)
            .field("temporary", &self.temporary)
            .field("capacity", &self.capacity)
            .field("durability", &self.durability)
            .field("if_not_exists", &self.if_not_exists)
            .finish_non_exhaustive()
    }
}

impl TubeOptions {
    /// No options.
    #[must_use]
    pub fn new() -> TubeOptions {
        TubeOptions::default()
    }

    /// The ttl of tasks that are put without one. Default for ever. Timed drivers.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> TubeOptions {
        self.ttl = Some(ttl);
        self
    }

    /// The ttr of tasks that are put without one. Default the tube's ttl. Timed drivers.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> TubeOptions {
        self.ttr = Some(ttr);
        self
    }

    /// The priority of tasks that are put without one. Default 0, the most urgent. Timed drivers.
    #[must_use]
    pub fn pri(mut self, pri: u32) -> TubeOptions {
        self.pri = Some(pri);
        self
    }

    /// Whether the tasks live in memory only; the tube itself is stored. Default no.
    #[must_use]
    pub fn temporary(mut self, temporary: bool) -> TubeOptions {
        self.temporary = temporary;
        self
    }

    /// Most tasks in the tube, whatever their state. Default 0: no limit. Bounded drivers.
    #[must_use]
    pub fn capacity(mut self, tasks: u64) -> TubeOptions {
        self.capacity = Some(tasks);
        self
    }

    /// When changes of this tube's tasks are acknowledged. Default as the store.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TubeOptions {
        self.durability = Some(durability);
        self
    }

    /// Whether a tube of this name that is there already will do, given that its driver and
    /// options are the same. Default no.
    #[must_use]
    pub fn if_not_exists(mut self, will_do: bool) -> TubeOptions {
        self.if_not_exists = will_do;
        self
    }

    /// Called after each change of a task of this tube; see
    /// [`Tube::on_task_change`](crate::Tube::on_task_change). Not stored.
    #[must_use]
    pub fn on_task_change(
        mut self,
        callback: impl Fn(&Event) + Send + Sync + 'static,
    ) -> TubeOptions {
        self.callback = Some(Arc::new(callback));
        self
    }
}
