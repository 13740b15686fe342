//! The options of a tube, and of its operations.

use std::sync::Arc;
use std::time::Duration;

use crate::events::{Callback, Event};

/// The default of the longest time until a relaxed change is flushed.
const RELAXED: Duration = Duration::from_millis(50);

/// When an operation that changes tasks returns: after its flush (fsync), or before.
///
/// The text of a durability is `flush` or `relaxed(50ms)`. The time is a whole number with its
/// unit:
/// `s`, `ms`, `us` or `ns`. Parsing accepts `relaxed`, too, for [`Durability::relaxed`].
///
/// # Example: one tube that loses nothing, and one that may lose 10 ms
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
#[doc(alias = "fsync")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third kind would be a new promise")]
pub enum Durability {
    /// The operation returns after the flush of its change. Concurrent calls share one flush. A
    /// killed process, a crash of the operating system and a power cut lose no acknowledged
    /// change.
    #[default]
    Flush,
    /// The operation returns immediately, and its change is visible to takers. A flush follows
    /// within `max_delay`, and at close. A killed process, a crash of the operating system and a
    /// power cut lose the changes since the last flush. They never leave a part of a change.
    Relaxed {
        /// The longest time from the change to the start of its flush.
        max_delay: Duration,
    },
}

impl Durability {
    /// [`Relaxed`](Durability::Relaxed) with a flush within 50 ms.
    #[must_use]
    pub fn relaxed() -> Durability {
        Durability::Relaxed { max_delay: RELAXED }
    }
}

/// The options with which a tube is created. The store keeps all of them except the callback.
///
/// [`create_tube`](crate::Store::create_tube) returns [`Unsupported`](crate::Error::Unsupported)
/// if the driver does not have one of the options. Times are rounded up to microseconds;
/// `Duration::MAX` is without a limit.
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
    /// The default options.
    #[must_use]
    pub fn new() -> TubeOptions {
        TubeOptions::default()
    }

    /// Time to live: the ttl of tasks that are put without one. Default: without a limit. Timed
    /// drivers only.
    #[doc(alias = "time to live")]
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> TubeOptions {
        self.ttl = Some(ttl);
        self
    }

    /// Time to run, also called visibility timeout: the ttr of tasks that are put without one.
    /// Default: the ttl of the tube. Timed drivers only.
    #[doc(alias = "time to run")]
    #[doc(alias = "visibility timeout")]
    #[doc(alias = "lease")]
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> TubeOptions {
        self.ttr = Some(ttr);
        self
    }

    /// The priority of tasks that are put without one. Default: 0, the most urgent. Timed drivers
    /// only.
    #[doc(alias = "priority")]
    #[must_use]
    pub fn pri(mut self, pri: u32) -> TubeOptions {
        self.pri = Some(pri);
        self
    }

    /// Whether the tasks are kept in memory only. Default: no. The tube itself is stored, and is
    /// empty after each open.
    #[must_use]
    pub fn temporary(mut self, temporary: bool) -> TubeOptions {
        self.temporary = temporary;
        self
    }

    /// The largest number of tasks in the tube, whatever their state. Default: 0, without a limit.
    /// Drivers with a capacity only.
    #[must_use]
    pub fn capacity(mut self, tasks: u64) -> TubeOptions {
        self.capacity = Some(tasks);
        self
    }

    /// When the operations of this tube return. Default: as the store.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TubeOptions {
        self.durability = Some(durability);
        self
    }

    /// Whether to succeed if the store already has a tube with this name, driver and options.
    /// Default: no.
    #[must_use]
    pub fn if_not_exists(mut self, if_not_exists: bool) -> TubeOptions {
        self.if_not_exists = if_not_exists;
        self
    }

    /// A callback for each change of a task of this tube. Default: none. It is not stored; see
    /// [`Tube::on_task_change`](crate::Tube::on_task_change).
    #[must_use]
    pub fn on_task_change(
        mut self,
        callback: impl Fn(&Event) + Send + Sync + 'static,
    ) -> TubeOptions {
        self.callback = Some(Arc::new(callback));
        self
    }
}

/// What a deferred call does while too many changes wait for a flush (back pressure).
#[doc(alias = "back pressure")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "it either waits or does not")]
pub enum WhenFull {
    /// It blocks until there is space.
    #[default]
    Block,
    /// It returns [`Overloaded`](crate::Error::Overloaded), and changes nothing.
    Refuse,
}
