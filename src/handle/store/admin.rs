//! The calls of an operator on a whole store.

use std::fmt::{Debug, Formatter};
use std::ops::ControlFlow;
use std::sync::Arc;

use tubewell_drivers::Driver;

use super::Store;
use crate::core::list::{NextId, Space};
use crate::core::{Buffer, Core};
use crate::handle::call;
use crate::{Blocking, Mode, Result};

/// The calls of an operator on a whole store, and of a program that looks after one: checks and copies of
/// its file, its figures, the limits that tubes share, drivers, and other processes that use it. From
/// [`Store::admin`].
///
/// # Example: a check and a copy each night
/// ```
/// use tubewell::Store;
///
/// # let dir = tempfile::tempdir()?;
/// let store = Store::in_memory()?;
/// store.tube("mail")?.put("to: ann")?;
/// for finding in store.admin().verify()? {
///     eprintln!("{finding}");
/// }
/// // Each copy has a name of its own: a backup overwrites no file.
/// let copy = dir.path().join(format!("{}.tubewell", store.today()?));
/// store.admin().backup(&copy)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "this view does nothing by itself; call one of its methods"]
pub struct StoreAdmin<'a, M: Mode = Blocking> {
    pub(crate) store: &'a Store<M>,
}

impl<M: Mode> Store<M> {
    /// The calls of an operator: checks, copies, figures, shared limits, drivers, and other processes that
    /// use the store.
    pub fn admin(&self) -> StoreAdmin<'_, M> {
        StoreAdmin { store: self }
    }
}

impl<M: Mode> StoreAdmin<'_, M> {
    /// The id of the next task that is put. Waits for nothing.
    ///
    /// It is 0 until a task is put or restored. The run after a killed one skips up to 1,048,576 ids.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected), [`Refused`](crate::Error::Refused): the owner of the
    /// store does not answer the connection. [`Closed`](crate::Error::Closed): the connection was closed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// let store = Store::in_memory()?;
    /// assert_eq!(store.admin().next_id()?, 0);
    /// store.tube("jobs")?.put("one")?;
    /// assert_eq!(store.admin().next_id()?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn next_id(&self) -> M::Answer<u64> {
        self.store.make(NextId {})
    }

    /// Waits until a change would be accepted in any tube by a handle that is
    /// [refused when the write buffer is full](crate::Tube::refuse_when_full), and would not stand in line.
    ///
    /// The calls that wait are answered in order of arrival, as many as there is space for. The space
    /// is not reserved: if another call fills it first, the next call is refused again. Through a
    /// [connection](crate::connect) it also waits until the owner has received all calls before it.
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed), [`Unavailable`](crate::Error::Unavailable).
    ///
    /// # Example: a producer that does other work while there is no space
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?.to_async().refuse_when_full();
    /// match jobs.put("one").wait() {
    ///     Err(Error::Overloaded) => store.admin().capacity()?, // then put it again
    ///     put => println!("task {}", put?.id),
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn capacity(&self) -> M::Answer<()> {
        M::either(
            self.store.handle.clone(),
            |handle| {
                Buffer::ALL.into_iter().try_for_each(|buffer| handle.make(buffer, (), &Space {}))
            },
            |handle| async move {
                for buffer in Buffer::ALL {
                    call::make(&handle, buffer, (), &Space {}).await?;
                }
                Ok(())
            },
        )
    }
}

impl StoreAdmin<'_> {
    /// Registers a driver. Tubes that were created with it can be used from now on. Does not block.
    ///
    /// A driver is not stored: register it after every open, or with
    /// [`StoreOptions::driver`](crate::StoreOptions::driver) before the tubes are loaded. Without it, puts
    /// and takes of its tubes return [`DriverUnknown`](crate::Error::DriverUnknown); their delays and ttls
    /// elapse as usual.
    ///
    /// # Errors
    /// [`DriverExists`](crate::Error::DriverExists); [`Invalid`](crate::Error::Invalid) if a tube was created
    /// with a driver of this name and other traits, or for a name that a tube must not have.
    /// Nothing changed.
    ///
    /// # Example: the longest body first
    /// ```
    /// use tubewell::driver::{Draft, Driver, Traits};
    /// use tubewell::{Store, TubeOptions};
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
    /// store.admin().register_driver(LongestFirst)?;
    /// let tube = store.open_tube("jobs", TubeOptions::new().driver("longest-first"))?;
    /// tube.put_many(["a", "aaa", "aa"])?;
    /// assert_eq!(tube.try_take()?.unwrap().body(), b"aaa");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn register_driver(&self, driver: impl Driver) -> Result<()> {
        let driver: Arc<dyn Driver> = Arc::new(driver);
        // A refused driver is dropped here, without the lock: it may own handles.
        let register = |core: &mut Core| core.register_driver(driver.clone());
        self.store
            .here("a driver")?
            .inner()?
            .run(|core| core.check_open().and_then(|()| register(core)))
    }

    /// Processes everything that is due now (delays, ttls, expired claims), as the store does by
    /// itself, and returns when that is done. The tasks that wait for parents which were acked, buried
    /// or removed are told of it, too.
    ///
    /// After the store was closed for some time, many tasks may be due. A take that finds no task
    /// processes up to 512 of them itself. [`statistics`](Store::statistics), [`list`](crate::Query::list)
    /// and [`task`](crate::Query::task) show the tasks as they were processed. The call blocks for the work
    /// and its commits; call it on a blocking thread of an async runtime.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable), [`Stopped`](crate::Error::Stopped),
    /// [`Closed`](crate::Error::Closed). Through a connection, [`OwnerBusy`](crate::Error::OwnerBusy).
    ///
    /// # Example: exact counts right after an open
    /// ```
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let store = Store::open(dir.path().join("jobs"))?;
    /// store.admin().catch_up()?;
    /// for (tube, statistics) in store.statistics()? {
    ///     println!("{tube}: {} ready", statistics.tasks.ready);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn catch_up(&self) -> Result<()> {
        self.catch_up_with(|_| ControlFlow::Continue(()))
    }

    /// As [`catch_up`](StoreAdmin::catch_up). Calls `progress` now and then with how many delays, ttls and runs
    /// of schedules are done so far; its panics are ignored. `ControlFlow::Break` ends the call, and the store does the
    /// rest by itself. While the store tells the children of ended parents, it calls no `progress`. Through a connection
    /// `progress` is not called, and the owner ends the call when the connection ends. What is done is done also if the process ends meanwhile, and the rest is due at the next open.
    ///
    /// # Errors
    /// Those of [`catch_up`](StoreAdmin::catch_up).
    ///
    /// # Example
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// store.admin().catch_up_with(|done| {
    ///     eprintln!("{done} so far");
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn catch_up_with(&self, mut progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        self.store.handle.catch_up(&mut progress)
    }
}

impl<M: Mode> Debug for StoreAdmin<'_, M> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StoreAdmin").field(self.store).finish()
    }
}
