//! What makes one tube different from another: two independent traits, a capacity, and three hooks.

use std::borrow::Cow;

/// First in, first out.
pub const FIFO: &str = "fifo";
/// As fifo, with priorities, ttl, ttr and delay.
pub const FIFOTTL: &str = "fifottl";
/// Sub-queues: of each, at most one task is taken at a time.
pub const UTUBE: &str = "utube";
/// As utube, with priorities, ttl, ttr and delay.
pub const UTUBETTL: &str = "utubettl";
/// As fifottl, with a capacity.
pub const LIMFIFOTTL: &str = "limfifottl";

/// The parts a driver is made of. Each brings its options and its rules, wherever it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "drivers write it out")]
pub struct Traits {
    /// Tasks have a priority, a life (ttl), a hold (ttr) and may be delayed.
    pub timed: bool,
    /// Tasks belong to sub-queues, and of each at most one is taken.
    pub sub_queued: bool,
    /// The tube has a capacity.
    pub bounded: bool,
}

/// A task about to be put, as a driver's hooks see it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Draft<'a> {
    /// Its priority: as given, or the tube's.
    pub pri: u32,
    /// The sub-queue that was named, if one was.
    pub sub_queue: Option<&'a str>,
    /// Its body.
    pub body: &'a [u8],
}

impl<'a> Draft<'a> {
    /// A draft, for those who test a driver by itself.
    #[must_use]
    pub fn new(pri: u32, sub_queue: Option<&'a str>, body: &'a [u8]) -> Draft<'a> {
        Draft { pri, sub_queue, body }
    }
}

/// How full a tube is, as a driver's admission sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Load {
    /// Tasks in the tube, whatever their state; one that is on its way out counts until it is gone.
    pub total: u64,
    /// The capacity that the tube was created with; 0 for none.
    pub capacity: u64,
}

impl Load {
    /// A load, for those who test a driver by itself.
    #[must_use]
    pub fn new(total: u64, capacity: u64) -> Load {
        Load { total, capacity }
    }
}

/// The discipline of a tube.
///
/// The verbs, their states and their durability are the same for all drivers. A driver says which
/// [`Traits`] it is made of and answers three questions, all with a default: in which order tasks
/// are taken, which of them exclude each other, and whether one more may come in. The hooks are
/// called while the store decides a put: they must be quick, and must answer the same for the same
/// task. They are not asked again about tasks that are stored.
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
/// assert!(LargestFirst.order(&Draft::new(0, None, b"long")) < LargestFirst.order(&Draft::new(0, None, b"s")));
/// ```
pub trait Driver: Send + Sync + 'static {
    /// The name under which tubes are created; stored with them. As a tube's, it has 1 to 255 bytes
    /// and no control characters.
    fn name(&self) -> &str;

    /// The parts it is made of; stored with each tube, so they must not change under one name.
    fn traits(&self) -> Traits;

    /// The order key: the least is taken first, the id breaks ties.
    fn order(&self, task: &Draft<'_>) -> u64 {
        if self.traits().timed { u64::from(task.pri) } else { 0 }
    }

    /// The gate: of the tasks with the same answer at most one is taken at a time. Asked only if
    /// the driver is sub-queued.
    fn sub_queue<'a>(&self, task: &Draft<'a>) -> Cow<'a, str> {
        Cow::Borrowed(task.sub_queue.unwrap_or_default())
    }

    /// The admission: whether one more task may be put.
    fn admit(&self, load: &Load) -> bool {
        !self.traits().bounded || load.capacity == 0 || load.total < load.capacity
    }
}

/// A driver made of the stock parts only.
#[derive(Clone, Copy, Debug)]
pub struct Composed {
    name: &'static str,
    traits: Traits,
}

impl Composed {
    /// The five drivers that every store has.
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
