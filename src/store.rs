//! The store: opened, closed, and asked for its tubes and sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tubewell_drivers::{Driver, audit};

use crate::clock::{Clock, Ticked, duration};
use crate::core::{Config, Core, FILE, TubeRequest, stored_books};
use crate::events::Subscription;
use crate::pipeline::Shared;
use crate::session::{Session, SessionGuard};
use crate::statistics::Statistics;
use crate::storage::Engine;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::wait::TakeFuture;
use crate::{Claim, Error, Result, SessionId, StoreOptions, Tube, TubeInfo, TubeOptions};

/// A persistent store of tubes, in one file that one process owns.
///
/// Clones are the same store. It stays open until the last handle that came from it is gone (store,
/// session, tube, claim, ticket) or until [`close`](Store::close), which ends it for all of them.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::{FIFO, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("mail", FIFO, TubeOptions::new())?;
/// tube.put("to: ann")?;
/// if let Some(claim) = tube.take(Duration::from_secs(1))? {
///     assert_eq!(claim.data(), b"to: ann");
///     claim.ack()?;
/// }
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone)]
pub struct Store {
    pub(crate) handle: Handle,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("tubes", &self.tubes().len()).finish_non_exhaustive()
    }
}

/// What has gone to the storage since the store was opened, opening included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The number of the last commit, over all lives of the store.
    pub commits: u64,
    /// The number of the last commit that the file had when it was opened. If a receipt from an
    /// earlier life has a higher one, the file has lost that commit: it was damaged and the engine
    /// went back to the one before, or it is an old copy.
    pub opened_at: u64,
    /// Rows that these commits of this life wrote or removed, the engine's own books aside.
    pub rows: u64,
    /// Flushes (fsync).
    pub flushes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes in these writes.
    pub bytes_written: u64,
    /// Reads that the cache did not answer.
    pub reads: u64,
}

/// Two clocks, each as the time since the beginning of 1970, UTC.
///
/// They differ by as much as the wall clock has been set while the store was open, and for as long
/// as it is behind the line or not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReport {
    /// The store's own: ttl and delay go by it.
    pub line: Duration,
    /// The wall clock, now.
    pub wall: Duration,
    /// What the wall clock showed when the store was opened, if that was too far ahead to be
    /// believed. The line went on from the last commit instead.
    pub doubted: Option<Duration>,
}

impl Store {
    /// Opens the store at this path with the default options, or creates it; see
    /// [`StoreOptions::open`].
    ///
    /// # Errors
    /// As [`StoreOptions::open`].
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

    /// Creates a tube that a driver of this name runs.
    ///
    /// The tube is in the file once this returns and survives a power cut; it waits for a flush.
    /// With `if_not_exists`, a tube that is there with the same driver and options is opened.
    ///
    /// # Errors
    /// [`TubeExists`](Error::TubeExists), [`TubeDiffers`](Error::TubeDiffers),
    /// [`DriverUnknown`](Error::DriverUnknown), [`Unsupported`](Error::Unsupported) for an option
    /// that the driver does not have, [`Invalid`](Error::Invalid) for a name that is empty, longer
    /// than 255 bytes or has control characters: nothing was created.
    pub fn create_tube(&self, name: &str, driver: &str, options: TubeOptions) -> Result<Tube> {
        let request = TubeRequest { name: name.into(), driver: driver.into(), options };
        let head = self.shared().call(FILE, |core| core.create_tube(&request))?;
        Ok(Tube::new(self.handle.clone(), self.handle.own_session(), None, head))
    }

    /// Opens a tube that is there. Writes nothing and waits for nobody.
    ///
    /// The verbs of the handle act for the store's own session; see [`Session::tube`] for others.
    ///
    /// # Errors
    /// [`TubeNotFound`](Error::TubeNotFound).
    pub fn tube(&self, name: &str) -> Result<Tube> {
        let head = self.shared().run(|core| core.find_tube(name))?;
        Ok(Tube::new(self.handle.clone(), self.handle.own_session(), None, head))
    }

    /// All tubes, by name.
    #[must_use]
    pub fn tubes(&self) -> Vec<TubeInfo> {
        self.shared().run(|core| core.tube_infos())
    }

    /// Drops a tube with all its tasks, unless somebody works on it.
    ///
    /// Once this returns it is gone for good, power cut or not; it waits for a flush, however many
    /// tasks there were. Their rows are removed later, little by little.
    ///
    /// # Errors
    /// [`TubeNotFound`](Error::TubeNotFound); [`TubeBusy`](Error::TubeBusy) if tasks are taken or
    /// somebody waits: the tube stays.
    pub fn drop_tube(&self, name: &str) -> Result<()> {
        self.shared().call(FILE, |core| core.drop_tube(name))
    }

