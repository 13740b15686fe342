//! Drivers: the rules of a tube, as three traits and three hooks.

use crate::limits::DEFAULT_ORDER;
use std::borrow::Cow;

/// The driver `fifo`: first in, first out.
pub const FIFO: &str = "fifo";
/// The driver `fifottl`: as `fifo`, with priority, ttl, ttr and delay.
pub const FIFOTTL: &str = "fifottl";
/// The driver `utube`: as `fifo`, with sub-queues. At most one task of a sub-queue is taken at a
/// time.
pub const UTUBE: &str = "utube";
/// The driver `utubettl`: as `utube`, with priority, ttl, ttr and delay.
pub const UTUBETTL: &str = "utubettl";
/// The driver `limfifottl`: as `fifottl`, with a capacity.
pub const LIMFIFOTTL: &str = "limfifottl";

/// The traits of a driver. Each trait adds options to the tube and rules to its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "drivers write it out")]
pub struct Traits {
    /// Tasks have a priority, a time to live (ttl), a visibility timeout (ttr) and a delay.
    pub timed: bool,
    /// Tasks belong to sub-queues. At most one task of a sub-queue is taken at a time.
    pub sub_queued: bool,
    /// The tube has a capacity.
    pub bounded: bool,
}

/// A task that is about to be put, as the hooks of a driver see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Draft<'a> {
    /// The priority of the task, or the tube's default.
    pub priority: u32,
    /// The sub-queue that the caller has named, if any.
    pub sub_queue: Option<&'a str>,
    /// The body of the task.
    pub body: &'a [u8],
}

impl<'a> Draft<'a> {
    /// Creates a draft, to test a driver.
    #[must_use]
    pub fn new(priority: u32, sub_queue: Option<&'a str>, body: &'a [u8]) -> Draft<'a> {
        Draft { priority, sub_queue, body }
    }
}

/// How full a tube is, as the admission of a driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// The number of tasks in the tube, in any state. A task counts until its removal is visible.
    pub total: u64,
    /// The capacity that the tube was created with; 0 means no limit.
    pub capacity: u64,
}

impl Load {
    /// Creates a load, to test a driver.
    #[must_use]
    pub fn new(total: u64, capacity: u64) -> Load {
        Load { total, capacity }
    }
}

/// The rules of a tube: the order of its tasks, their sub-queues, and the admission of puts.
///
/// A driver has a name, [`Traits`], and three hooks with defaults: [`order`](Driver::order),
/// [`sub_queue`](Driver::sub_queue) and [`admit`](Driver::admit). The verbs, the states of a task
/// and durability are the same for all drivers.
///
/// The store calls `order` and `sub_queue` when it decides a put, and stores the results. It calls
/// `order` again when a caller changes the priority or the body of a task. It calls `admit` for each task of a put, and again when a task is removed while puts wait. The store is
/// locked meanwhile: the hooks must be fast, must not call the store and must not panic. They must
/// return the same result for the same task.
///
/// # Example: the largest body first
/// ```
/// use tubewell_drivers::{Draft, Driver, Traits};
///
/// struct LargestFirst;
///
/// impl Driver for LargestFirst {
///     fn name(&self) -> &str {
///         "largest-first"
///     }
///     fn traits(&self) -> Traits {
///         Traits::default()
///     }
///     fn order(&self, task: &Draft<'_>) -> u64 {
///         u64::MAX - task.body.len() as u64
///     }
/// }
///
/// let order = |body: &[u8]| LargestFirst.order(&Draft::new(0, None, body));
/// assert!(order(b"long") < order(b"s"));
/// ```
pub trait Driver: Send + Sync + 'static {
    /// Returns the name of the driver, which is stored with each tube. It has 1 to 255 bytes and no
    /// control characters.
    fn name(&self) -> &str;

    /// Returns the traits of the driver, which are stored with each tube. They must not change
    /// under the same name.
    fn traits(&self) -> Traits;

    /// Returns the order key. The task with the least key is taken first; the id breaks ties.
    ///
    /// The default is the priority in timed drivers, else [`DEFAULT_PRIORITY`](crate::DEFAULT_PRIORITY).
    /// A ready task with this key has a row less than others.
    fn order(&self, task: &Draft<'_>) -> u64 {
        if self.traits().timed { u64::from(task.priority) } else { DEFAULT_ORDER }
    }

    /// Returns the sub-queue of a task. At most one task of a sub-queue is taken at a time. Called
    /// for sub-queued drivers only.
    ///
    /// The default is the sub-queue that the caller has named, else the unnamed one.
    fn sub_queue<'a>(&self, task: &Draft<'a>) -> Cow<'a, str> {
        Cow::Borrowed(task.sub_queue.unwrap_or_default())
    }

    /// Returns whether one more task may be put. If not, the put fails with `Full` or waits.
    ///
    /// The default admits tasks up to the capacity in bounded drivers, else without a limit.
    fn admit(&self, load: &Load) -> bool {
        !self.traits().bounded || load.capacity == 0 || load.total < load.capacity
    }
}

/// A stock driver: traits with the default hooks.
#[derive(Clone, Copy, Debug)]
pub struct Composed {
    name: &'static str,
    traits: Traits,
}

impl Composed {
    /// The five stock drivers, which every store has.
    pub const ALL: [Composed; 5] = [
        Composed::new(FIFO, false, false, false),
        Composed::new(FIFOTTL, true, false, false),
        Composed::new(UTUBE, false, true, false),
        Composed::new(UTUBETTL, true, true, false),
        Composed::new(LIMFIFOTTL, true, false, true),
    ];

    const fn new(name: &'static str, timed: bool, sub_queued: bool, bounded: bool) -> Composed {
        Composed { name, traits: Traits { timed, sub_queued, bounded } }
    }
}

impl Driver for Composed {
    fn name(&self) -> &str {
        self.name
    }

    fn traits(&self) -> Traits {
        self.traits
    }
}
