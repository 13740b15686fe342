//! The store: its tubes, and its close.

mod admin;
mod backlog;
mod connect;
mod inspect;
mod keys;
mod labels;
mod limits;
mod options;
mod prometheus;
mod selected;
mod sessions;

use std::marker::PhantomData;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tubewell_drivers::Driver;

use crate::base::clock::{Clock, TimeDriven};
use crate::base::sync::Mutex;
use crate::connection::Request;
use crate::core::list::{CreateTube, DropTube, FindTube, Owners, Tubes};
use crate::core::verb::{Begin, InStore};
use crate::core::{Buffer, Config, Core, TubeHead};
use crate::handle::call;
use crate::handle::mode::Call;
use crate::handle::store_handle::StoreHandle;
use crate::handle::tube::take_any;
use crate::runtime::StoreInner;
use crate::runtime::open_store::{LocalHandle, OpenStore, Threads};
use crate::storage::Engine;
use crate::{
    Async, Blocking, Bytes, Claim, Mode, OwnerInfo, Result, SessionId, Tube, TubeInfo, TubeOptions,
};

pub use admin::StoreAdmin;
pub use connect::{ConnectOptions, connect};
pub use options::StoreOptions;
pub(crate) use prometheus::scrape_here;

/// A persistent store of tubes, in one file that one process owns.
///
/// Clones are handles of the same store. The store stays open until its last handle is dropped
/// (store, session, tube, claim, ticket, future), or until [`close`](Store::close), which closes it
/// for all of them.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::Store;
///
/// let store = Store::in_memory()?;
/// let tube = store.tube("mail")?;
/// tube.put("to: ann")?;
/// if let Some(claim) = tube.take_timeout(Duration::from_secs(1))? {
///     assert_eq!(claim.body(), b"to: ann");
///     claim.ack()?;
/// }
/// # Ok::<(), tubewell::Error>(())
/// ```
pub struct Store<M: Mode = Blocking> {
    pub(crate) handle: StoreHandle,
    mode: PhantomData<fn() -> M>,
}

/// A store whose calls return a [`Ticket`](crate::Ticket) and block no thread: a store after
/// [`to_async`](Store::to_async).
pub type AsyncStore = Store<Async>;

impl<M: Mode> Clone for Store<M> {
    fn clone(&self) -> Store<M> {
        Store::of(self.handle.clone())
    }
}

impl<M: Mode> std::fmt::Debug for Store<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = f.debug_struct("Store");
        // That of a connection may wait for its owner.
        if let StoreHandle::Here(store) = &self.handle
            && let Ok(inner) = store.inner()
        {
            fields.field("tubes", &inner.run(|core| core.tubes.len()));
        }
        fields.finish_non_exhaustive()
    }
}

impl<M: Mode> Store<M> {
    /// Opens a tube as it is, or creates it with the defaults: the driver [`FIFOTTL`](crate::FIFOTTL), no
    /// limits. [`open_tube`](Store::open_tube) creates it with others, and
    /// [`find_tube`](Store::find_tube) creates nothing.
    ///
    /// A name is any text of 1 to 255 bytes without control characters. Once this returns, the tube
    /// survives a killed process and a power cut. The call blocks for a flush if the tube is new; it may
    /// block for space in the write buffer, as every change. [`find_tube`](Store::find_tube) does neither. The
    /// claims of the handle belong to the store's own session; [`Session::tube`](crate::Session::tube) returns a
    /// handle for others.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) for another name; [`InTransaction`](crate::Error::InTransaction);
    /// [`OwnerBusy`](crate::Error::OwnerBusy): other processes have created as many tubes as they may.
    /// Nothing was created.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.tube("mail")?;
    /// mail.put("to: ann")?;
    /// assert_eq!(store.tube("mail")?.statistics()?.tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "create_queue")]
    pub fn tube(&self, name: &str) -> M::Answer<Tube<Bytes, M>> {
        self.open_tube(name, TubeOptions::new())
    }

