//! The store: opened, closed, and asked for its tubes and sessions.

mod inspect;
mod options;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tubewell_drivers::Driver;

use crate::clock::{Clock, TimeDriven};
use crate::core::{Config, Core, FILE, TubeRequest};
use crate::handle::{OpenStore, SessionGuard, StoreHandle, Threads};
use crate::pipeline::StoreInner;
use crate::session::Session;
use crate::storage::Engine;
use crate::sync::Mutex;
use crate::tube::{take_any, take_any_async};
use crate::wait::TakeFuture;
use crate::{Claim, Error, Result, SessionId, Tube, TubeInfo, TubeOptions};

pub use inspect::{ClockReport, Counters};
pub use options::StoreOptions;

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
    pub(crate) handle: StoreHandle,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("tubes", &self.tubes().len()).finish_non_exhaustive()
    }
}

impl Store {
    /// Creates a tube that a driver of this name runs.
    ///
    /// The tube is in the file once this returns and survives a killed process and a power cut; it
    /// waits for a flush. With `if_not_exists`, a tube that is there with the same driver and options
    /// is opened instead. A name is any text of 1 to 255 bytes without control characters.
    ///
    /// # Errors
    /// [`TubeExists`](Error::TubeExists), [`TubeDiffers`](Error::TubeDiffers), which names the first
    /// difference, [`DriverUnknown`](Error::DriverUnknown), [`Unsupported`](Error::Unsupported) for
    /// an option that the driver does not have, [`Invalid`](Error::Invalid) for another name: nothing
    /// was created, and the tube that is there is as it was.
    ///
    /// # Example: what a program does at every start
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Error, FIFO, FIFOTTL, Store, TubeOptions};
    ///
    /// # let store = Store::in_memory()?;
    /// let options = || TubeOptions::new().ttr(Duration::from_secs(60)).if_not_exists(true);
    /// let jobs = store.create_tube("jobs", FIFOTTL, options())?;
    /// let same = store.create_tube("jobs", FIFOTTL, options())?;
    ///
    /// let other = store.create_tube("jobs", FIFO, TubeOptions::new().if_not_exists(true));
    /// assert!(matches!(other, Err(Error::TubeDiffers { .. })));
    /// # assert_eq!(jobs.name(), same.name());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create_tube(&self, name: &str, driver: &str, options: TubeOptions) -> Result<Tube> {
        let request = TubeRequest { name: name.into(), driver: driver.into(), options };
        let head = self.inner().call(FILE, |core| core.create_tube(&request))?;
        Ok(Tube::new(self.handle.clone(), self.handle.own_session(), None, head))
    }

    /// Opens a tube that is there. Writes nothing and waits for nobody.
    ///
    /// The verbs of the handle act for the store's own session; see [`Session::tube`] for others.
    ///
    /// # Errors
    /// [`TubeNotFound`](Error::TubeNotFound); [`Closed`](Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    ///
    /// store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// store.tube("jobs")?.put("one")?;
    /// assert!(matches!(store.tube("job"), Err(Error::TubeNotFound { .. })));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn tube(&self, name: &str) -> Result<Tube> {
        let head = self.inner().run(|core| core.find_tube(name))?;
        Ok(Tube::new(self.handle.clone(), self.handle.own_session(), None, head))
    }

    /// All tubes, by name: what they are, and who waits in them. Waits for nothing.
    #[must_use]
    pub fn tubes(&self) -> Vec<TubeInfo> {
        self.inner().run(|core| core.tube_infos())
    }

    /// The id of the next task that is put. Waits for nothing.
    ///
    /// It is 0 until a task is put or restored. The run after a killed one skips up to 1,048,576 ids.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// let store = Store::in_memory()?;
    /// assert_eq!(store.next_id(), 0);
    /// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
    /// assert_eq!(store.next_id(), 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.inner().run(|core| core.ids.next)
    }

    /// Drops a tube with all its tasks, unless somebody works on it.
    ///
    /// Once this returns it is gone for good, power cut or not; it waits for a flush, however many
    /// tasks there were. Their rows are removed later, little by little. Handles of it answer
    /// [`TubeDropped`](Error::TubeDropped), also if the name is used again.
    ///
    /// # Errors
    /// [`TubeNotFound`](Error::TubeNotFound); [`TubeBusy`](Error::TubeBusy) if tasks are taken or
    /// somebody waits: the tube stays.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let old = store.create_tube("old", FIFO, TubeOptions::new())?;
    /// old.put("nobody needs it")?;
    /// store.drop_tube("old")?;
    /// assert!(store.tubes().is_empty());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn drop_tube(&self, name: &str) -> Result<()> {
        self.inner().call(FILE, |core| core.drop_tube(name))
    }

    /// Registers a driver. Tubes that were created with it and waited for it come to life.
    ///
    /// A driver is not stored: register it after every open, or with
    /// [`StoreOptions::driver`] before the tubes are loaded. Until then puts and takes of such tubes
    /// answer [`DriverUnknown`](Error::DriverUnknown), and their times go on.
    ///
    /// # Errors
    /// [`DriverExists`](Error::DriverExists); [`Invalid`](Error::Invalid) if a tube was created
    /// with a driver of this name and other traits, or for a name that no tube could have. Nothing
    /// has changed.
    ///
    /// # Example: the longest body first
    /// ```
    /// use tubewell::{Draft, Driver, Store, Traits, TubeOptions};
    ///
    /// struct LongestFirst;
    ///
    /// impl Driver for LongestFirst {
    ///     fn name(&self) -> &str {
    ///         "longest-first"
    ///     }
    ///     fn traits(&self) -> Traits {
    ///         Traits::default()
    ///     }
    ///     fn order(&self, task: &Draft<'_>) -> u64 {
    ///         u64::MAX - task.body.len() as u64
    ///     }
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// store.register_driver(LongestFirst)?;
    /// let tube = store.create_tube("jobs", "longest-first", TubeOptions::new())?;
    /// tube.put_many(["a", "aaa", "aa"])?;
    /// assert_eq!(tube.try_take()?.unwrap().data(), b"aaa");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn register_driver(&self, driver: impl Driver) -> Result<()> {
        let driver: Arc<dyn Driver> = Arc::new(driver);
        // One that is refused is dropped here, without the lock: it may own handles.
        let register = |core: &mut Core| core.register_driver(driver.clone());
        self.inner().run(|core| core.check_open().and_then(|()| register(core)))
    }

    /// A new session: an owner of claims, whose end releases them. See [`Session`].
    #[must_use]
    pub fn session(&self) -> Session {
        let id = SessionId::random();
        self.inner().run(|core| core.begin_session(id));
        Session::new(SessionGuard::new(self.handle.clone(), id))
    }

    /// One more handle of a session that is alive, or in its grace after the last handle went; the
    /// grace is over and forgotten then. Writes nothing and waits for nobody.
    ///
    /// # Errors
    /// [`SessionUnknown`](Error::SessionUnknown): it has ended and its tasks have been released.
    /// [`Invalid`](Error::Invalid) for the store's own session, which lives as long as the store.
    ///
    /// # Example: a client that comes back
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::options().session_grace(Duration::from_secs(60)).open_in_memory()?;
    /// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
    ///
    /// let client = store.session();
    /// let id = client.id();
    /// let task = client.tube("jobs")?.try_take()?.unwrap().detach();
    /// drop(client); // the connection broke; its task is still taken
    ///
    /// let client = store.resume_session(id)?;
    /// client.tube("jobs")?.ack(task.info.id)?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn resume_session(&self, id: SessionId) -> Result<Session> {
        if id == self.handle.own_session() {
            return Err(Error::invalid("the store's own session cannot be resumed or ended"));
        }
        self.inner().run(|core| core.resume_session(id))?;
        Ok(Session::new(SessionGuard::new(self.handle.clone(), id)))
    }

    /// Takes from the first of these tubes that has a task, in the order given, or waits in all
    /// of them, with one time of arrival; as [`Tube::take`] otherwise. The claim belongs to the
    /// store's own session; see [`Session::take_any`] for others.
    ///
    /// # Errors
    /// As [`Tube::take`]; [`Invalid`](Error::Invalid) for no tube, or tubes of two stores.
    ///
    /// # Example: what is urgent before the rest
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let urgent = store.create_tube("urgent", FIFO, TubeOptions::new())?;
    /// let other = store.create_tube("other", FIFO, TubeOptions::new())?;
    /// other.put("a")?;
    /// urgent.put("b")?;
    /// let first = store.take_any(&[&urgent, &other], Duration::from_secs(1))?.unwrap();
    /// assert_eq!(first.tube(), "urgent");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_any(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Claim>> {
        take_any(&self.handle, tubes, self.handle.own_session(), None, timeout.into())
    }

    /// As [`take_any`](Store::take_any), as a future of no particular runtime; see
    /// [`Tube::take_async`].
    pub fn take_any_async(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> TakeFuture {
        take_any_async(&self.handle, tubes, self.handle.own_session(), None, timeout.into())
    }

    /// Waits until everything decided so far is in the file, relaxed changes included, and survives a
    /// power cut; answers with the number of the commit. Does not write if there is nothing to write.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](Error::OutcomeUnknown), [`Unavailable`](Error::Unavailable),
    /// [`Closed`](Error::Closed).
    ///
    /// # Example: a barrier
    /// ```
    /// use tubewell::Durability;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    ///
    /// let options = TubeOptions::new().durability(Durability::relaxed());
    /// let clicks = store.create_tube("clicks", FIFO, options)?;
    /// let receipt = clicks.put("at 3, 4")?;
    /// assert!(store.flush()? >= receipt.commit);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn flush(&self) -> Result<u64> {
        self.inner().flush()
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
        self.inner().catch_up()
    }

    /// Closes the store for every handle: what was relaxed is flushed, everyone who waits gets
    /// [`Closed`](Error::Closed), the file is free once this returns. Tasks that are taken are ready
    /// when it is opened again. It waits for the last flush and for callbacks under way. Closing again
    /// does nothing, and returns when the file is free.
    ///
    /// The drop of the last handle does the same, and tells nobody of its errors.
    ///
    /// # Errors
    /// The last flush failed: what was acknowledged before is safe, relaxed changes since the last
    /// flush may be lost.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// store.close()?;
    /// assert_eq!(tube.put("too late"), Err(Error::Closed));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        self.handle.close()
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
        let inner = Arc::new(StoreInner::new(core, clock, floor)?);
        let own = SessionId::random();
        inner.run(|core| core.begin_session(own));
        let threads = Threads::start(&inner)?;
        let ticked: Arc<dyn TimeDriven> = inner.clone();
        inner.clock().attach(Weak::clone(&Arc::downgrade(&ticked)));
        let max_body = config.max_body;
        let inner = OpenStore { inner, own, opened_at, max_body, threads: Mutex::new(threads) };
        let store = Store { handle: StoreHandle::new(inner) };
        // The first commit of a new file makes it a store of ours.
        if store.inner().run(|core| core.buffers[FILE].batch.number) == 1 {
            store.inner().call(FILE, |core| Ok(core.first_commit()))?;
        }
        Ok(store)
    }

    pub(crate) fn inner(&self) -> &StoreInner {
        self.handle.inner()
    }
}

fn last_commit(core: &Core) -> u64 {
    core.buffers[FILE].batch.number.saturating_sub(1)
}