    /// Registers a driver. Tubes that were created with it and waited for it come to life.
    ///
    /// # Errors
    /// [`DriverExists`](Error::DriverExists); [`Invalid`](Error::Invalid) if a tube was created
    /// with a driver of this name and other traits. Nothing has changed.
    pub fn register_driver(&self, driver: impl Driver) -> Result<()> {
        let driver: Arc<dyn Driver> = Arc::new(driver);
        self.shared().run(|core| core.check_open().and_then(|()| core.register_driver(driver)))
    }

    /// A new session: an owner of claims, whose end releases them.
    #[must_use]
    pub fn session(&self) -> Session {
        let id = SessionId::random();
        self.shared().run(|core| core.begin_session(id));
        Session::new(SessionGuard::new(self.handle.clone(), id))
    }

    /// One more handle of a session that is alive, or in its grace after the last handle went.
    ///
    /// # Errors
    /// [`SessionUnknown`](Error::SessionUnknown): it has ended and its tasks have been released.
    /// [`Invalid`](Error::Invalid) for the store's own session, which lives as long as the store.
    pub fn resume_session(&self, id: SessionId) -> Result<Session> {
        if id == self.handle.own_session() {
            return Err(Error::invalid("the store's own session cannot be resumed or ended"));
        }
        self.shared().run(|core| core.resume_session(id))?;
        Ok(Session::new(SessionGuard::new(self.handle.clone(), id)))
    }

    /// The numbers of every tube. Costs the same however many tasks there are.
    #[must_use]
    pub fn statistics(&self) -> BTreeMap<String, Statistics> {
        self.shared().run(|core| {
            core.tubes
                .values()
                .map(|tube| (tube.definition.name.to_string(), tube.visible))
                .collect()
        })
    }

