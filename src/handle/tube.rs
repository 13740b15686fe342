//! The handle of a tube, and its calls.

mod admin;
mod before_put;
mod edits;
mod gates;
mod history;
mod holder;
mod keyed;
mod labels;
mod limits;
mod metrics;
mod outcomes;
mod parents;
mod put;
mod schedules;
mod selected;
mod steps;
mod take;
mod typed;
mod views;
mod watch;

pub(crate) use take::take_any;
#[cfg(test)]
pub(crate) use take::take_more;
pub use views::{Admin, Query, Schedules};

use std::marker::PhantomData;
use std::sync::Arc;

use crate::base::tube_no::TubeNo;
use crate::core::list::{CountsOf, IsTimed};
use crate::core::verb::{Begin, InTube, TubeName};
use crate::core::{Buffer, TubeHead, TubeRef};
use crate::events::Callback;
use crate::handle::in_steps::{Steps, begin_steps, run_steps};
use crate::handle::mode::Call;
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::handle::trace::Of;
use crate::runtime::when_full::WhenFull;
use crate::values::body::Coder;
use crate::values::put::BeforePut;
use crate::values::statistics::Statistics;
use crate::{Async, Blocking, Bytes, Error, Mode, Result, SessionId};

/// A handle of a tube whose bodies are values of `T`, for one session. It is cheap to clone and may
/// be used from many threads. Dropping it changes nothing in the tube.
///
/// `Tube` alone is a tube of [`Bytes`], as [`Store::tube`](crate::Store::tube) returns it;
/// [`typed`](Tube::typed) makes a handle of the same tube for values.
///
/// The calls of producers and workers are here. [`query`](Tube::query) looks at tasks,
/// [`admin`](Tube::admin) has the calls of an operator, and [`schedules`](Tube::schedules) lists and
/// changes schedules.
///
/// # What survives a crash
/// In a tube with [`Durability::Flush`](crate::Durability::Flush), the default, a change survives a
/// killed process and a power cut once the call returns. Such a call blocks for a flush, which it
/// shares with the other callers (group commit). The calls below describe such a tube.
///
/// In a written tube ([`Durability::Write`](crate::Durability::Write)) a change survives a killed
/// process once the call returns, which blocks for a write instead. In a relaxed tube the call
/// returns immediately. In both the change is visible immediately, and survives a power cut once it
/// is flushed. In a temporary tube nothing survives the process.
///
/// In a tube with durability flush, no crash undoes an answer or makes a refusal untrue: the call waits for
/// the flush of the change that the answer depends on. In the other tubes that change is visible immediately,
/// and a crash may undo it after the answer.
///
/// # Calls that block
/// A call that adds rows blocks while the write buffer is full
/// ([`max_pending`](crate::StoreOptions::max_pending)), in a tube of any durability, and until its flush
/// or write is done. Reads, and calls that change memory only, need no space. A take or
/// [`put_timeout`](Tube::put_timeout) also blocks while it waits for a task or for space, and
/// [`wait_done`](Tube::wait_done) while it waits for the end of a task.
///
/// # Calls that block no thread
/// A handle from [`to_async`](Tube::to_async) has the same calls, each of which returns a
/// [`Ticket`](crate::Ticket) with the answer that is described here: a future, or something to wait for
/// later. Its changes stand in line while the write buffer is full. After
/// [`refuse_when_full`](Tube::refuse_when_full) the changes of a handle are refused instead.
///
/// # Errors of every call
/// [`Closed`](crate::Error::Closed); [`TubeDropped`](crate::Error::TubeDropped);
/// [`Unavailable`](crate::Error::Unavailable) after the storage has failed: nothing changed.
/// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) from calls that wait for a flush or a write:
/// the storage failed during it. [`Corrupt`](crate::Error::Corrupt): a row could not be read;
/// [`verify`](crate::expert::StoreAdmin::verify) names it.
#[doc(alias = "queue")]
#[doc(alias = "topic")]
pub struct Tube<T: 'static = Bytes, M: Mode = Blocking> {
    handle: StoreHandle,
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    head: TubeHead,
    coder: Coder<T>,
    when_full: WhenFull,
    before_put: Option<BeforePut>,
    mode: PhantomData<fn() -> M>,
}

/// A tube whose calls return a [`Ticket`](crate::Ticket): a future, or an answer to wait for. From
/// [`Tube::to_async`].
pub type AsyncTube<T = Bytes> = Tube<T, Async>;

impl<T, M: Mode> Clone for Tube<T, M> {
    fn clone(&self) -> Tube<T, M> {
        self.with_coder(self.coder.clone())
    }
}

impl<T, M: Mode> std::fmt::Debug for Tube<T, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tube")
            .field("name", &self.head.name)
            .field("driver", &self.head.driver)
            .finish_non_exhaustive()
    }
}

