//! The verbs of a tube.

mod admin;
mod holder;
mod put;
mod take;

#[cfg(test)]
pub(crate) use take::take_more;
pub(crate) use take::{take_any, take_any_async};

use std::sync::Arc;

use crate::core::{Core, Decided, TubeHead};
use crate::events::Callback;
use crate::handle::{SessionGuard, StoreHandle};
use crate::pipeline::StoreInner;
use crate::statistics::Statistics;
use crate::{Result, SessionId};

/// A handle of a tube, for one session. Cheap to clone; may be used from many threads. Dropping it
/// changes nothing in the tube.
///
/// # What a verb promises
/// What a verb changed survives a killed process and a power cut once it returns, if the tube is
/// durable by [`Durability::Flush`](crate::Durability::Flush), the default. Such a verb waits for
/// a flush, together with whoever else waits. In a relaxed tube it returns at once, and in a
/// temporary one nothing survives the process.
///
/// # Errors of every verb
/// [`Closed`](crate::Error::Closed); [`TubeDropped`](crate::Error::TubeDropped);
/// [`Unavailable`](crate::Error::Unavailable) after the storage has failed: nothing has changed.
/// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) from verbs that flush: the storage failed in the
/// middle of it. [`Corrupt`](crate::Error::Corrupt): a row could not be read; `verify` names it.
#[derive(Clone)]
pub struct Tube {
    handle: StoreHandle,
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    head: TubeHead,
}

impl std::fmt::Debug for Tube {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tube")
            .field("name", &self.head.name)
            .field("driver", &self.head.driver)
            .finish_non_exhaustive()
    }
}

impl Tube {
    pub(crate) fn new(
        handle: StoreHandle,
        session: SessionId,
        guard: Option<Arc<SessionGuard>>,
        head: TubeHead,
    ) -> Tube {
        Tube { handle, session, guard, head }
    }

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

    /// The session that the verbs of this handle act for.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The tube's numbers, exact for what takers can see. Waits for nothing, and costs the same
    /// however many tasks there are.
    ///
    /// # Errors
    /// Those of every verb.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put_many(["a", "b"])?;
    /// let numbers = tube.statistics()?;
    /// assert_eq!((numbers.tasks.ready, numbers.calls.put), (2, 2));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn statistics(&self) -> Result<Statistics> {
        self.inner().run(|core| self.check(core).map(|tube| tube.visible))
    }

    /// Has `callback` called after each change of a task of this tube from now on, or nobody;
    /// returns the one before.
    ///
    /// It is called on a thread of its own, after the change is in the file, in order. A callback
    /// that is slow delays nobody: beyond 65,536 waiting events further ones are dropped. One that
    /// panics is called again for the next event. One that holds a handle of the store keeps the
    /// store open. The callback is not stored: set it again after every open.
    ///
    /// # Errors
    /// Those of every verb.
    ///
    /// # Example
    /// ```
    /// use std::sync::Arc;
    /// use tubewell::Event;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// tube.on_task_change(Some(Arc::new(|event: &Event| {
    ///     println!("task {}: {:?}", event.id, event.kind);
    /// })))?;
    /// tube.put("work")?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn on_task_change(&self, callback: Option<Callback>) -> Result<Option<Callback>> {
        // What is refused is dropped here, without the lock: it may own handles, whose end needs it.
        let mut callback = callback;
        self.inner().run(|core| {
            self.check(core)?;
            if let Some(tube) = core.tubes.get_mut(&self.head.number) {
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

    pub(crate) fn inner(&self) -> &StoreInner {
        self.handle.inner()
    }

    pub(crate) fn number(&self) -> u32 {
        self.head.number
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.head.name.clone()
    }

    pub(crate) fn buffer(&self) -> usize {
        self.head.buffer
    }

    pub(crate) fn max_body(&self) -> usize {
        self.handle.max_body()
    }

    /// The tube, if it is there and the store is open.
    pub(crate) fn check<'a>(&self, core: &'a Core) -> Result<&'a crate::core::TubeState> {
        core.tube(self.head.number, &self.head.name)
    }

    fn call<T>(&self, decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>) -> Result<T> {
        self.inner().call(self.head.buffer, |core| {
            self.check(core)?;
            decide(core, self.head.number)
        })
    }
}
