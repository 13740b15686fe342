//! The options of a tube, and of its operations.

mod limits;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use crate::events::{Callback, Event};
use crate::{Backoff, Counting, Keep, Rate};

/// The default of the longest time until a change that does not wait for its flush is flushed.
const FLUSH_WITHIN: Duration = Duration::from_millis(50);

/// When an operation that changes tasks returns: after its flush (fsync), after its write to the
/// file, or immediately.
///
/// | durability | a killed process loses | a power cut or a crash of the operating system loses |
/// |---|---|---|
/// | [`Flush`](Durability::Flush) (default) | nothing | nothing |
/// | [`Write`](Durability::Write) | nothing; while the storage fails, the newest changes | the newest changes: those since the last flush |
/// | [`Relaxed`](Durability::Relaxed) | the newest changes | the newest changes |
///
/// The text of a durability is `flush`, `write(50ms)` or `relaxed(50ms)`. The time is a whole number
/// with its unit: `s`, `ms`, `us` or `ns`. Parsing also accepts `write` for [`Durability::write`] and
/// `relaxed` for [`Durability::relaxed`].
///
/// # Example: a tube for each
/// ```
/// use std::time::Duration;
/// use tubewell::{Durability, FIFO, Store, TubeOptions};
///
/// # let store = Store::in_memory()?;
/// let orders = store.create_tube("orders", FIFO, TubeOptions::new())?;
/// orders.put("2 teapots")?; // on the disk
///
/// let thumbnails = TubeOptions::new().durability(Durability::write());
/// let thumbnails = store.create_tube("thumbnails", FIFO, thumbnails)?;
/// thumbnails.put("cat.jpg")?; // survives a kill; on the disk within 50 ms
///
/// let relaxed = Durability::Relaxed { max_delay: Duration::from_millis(10) };
/// let clicks = store.create_tube("clicks", FIFO, TubeOptions::new().durability(relaxed))?;
/// clicks.put("at 3, 4")?; // on the disk within 10 ms
/// # Ok::<(), tubewell::Error>(())
/// ```
#[doc(alias = "fsync")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "another kind would be a new promise")]
pub enum Durability {
    /// The operation returns after the flush of its change. Concurrent calls share one flush. A
    /// killed process, a crash of the operating system and a power cut lose no acknowledged
    /// change.
    #[default]
    Flush,
    /// The operation returns once its change is written to the file: the operating system has it. A
    /// flush follows within `flush_within`, and at close. A killed process loses no acknowledged
    /// change, unless the storage fails. A crash of the operating system and a power cut lose the
    /// changes since the last flush: the newest ones, never one before another that survives, and
    /// never a part of one. If that later flush fails, the store writes and flushes the changes again:
    /// they are lost only if the process or the machine stops before the storage works again.
    ///
    /// The operation waits for a write, which usually takes microseconds, and for no flush. Takers
    /// may get a task before its put returns. A store in memory has no file: there it is as
    /// [`Flush`](Durability::Flush).
    Write {
        /// The longest time from the change to the start of its flush.
        flush_within: Duration,
    },
    /// The operation returns immediately, and its change is visible to takers. A flush follows
    /// within `max_delay`, and at close. A killed process, a crash of the operating system and a
    /// power cut lose the changes since the last flush. They never leave a part of a change.
    Relaxed {
        /// The longest time from the change to the start of its flush.
        max_delay: Duration,
    },
}

impl Durability {
    /// [`Write`](Durability::Write) with a flush within 50 ms.
    #[must_use]
    pub fn write() -> Durability {
        Durability::Write { flush_within: FLUSH_WITHIN }
    }

    /// [`Relaxed`](Durability::Relaxed) with a flush within 50 ms.
    #[must_use]
    pub fn relaxed() -> Durability {
        Durability::Relaxed { max_delay: FLUSH_WITHIN }
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
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct TubeOptions {
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) pri: Option<u32>,
    pub(crate) temporary: bool,
    pub(crate) capacity: Option<u64>,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) count_takes: Counting,
    pub(crate) backoff: Backoff,
    pub(crate) reclaim_delay: Duration,
    pub(crate) keep_done: Option<Keep>,
    pub(crate) keep_buried: Option<Keep>,
    pub(crate) max_taken: Option<u64>,
    pub(crate) sub_queue_limit: Option<u32>,
    pub(crate) shared_limits: bool,
    pub(crate) sub_queue_rate: Option<Rate>,
    pub(crate) rate: Option<Rate>,
    pub(crate) history: u32,
    pub(crate) metrics: u32,
    pub(crate) durability: Option<Durability>,
    pub(crate) if_not_exists: bool,
    pub(crate) or_alter: bool,
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
            .field("max_runtime", &self.max_runtime)
            .field("max_attempts", &self.max_attempts)
            .field("count_takes", &self.count_takes)
            .field("backoff", &self.backoff)
            .field("reclaim_delay", &self.reclaim_delay)
            .field("keep_done", &self.keep_done)
            .field("keep_buried", &self.keep_buried)
            .field("max_taken", &self.max_taken)
            .field("sub_queue_limit", &self.sub_queue_limit)
            .field("shared_limits", &self.shared_limits)
            .field("sub_queue_rate", &self.sub_queue_rate)
            .field("rate", &self.rate)
            .field("history", &self.history)
            .field("metrics", &self.metrics)
            .field("durability", &self.durability)
            .field("if_not_exists", &self.if_not_exists)
            .field("or_alter", &self.or_alter)
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