    /// Opens a tube, and gives it the options that are named; or creates it with them. So a program
    /// opens its tubes at each start: what its options name holds again then, and what they leave out
    /// stays as an operator has [altered](crate::Admin::alter) it.
    ///
    /// Once this returns, the tube and its options survive a killed process and a power cut. The call
    /// blocks for a flush, unless the tube has these options already.
    ///
    /// # Errors
    /// [`TubeDiffers`](crate::Error::TubeDiffers): the tube has another driver, or another value of an option
    /// that no alter changes. [`DriverUnknown`](crate::Error::DriverUnknown), for a new tube or if an option is
    /// named;
    /// [`Unsupported`](crate::Error::Unsupported) for an option that the driver does not have;
    /// [`Invalid`](crate::Error::Invalid) for a value outside its limits, or a name as in [`tube`](Store::tube).
    /// Nothing was created, and an existing tube did not change.
    ///
    /// # Example: at every start of a program
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Error, Store, TubeOptions, UTUBE};
    ///
    /// # let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().ttr(Duration::from_secs(60)))?;
    /// let same = store.open_tube("jobs", TubeOptions::new().max_taken(8))?;
    /// assert_eq!(same.info()?.ttr, Some(Duration::from_secs(60)));
    ///
    /// let other = store.open_tube("jobs", TubeOptions::new().driver(UTUBE));
    /// assert!(matches!(other, Err(Error::TubeDiffers { .. })));
    /// # assert_eq!(jobs.name(), same.name());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn open_tube(&self, name: &str, options: TubeOptions) -> M::Answer<Tube<Bytes, M>> {
        let open = CreateTube { name: name.into(), options, opens: true };
        self.with_tube(self.make(open))
    }

    /// Creates a tube. As [`open_tube`](Store::open_tube), but fails if there is one of this name.
    ///
    /// # Errors
    /// [`TubeExists`](crate::Error::TubeExists), and the others of [`open_tube`](Store::open_tube) but
    /// `TubeDiffers`. Nothing was created.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, LIMFIFOTTL, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().driver(LIMFIFOTTL).capacity(1000);
    /// store.create_tube("uploads", options.clone())?;
    /// let again = store.create_tube("uploads", options);
    /// assert!(matches!(again, Err(Error::TubeExists { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn create_tube(&self, name: &str, options: TubeOptions) -> M::Answer<Tube<Bytes, M>> {
        let create = CreateTube { name: name.into(), options, opens: false };
        self.with_tube(self.make(create))
    }

    /// Opens a tube that exists: for a program that only reads, or that must not create a tube whose
    /// name is misspelt. Writes nothing and does not block.
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::Error::TubeNotFound), which names a tube with a similar name;
    /// [`Closed`](crate::Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    ///
    /// store.tube("jobs")?.put("one")?;
    /// assert_eq!(store.find_tube("jobs")?.statistics()?.tasks.ready, 1);
    /// assert!(matches!(store.find_tube("job"), Err(Error::TubeNotFound { .. })));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn find_tube(&self, name: &str) -> M::Answer<Tube<Bytes, M>> {
        self.with_tube(self.make(FindTube { name: name.into() }))
    }

    /// All tubes, by name, with their options and the number of waiters. Does not block.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected), [`Refused`](crate::Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](crate::Error::Closed): the connection was closed.
    pub fn tubes(&self) -> M::Answer<Vec<TubeInfo>> {
        self.make(Tubes {})
    }

    /// The sessions that have tasks or have [described](crate::Session::describe) themselves, and those
    /// that have [parked](Claim::park) a claim which stands. By label, those without a label first.
    ///
    /// A session is listed as long as it has a claim, however long it has made no call. Does not block. The
    /// cost grows with the number of claims.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected), [`Refused`](crate::Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](crate::Error::Closed): the connection was closed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("one")?;
    /// let worker = store.session("worker-3")?;
    /// let job = worker.tube(&jobs)?.try_take()?.unwrap();
    /// let owners = store.owners()?;
    /// assert_eq!((owners[0].label.as_deref(), owners[0].running), (Some("worker-3"), 1));
    ///
    /// job.ack()?;
    /// assert!(store.owners()?.is_empty());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "workers")]
    pub fn owners(&self) -> M::Answer<Vec<OwnerInfo>> {
        self.make(Owners {})
    }

    /// Drops a tube with all its tasks, unless it is in use.
    ///
    /// Once this returns, the tube does not come back after a killed process or a power cut. The
    /// call blocks for a flush, however many tasks there were. The rows of the tasks are
    /// removed later, in steps. Handles of the tube return [`TubeDropped`](crate::Error::TubeDropped),
    /// even if a new tube has the name.
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::Error::TubeNotFound); [`TubeBusy`](crate::Error::TubeBusy) while a task is taken,
    /// or a take or a put waits. The tube stays.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let old = store.tube("old")?;
    /// old.put("not needed")?;
    /// store.drop_tube("old")?;
    /// assert!(store.tubes()?.is_empty());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn drop_tube(&self, name: &str) -> M::Answer<()> {
        self.make(DropTube { name: name.into() })
    }

    /// Takes the next task of the first of these tubes that has one, in the given order, or waits
    /// in all of them. The taker has one place in the order of arrival for all tubes. As
    /// [`Tube::take`] otherwise. The claim belongs to the store's own session; see
    /// [`Session::take_any`](crate::Session::take_any) for others.
    ///
    /// # Errors
    /// Those of [`Tube::take`]; [`Invalid`](crate::Error::Invalid) for no tube, or for tubes of two
    /// stores.
    ///
    /// # Example: urgent tasks first
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let urgent = store.tube("urgent")?;
    /// let other = store.tube("other")?;
    /// other.put("a")?;
    /// urgent.put("b")?;
    /// let first = store.take_any(&[&urgent, &other], Duration::from_secs(1))?.unwrap();
    /// assert_eq!(first.tube(), "urgent");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_any<N: Mode>(
        &self,
        tubes: &[&Tube<Bytes, N>],
        timeout: Duration,
    ) -> M::Answer<Option<Claim<Bytes, M>>> {
        take_any::<M, N>(&self.handle, tubes, self.handle.own_session(), None, timeout)
    }

    /// Flushes (fsync) every change that was decided before the call, written and relaxed changes
    /// included, and returns the number of the last commit that is flushed.
    ///
    /// Once this returns, those changes survive a killed process and a power cut. Does nothing if
    /// everything is flushed. The call blocks for the flush. That of an [`AsyncStore`] begins when its ticket
    /// is awaited.
    ///
    /// # Errors
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the store tries it again by
    /// itself. [`Unavailable`](crate::Error::Unavailable), [`Closed`](crate::Error::Closed): nothing was flushed.
    ///
    /// # Example: a barrier
    /// ```
    /// use tubewell::Durability;
    /// # use tubewell::{Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    ///
    /// let options = TubeOptions::new().durability(Durability::relaxed());
    /// let clicks = store.open_tube("clicks", options)?;
    /// let receipt = clicks.put("at 3, 4")?;
    /// assert!(store.flush()? >= receipt.commit);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "fsync")]
    pub fn flush(&self) -> M::Answer<u64> {
        M::either(
            self.handle.clone(),
            |handle| handle.flush(),
            |handle| async move {
                match &handle {
                    StoreHandle::Here(store) => call::commit(store.inner()?.defer_flush()?).await,
                    StoreHandle::Remote(owner) => owner.request(&Request::Flush).await,
                }
            },
        )
    }

    /// Closes the store for every handle (graceful shutdown).
    ///
    /// Changes of written and relaxed tubes are flushed. Every waiter gets
    /// [`Closed`](crate::Error::Closed). Tasks that are taken are ready at the next open. Once this
    /// returns, another process may open the file. The call blocks for the last flush, for
    /// callbacks that run, and, if the file is large and mostly empty, for the return of its free
    /// space to the file system, where that takes an estimated 50 ms at most.
    /// That of an [`AsyncStore`] begins when its ticket is awaited, and runs on a thread of its own.
    /// Closing again changes nothing, and returns when the file is free.
    ///
    /// Dropping the last handle closes the store too, and discards the errors.
    ///
    /// # Errors
    /// The last flush failed. Acknowledged changes of tubes with
    /// [`Durability::Flush`](crate::Durability::Flush) are safe. Written and relaxed changes since
    /// the last flush may be lost. The store is closed.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let tube = store.tube("jobs")?;
    ///
    /// store.close()?;
    /// assert_eq!(tube.put("too late"), Err(Error::Closed));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "graceful shutdown")]
    pub fn close(&self) -> M::Answer<()> {
        M::either(self.handle.clone(), |handle| handle.close(), call::close)
    }

    /// A handle of the same store whose calls return a [`Ticket`](crate::Ticket) and block no thread, as do those of
    /// the tubes that it returns.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Result, Store};
    ///
    /// async fn enqueue(store: &Store, urls: &[&str]) -> Result<()> {
    ///     let pages = store.to_async().tube("pages").await?;
    ///     pages.put_many(urls.iter().copied()).await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn to_async(&self) -> Store<Async> {
        Store::of(self.handle.clone())
    }

    /// A handle of the same store whose calls block.
    #[must_use]
    pub fn to_blocking(&self) -> Store<Blocking> {
        Store::of(self.handle.clone())
    }

    pub(crate) fn of(handle: StoreHandle) -> Store<M> {
        Store { handle, mode: PhantomData }
    }

    fn with_tube(&self, head: M::Answer<TubeHead>) -> M::Answer<Tube<Bytes, M>> {
        let handle = self.handle.clone();
        M::map(head, move |head| {
            let session = handle.own_session();
            Tube::new(handle, session, None, head)
        })
    }

    fn make<V: Begin<On = InStore>>(&self, verb: V) -> M::Answer<V::Answer> {
        M::make(Call::on_store(&self.handle), Ok(verb))
    }
}

