//! The verbs of a tube.

mod anybody;
mod hold;
mod put;
mod take;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::{Core, Decided, TubeHead};
use crate::deferred::{Deferred, WhenFull};
use crate::events::Callback;
use crate::pipeline::Shared;
use crate::session::SessionGuard;
use crate::statistics::Statistics;
use crate::store::Handle;
use crate::typed::{Codec, TypedTube};
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
    handle: Handle,
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
        handle: Handle,
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
        self.shared().run(|core| self.check(core).map(|tube| tube.visible))
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
        self.shared().run(|core| {
            self.check(core)?;
            if let Some(tube) = core.tubes.get_mut(&self.head.number) {
                std::mem::swap(&mut tube.callback, &mut callback);
            }
            Ok(callback.take())
        })
    }

    /// The verbs that answer before their flush, with a [`Ticket`](crate::Ticket) for it; so that one
    /// thread has many under way.
    #[must_use]
    pub fn deferred(&self, when_full: WhenFull) -> Deferred {
        Deferred::new(self.clone(), when_full)
    }

    /// This tube with bodies of a type, encoded with bincode.
    #[must_use]
    pub fn typed<T: Serialize + DeserializeOwned>(&self) -> TypedTube<T> {
        TypedTube::new(self.clone())
    }

    /// This tube with bodies of a type, and a codec of the caller's choice: [`Bincode`](crate::Bincode),
    /// `Json` (feature `json`), or one of your own.
    ///
    /// # Example: numbers as text
    /// ```
    /// use serde::{Serialize, de::DeserializeOwned};
    /// use tubewell::{Codec, Error, Result};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// struct Text;
    ///
    /// impl Codec for Text {
    ///     fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    ///         serde_json::to_vec(value).map_err(|why| Error::Codec { what: why.to_string() })
    ///     }
    ///     fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    ///         serde_json::from_slice(bytes).map_err(|why| Error::Codec { what: why.to_string() })
    ///     }
    /// }
    ///
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("numbers", FIFO, TubeOptions::new())?;
    /// let numbers = tube.typed_with::<u64, Text>();
    /// numbers.put(&42)?;
    /// assert_eq!(tube.peek(0)?.data, b"42");
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn typed_with<T: Serialize + DeserializeOwned, C: Codec>(&self) -> TypedTube<T, C> {
        TypedTube::new(self.clone())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn guard(&self) -> Option<Arc<SessionGuard>> {
        self.guard.clone()
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.handle.shared()
    }

    pub(crate) fn number(&self) -> u32 {
        self.head.number
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.head.name.clone()
    }

    pub(crate) fn lane(&self) -> usize {
        self.head.lane
    }

    pub(crate) fn max_body(&self) -> usize {
        self.handle.max_body()
    }

    /// The tube, if it is there and the store is open.
    pub(crate) fn check<'a>(&self, core: &'a Core) -> Result<&'a crate::core::TubeState> {
        core.tube(self.head.number, &self.head.name)
    }

    fn call<T>(&self, decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>) -> Result<T> {
        self.shared().call(self.head.lane, |core| {
            self.check(core)?;
            decide(core, self.head.number)
        })
    }
}