    /// The longest time that one claim may last, from the take on: renew, touch and checkpoint do
    /// not extend a claim beyond it. Default: no limit. Timed drivers only.
    ///
    /// The claim of a worker that renews it for ever, although the work makes no progress, ends
    /// then, and the task is ready again. `max_runtime` must be above zero.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let options = TubeOptions::new().max_runtime(Duration::from_secs(60));
    /// let jobs = store.create_tube("jobs", FIFOTTL, options)?;
    /// jobs.put("hangs")?;
    /// let claim = jobs.try_take()?.unwrap();
    /// clock.advance(Duration::from_secs(50));
    /// claim.renew(Duration::from_secs(3600))?;
    /// assert_eq!(claim.expires_in()?, Some(Duration::from_secs(10)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "timeout")]
    #[must_use]
    pub fn max_runtime(mut self, max_runtime: Duration) -> TubeOptions {
        self.max_runtime = Some(max_runtime);
        self
    }

    /// How often a task is attempted. When its last attempt has failed or was lost, it is buried.
    /// Default: without a limit. Above zero. [`Put::max_attempts`](crate::Put::max_attempts)
    /// overrides it for a task.
    ///
    /// Each take is an attempt, however its claim ends: by [`fail`](crate::Claim::fail), by
    /// [`release`](crate::Claim::release), because the handle was dropped, the ttr elapsed, or the
    /// session or the process ended. [`snooze`](crate::Claim::snooze) and
    /// [`revoke`](crate::Tube::revoke) forgive the attempt, and [`kick`](crate::Tube::kick) forgives
    /// all of them. [`count_takes`](TubeOptions::count_takes) says what of this survives a crash.
    ///
    /// # Example: a task that kills its workers ends up buried
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new().max_attempts(2))?;
    /// let id = jobs.put("poison")?.id;
    /// drop(jobs.try_take()?); // the first worker gives up
    /// drop(jobs.try_take()?); // and the second one
    /// assert!(jobs.try_take()?.is_none());
    /// let failure = jobs.peek(id)?.info.failure.unwrap();
    /// assert_eq!((failure.group.as_str(), failure.attempt), ("released", 2));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "retries")]
    #[doc(alias = "attempts")]
    #[must_use]
    pub fn max_attempts(mut self, limit: u32) -> TubeOptions {
        self.max_attempts = Some(limit);
        self
    }

    /// When the take of a task with a limited number of attempts is counted. Default:
    /// [`Counting::Written`]. Tasks without a limit are counted lazily. In a temporary tube, and in
    /// a store in memory, takes are counted in memory.
    #[must_use]
    pub fn count_takes(mut self, counting: Counting) -> TubeOptions {
        self.count_takes = counting;
        self
    }

    /// How long a task is delayed after an attempt that has failed or was lost. Default: no delay.
    /// Timed drivers only. The delay is added to the ttl, which stands still meanwhile.
    #[doc(alias = "retry")]
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> TubeOptions {
        self.backoff = backoff;
        self
    }

    /// How long the holder of a claim that has expired may still ack, fail or renew it. Default:
    /// zero. Timed drivers only.
    ///
    /// When the ttr has elapsed, the claim is overdue: an event [`Lost`](crate::EventKind::Lost)
    /// reports it, and the task stays taken. When the delay has elapsed as well, the claim ends. A
    /// claim whose handle is dropped, or whose session ends, ends immediately.
    #[doc(alias = "grace period")]
    #[must_use]
    pub fn reclaim_delay(mut self, delay: Duration) -> TubeOptions {
        self.reclaim_delay = delay;
        self
    }

    /// Which tasks that are done are kept, with their results. Default: none. A kept task takes no
    /// place of the capacity. [`Tube::outcome`](crate::Tube::outcome) reads how it has ended,
    /// [`Tube::forget`](crate::Tube::forget) removes it.
    ///
    /// The ack that exceeds the count removes the oldest one with the same commit.
    #[doc(alias = "result backend")]
    #[must_use]
    pub fn keep_done(mut self, keep: Keep) -> TubeOptions {
        self.keep_done = Some(keep);
        self
    }

    /// Which buried tasks are kept. Default: all, until they are kicked or deleted, or their ttl
    /// elapses. A task beyond these limits is removed: the oldest one first.
    #[doc(alias = "dead letter")]
    #[must_use]
    pub fn keep_buried(mut self, keep: Keep) -> TubeOptions {
        self.keep_buried = Some(keep);
        self
    }

    /// How many of its tasks may be taken at a time. Default: without a limit. Above zero. A take
    /// beyond it finds no task, or waits until a claim ends.
    ///
    /// Each taken task counts: one with a [parked](crate::Claim::park) claim, and one whose claim is
    /// overdue within the [reclaim delay](TubeOptions::reclaim_delay). Its place is free when the
    /// end of the claim is visible. A limit that is lowered ends no claim.
    ///
    /// # Example: at most two downloads at a time, with any number of workers
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let downloads = store.create_tube("downloads", FIFO, TubeOptions::new().max_taken(2))?;
    /// downloads.put_many(["a", "b", "c"])?;
    /// let mut claims = downloads.take_many(10, None)?;
    /// assert_eq!(claims.len(), 2);
    /// assert!(downloads.try_take()?.is_none());
    /// claims.remove(0).ack()?;
    /// assert_eq!(downloads.try_take()?.unwrap().body(), b"c");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "concurrency")]
    #[doc(alias = "max_concurrency")]
    #[must_use]
    pub fn max_taken(mut self, limit: u64) -> TubeOptions {
        self.max_taken = Some(limit);
        self
    }

    /// How many of its tasks may be taken in a time (rate limit). Default: without a limit. A take
    /// beyond it finds no task, or waits for its turn.
    ///
    /// [`Rate`] describes the token bucket. A claim that ends gives no take back, however it ends. The
    /// rate is that of the tube as a whole;
    /// [`sub_queue_rate`](TubeOptions::sub_queue_rate) limits each sub-queue.
    ///
    /// # Example: at most two requests a second
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFO, ManualClock, Rate, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let second = Duration::from_secs(1);
    /// let calls = store.create_tube("calls", FIFO, TubeOptions::new().rate(Rate::per(2, second)))?;
    /// calls.put_many(["a", "b", "c"])?;
    /// assert_eq!(calls.take_many(10, None)?.len(), 2);
    /// assert!(calls.try_take()?.is_none());
    /// clock.advance(second);
    /// assert_eq!(calls.take_many(10, None)?.len(), 2); // the claims above were dropped
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate_limit")]
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> TubeOptions {
        self.rate = Some(rate);
        self
    }

    /// How many entries the [history](crate::Tube::history) of each task has at most: the first one,
    /// and the newest of the others. Default: 0, no history. At most 1000.
    ///
    /// Each stored change of a task adds an entry, with the commit of the change; an entry survives a
    /// crash if its change does. A take writes nothing: its entry goes along with the end of the claim,
    /// or with the first change that is stored while the task is taken. The history goes with the
    /// task: through a bury, a kick and a [replacement](crate::OnKey::Replace), to another tube, and to
    /// the tasks that are [kept](TubeOptions::keep_done) after their end. It is removed with the task.
    /// A tube that is [altered](crate::Tube::alter) to fewer entries, or a task that moves to a tube
    /// with fewer, loses the others with the next change of the task.
    ///
    /// A change writes one row more, and one that ends a take two. The end of a task removes all rows
    /// of its history, so choose a small number for tasks that are many.
    ///
    /// # Example
    /// See [`HistoryEntry`](crate::HistoryEntry).
    #[doc(alias = "audit_log")]
    #[must_use]
    pub fn history(mut self, entries: u32) -> TubeOptions {
        self.history = entries;
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

    /// Whether to [alter](crate::Tube::alter) the tube of this name and driver, if the store already
    /// has one with other options. Default: no. With it, `if_not_exists` is not needed.
    ///
    /// # Example: the options of the program hold from its next start on
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// for limit in [2, 8] {
    ///     let options = TubeOptions::new().max_taken(limit).or_alter(true);
    ///     let films = store.create_tube("films", FIFO, options)?;
    ///     assert_eq!(films.info()?.max_taken, Some(limit));
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn or_alter(mut self, or_alter: bool) -> TubeOptions {
        self.or_alter = or_alter;
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

/// What a deferred call does while too many changes wait to be written (back pressure).
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