impl Store {
    pub(crate) fn start(
        engine: Engine,
        config: Config,
        clock: Clock,
        drivers: Vec<Arc<dyn Driver>>,
    ) -> Result<Store> {
        let epoch = crate::base::random::random_u64();
        let (core, floor) = Core::open(engine, config, drivers, epoch)?;
        let opened_at = last_commit(&core);
        let inner = Arc::new(StoreInner::new(core, clock, floor)?);
        let own = SessionId::random();
        inner.run(|core| core.begin_session(own, None))?;
        let threads = Threads::start(&inner)?;
        let time_driven: Arc<dyn TimeDriven> = inner.clone();
        inner.clock().attach(Weak::clone(&Arc::downgrade(&time_driven)));
        let max_body = config.max_body;
        let store = LocalHandle::new(OpenStore {
            inner,
            own,
            opened_at,
            max_body,
            is_owner: true,
            threads: Mutex::new(threads),
            servers: Arc::default(),
        });
        // The first commit of a new file makes it a store. It has the header and the id.
        if store.inner()?.run(|core| last_commit(core)) == 0 {
            store.inner()?.call(None, Core::store_id)?;
        }
        Ok(Store::of(StoreHandle::Here(store)))
    }

    /// The store, for what only its owner can do.
    pub(crate) fn here(&self, what: &'static str) -> Result<&LocalHandle> {
        self.handle.here(what)
    }

    #[cfg(test)]
    pub(crate) fn local(&self) -> &LocalHandle {
        self.here("a test of the library").unwrap()
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &StoreInner {
        self.local().inner().unwrap()
    }
}

fn last_commit(core: &Core) -> u64 {
    core.buffers[Buffer::File].edits.last_commit()
}