impl<M: Mode> Tube<Bytes, M> {
    pub(crate) fn new(
        handle: StoreHandle,
        session: SessionId,
        guard: Option<Arc<SessionGuard>>,
        head: TubeHead,
    ) -> Tube<Bytes, M> {
        Tube {
            handle,
            session,
            guard,
            head,
            coder: Coder::BYTES,
            when_full: WhenFull::Wait,
            before_put: None,
            mode: PhantomData,
        }
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// The name of its driver.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.head.driver
    }

    /// The session of this handle: it owns the claims that the handle takes.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The counts of tasks and calls of this tube, exact for the changes that takers can see. Does
    /// not block. The cost does not depend on the number of tasks.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// tube.put_many(["a", "b"])?;
    /// let numbers = tube.statistics()?;
    /// assert_eq!((numbers.tasks.ready, numbers.calls.put), (2, 2));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn statistics(&self) -> M::Answer<Statistics> {
        self.make(CountsOf {})
    }

    /// Sets the function that is called after each change of a task of this tube, or removes it
    /// with `None`. Returns the previous one. Does not block.
    ///
    /// Callbacks run on a thread of the store, in order, after the commit that holds the change. A
    /// slow callback delays no other call: while 65,536 events wait for callbacks, further events
    /// are dropped. A callback that panics is called again for the next event. A callback that owns
    /// a handle of the store keeps the store open. The callback is not stored: set it after every
    /// open.
    ///
    /// # Errors
    /// Those of every call. The callback was not set.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use tubewell::Event;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// tube.on_task_change(Some(Arc::new(|event: &Event| {
    ///     println!("task {}: {:?}", event.id, event.kind);
    /// })))?;
    /// tube.put("work")?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn on_task_change(&self, callback: Option<Callback>) -> Result<Option<Callback>> {
        // A refused callback is dropped here, without the lock: handles that it owns need the lock.
        let mut callback = callback;
        self.handle.here("a callback")?.inner()?.run(|core| {
            core.tube(self.head.number, &self.head.name)?;
            if let Some(tube) = core.tubes.get_mut(self.head.number) {
                std::mem::swap(&mut tube.callback, &mut callback);
            }
            Ok(callback.take())
        })
    }

    pub(crate) fn handle(&self) -> &StoreHandle {
        &self.handle
    }

    pub(crate) fn guard(&self) -> Option<Arc<SessionGuard>> {
        self.guard.clone()
    }

    pub(crate) fn head(&self) -> &TubeHead {
        &self.head
    }

    /// Whether its driver has delays, and claims that expire.
    pub(crate) fn is_timed(&self) -> M::Answer<bool> {
        self.make(IsTimed {})
    }

    pub(crate) fn buffer(&self) -> Buffer {
        self.head.buffer
    }

    /// Makes a call on the tube.
    #[inline]
    pub(crate) fn make<V: Begin<On = InTube>>(&self, verb: V) -> M::Answer<V::Answer> {
        self.make_checked(Ok(verb))
    }

    /// As `make`, of what may be refused before.
    #[inline]
    pub(crate) fn make_checked<V: Begin<On = InTube>>(
        &self,
        verb: Result<V>,
    ) -> M::Answer<V::Answer> {
        let Tube { handle, head, guard, .. } = self;
        let (buffer, when_full, on) = (head.buffer, self.when_full, self.as_target());
        let guards = guard.as_slice();
        let of = Of::tube(&head.name);
        M::make(Call { handle, buffer, when_full, on, guards, keeps_claim: false, of }, verb)
    }

    /// Another tube as the target of a call on this one.
    pub(crate) fn other<U, N: Mode>(&self, to: &Tube<U, N>) -> Result<TubeName> {
        to.check_store(&self.handle)?;
        Ok(TubeName::from(&to.head))
    }

    /// Refuses a tube of another store.
    pub(crate) fn check_store(&self, handle: &StoreHandle) -> Result<()> {
        if self.handle.is_same_store(handle) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "tube {:?} belongs to another store; name a tube of the store of the task",
            self.name()
        )))
    }

    /// Whether both are handles of one tube.
    pub(crate) fn is_same<U, N: Mode>(&self, other: &Tube<U, N>) -> bool {
        self.handle.is_same_store(&other.handle) && self.number() == other.number()
    }

    pub(crate) fn number(&self) -> TubeNo {
        self.head.number
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.head.name.clone()
    }

    /// Makes the calls of a verb that takes several steps.
    fn in_steps<S: Steps<Verb: Begin<On = InTube>>>(&self, steps: Result<S>) -> M::Answer<S::Done> {
        M::either(
            steps,
            |steps| {
                let tube = self.to_blocking();
                run_steps(steps?, |verb| tube.make(verb))
            },
            |steps| {
                let tube = self.to_bytes().to_async();
                begin_steps(steps, move |verb| tube.make(verb))
            },
        )
    }

    /// The tube as a call names it.
    pub(crate) fn as_target(&self) -> TubeRef<'_> {
        TubeRef { number: self.head.number, name: &self.head.name }
    }
}
