//! The options of a tube, and of the calls on it.

use std::sync::Arc;
use std::time::Duration;

use crate::events::{Callback, Event};

/// Default longest time until a relaxed change is flushed.
const RELAXED: Duration = Duration::from_millis(50);

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

/// What a deferred call does when too much waits to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it either waits or does not")]
pub enum WhenFull {
    /// It waits until there is room.
    #[default]
    Block,
    /// It answers [`Overloaded`](crate::Error::Overloaded); nothing has changed.
    Refuse,
}