    /// A stream of what happens to the tasks of all tubes from now on.
    ///
    /// Up to `capacity` events wait in it. When it is full, further ones are dropped for this
    /// subscription and counted: a slow listener delays nobody.
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        self.shared().run(|core| {
            core.listened = true;
            self.shared().listeners.subscribe(capacity)
        })
    }

    /// Takes from the first of these tubes that has a task, in the order given, or waits in all
    /// of them; as [`Tube::take`] otherwise. The claim belongs to the store's own session.
    ///
    /// # Errors
    /// As [`Tube::take`].
    pub fn take_any(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Claim>> {
        crate::wait::take(&self.handle, tubes, self.handle.own_session(), None, timeout.into())
    }

    /// As [`take_any`](Store::take_any), as a future of no particular runtime.
    pub fn take_any_async(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> TakeFuture {
        TakeFuture::new(&self.handle, tubes, self.handle.own_session(), None, timeout.into())
    }

    /// Waits until everything decided so far is in the file, relaxed changes included; answers
    /// with the number of the commit. Does not write if there is nothing to write.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](Error::OutcomeUnknown), [`Unavailable`](Error::Unavailable),
    /// [`Closed`](Error::Closed).
    pub fn flush(&self) -> Result<u64> {
        self.shared().flush()
    }

    /// Does what is due by now, as the store does by itself, and returns when it is done.
    ///
    /// After the store was closed for a time, many delays and lives may be over. A take that finds
    /// nothing sees to some hundred of them itself; [`statistics`](Store::statistics), [`list`](Tube::list) and
    /// [`peek`](Tube::peek) show what has been done.
    ///
    /// # Errors
    /// [`Unavailable`](Error::Unavailable), [`Stopped`](Error::Stopped), [`Closed`](Error::Closed).
    pub fn catch_up(&self) -> Result<()> {
        self.shared().catch_up()
    }

    /// Checks the checksum of every page, and every record against every index and count, and says
    /// in words what is wrong; an empty answer means that all is well. Flushes first. Reads the whole store: minutes for
    /// many millions of tasks, while the queue goes on and the file keeps what it frees.
    ///
    /// # Errors
    /// The store could not be read or flushed.
    pub fn verify(&self) -> Result<Vec<String>> {
        self.verify_with(|_, _| {})
    }

    /// As [`verify`](Store::verify); `progress` is told now and then how many tasks of the file
    /// have been checked, and how many there are.
    ///
    /// # Errors
    /// As [`verify`](Store::verify).
    pub fn verify_with(&self, mut progress: impl FnMut(u64, u64)) -> Result<Vec<String>> {
        let shared = self.shared();
        shared.flush()?;
        let pages = shared.with_engine(FILE, Engine::check_pages)?;
        let mut findings = Vec::from_iter(pages);
        let audited = shared.noted(self.audit(&mut progress));
        match audited.and_then(|found| Ok((found, shared.run(Core::check_memory)?))) {
            Ok((rows, memory)) => findings.extend(rows.into_iter().chain(memory)),
            // Damage is what was looked for; it may keep the rest from being looked at.
            Err(Error::Corrupt { what }) => findings.push(what),
            Err(error) => return Err(error),
        }
        Ok(findings)
    }

    fn audit(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>> {
        let mut snapshot = self.shared().with_engine(FILE, Engine::still)?;
        let (books, dying) = stored_books(&mut snapshot)?;
        let tasks = books.iter().map(|books| books.counts.total()).sum();
        audit(&mut snapshot, &books, &dying, &mut |checked| progress(checked, tasks))
    }

    /// What has gone to the file since the store was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (commits, rows) = self.shared().run(|core| (last_commit(core), core.lanes[FILE].rows));
        let opened_at = self.handle.0.opened_at;
        let read = self.shared().with_engine(FILE, |engine| {
            let io = engine.counters();
            Ok(Counters {
                commits,
                opened_at,
                rows,
                flushes: io.flushes(),
                writes: io.writes(),
                bytes_written: io.bytes_written(),
                reads: io.reads(),
            })
        });
        read.unwrap_or(Counters { commits, opened_at, rows, ..Counters::default() })
    }

    /// How the store's time line stands to the wall clock, and whether that was believed when the
    /// store was opened; see [`StoreOptions::wall_clock_limit`].
    #[must_use]
    pub fn clock_report(&self) -> ClockReport {
        let (line, doubted) = self.shared().run(|core| (core.now.line, core.doubted));
        ClockReport {
            line: duration(line),
            wall: duration(self.shared().clock().wall()),
            doubted: doubted.map(duration),
        }
    }

    /// Closes the store for every handle: what was relaxed is flushed, everyone who waits gets
    /// [`Closed`](Error::Closed), the file is free once this returns. Closing again does nothing.
    ///
    /// # Errors
    /// The last flush failed: what was acknowledged before is safe, relaxed changes since the last
    /// flush may be lost.
    pub fn close(&self) -> Result<()> {
        self.handle.0.close()
    }

    pub(crate) fn start(
        engine: Engine,
        config: Config,
        clock: Clock,
        drivers: Vec<Arc<dyn Driver>>,
    ) -> Result<Store> {
        let epoch = crate::random::random_u64();
        let (core, floor) = Core::open(engine, config, drivers, epoch)?;
        let opened_at = last_commit(&core);
        let shared = Arc::new(Shared::new(core, clock, floor)?);
        let own = SessionId::random();
        shared.run(|core| core.begin_session(own));
        let threads = Threads::start(&shared)?;
        let ticked: Arc<dyn Ticked> = shared.clone();
        shared.clock().attach(Weak::clone(&Arc::downgrade(&ticked)));
        let max_body = config.max_body;
        let inner = HandleInner { shared, own, opened_at, max_body, threads: Mutex::new(threads) };
        let store = Store { handle: Handle(Arc::new(inner)) };
        // The first commit of a new file makes it a store of ours.
        if store.shared().run(|core| core.lanes[FILE].batch.number) == 1 {
            store.shared().call(FILE, |core| Ok(core.first_commit()))?;
        }
        Ok(store)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.0.shared
    }
}

fn last_commit(core: &Core) -> u64 {
    core.lanes[FILE].batch.number.saturating_sub(1)
}

/// Keeps the store open as long as somebody has one.
#[derive(Clone)]
pub(crate) struct Handle(Arc<HandleInner>);

impl Handle {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Whether both are of the same store.
    pub(crate) fn is(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn max_body(&self) -> usize {
        self.0.max_body
    }

    /// The session of those who did not ask for one.
    pub(crate) fn own_session(&self) -> SessionId {
        self.0.own
    }
}

struct HandleInner {
    shared: Arc<Shared>,
    own: SessionId,
    opened_at: u64,
    max_body: usize,
    threads: Mutex<Threads>,
}

impl HandleInner {
    fn close(&self) -> Result<()> {
        let closed = self.shared.close();
        self.threads.lock().join();
        self.shared.listeners.close();
        closed
    }
}

impl Drop for HandleInner {
    fn drop(&mut self) {
        // Nobody is left to be told; `close` tells.
        let _ = self.close();
    }
}

#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    fn start(shared: &Arc<Shared>) -> Result<Threads> {
        let mut threads = Threads::default();
        let started = threads.spawn("tubewell-writer", shared, Shared::write_on).and_then(|()| {
            // A manual clock sweeps on the thread that moves it.
            if shared.clock().is_manual() {
                Ok(())
            } else {
                threads.spawn("tubewell-sweeper", shared, Shared::sweep_on)
            }
        });
        if let Err(error) = started {
            let _ = shared.close();
            threads.join();
            return Err(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, shared: &Arc<Shared>, run: fn(&Shared)) -> std::io::Result<()> {
        let shared = shared.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&shared))?;
        self.0.push(thread);
        Ok(())
    }

    /// Waits until the threads have ended; the last handle may go in one of them.
    fn join(&mut self) {
        let this: ThreadId = thread::current().id();
        for thread in self.0.drain(..) {
            if thread.thread().id() != this {
                // A panic in them has stopped the store and told everyone already.
                let _ = thread.join();
            }
        }
    }
}
