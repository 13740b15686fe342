//! The options of a tube, each with all that is known of it but its effect.
//!
//! An entry is the method of [`TubeOptions`](crate::TubeOptions), with its documentation and the value
//! that it takes, and the field of [`TubeInfo`](crate::TubeInfo): the value in effect. It has, in this
//! order and as far as they are needed:
//!
//! * `or`: what the lack of a value means, which is the default.
//! * `default`: the default, if it is a value and not that of the type.
//! * `named`: how [`TubeDiffers`](crate::Error::TubeDiffers) calls it, if not by its name.
//! * `in_effect`: the value in effect, which is the one that the file keeps, if it is not the given one.
//! * `check`: which values are refused, when they are given and when they are read.
//! * `needs`: what the driver must have if the option is given, the name of the option in
//!   [`Unsupported`](crate::Error::Unsupported), and after `unless` a value that every driver has.
//! * `never altered`: an alter refuses another value.
//! * `stored`: its number in the rows of the catalog, which is never used again. The options without a
//!   number are in every row, and 8 is the pause (`row.rs`). The next free number is 16.
//!
//! The order is that of the fields and of the protocol. What acts on an option reads it from
//! [`Policies`](super::Policies).

/// Calls a macro with the list.
macro_rules! tube_options {
($then:ident) => { $then! {
    /// Whether the tasks are kept in memory only. Default: no. The tube itself is stored, and is
    /// empty after each open.
    temporary(temporary: bool) -> bool {
        /// Whether its tasks are kept in memory only.
        named "option temporary",
        never altered,
    }
    /// When the operations of this tube return. Default: as the store.
    durability(durability: Durability) -> Option<Durability> {
        /// The durability that it was created with; `None` for that of the store
        /// ([`StoreOptions::durability`](crate::StoreOptions::durability)).
        or Without("the store's"),
        in_effect Some(stored::whole_durability(durability)),
    }
    /// The largest number of tasks in the tube, whatever their state. Default: 0, without a limit.
    /// Drivers with a capacity only.
    capacity(tasks: u64) -> u64 {
        /// The largest number of tasks in it; 0 without a limit.
        needs bounded "a capacity",
    }
    /// Time to live: the ttl of tasks that are put without one. Default: without a limit. Timed
    /// drivers only.
    #[doc(alias = "time to live")]
    ttl(ttl: Duration) -> Option<Duration> {
        /// The ttl of tasks that are put without one; `None` without a limit.
        or Without("unlimited"),
        in_effect limited(ttl),
        needs timed "a ttl",
    }
    /// Time to run, also called visibility timeout: the ttr of tasks that are put without one.
    /// Default: the ttl of the tube, which a ttr of the same time follows when the ttl is altered. Timed
    /// drivers only.
    #[doc(alias = "time to run")]
    #[doc(alias = "visibility timeout")]
    #[doc(alias = "lease")]
    ttr(ttr: Duration) -> Option<Duration> {
        /// The ttr of tasks that are put without one; `None` without a limit.
        or Without("unlimited"),
        in_effect limited(ttr),
        needs timed "a ttr",
    }
    /// The priority of tasks that are put without one. Default: [`DEFAULT_PRIORITY`](crate::DEFAULT_PRIORITY),
    /// 100, so that a task can be more urgent than the others, or less. 0 is the most urgent. Timed
    /// drivers only.
    priority(priority: u32) -> u32 {
        /// The priority of tasks that are put without one.
        default DEFAULT_PRIORITY,
        named "priority",
        needs timed "a priority",
    }
    /// The longest time that one claim may last, from the take on: renew, touch and checkpoint do
    /// not extend a claim beyond it. Default: no limit. Timed drivers only.
    ///
    /// The claim of a worker that renews it for ever, although the work makes no progress, ends
    /// then, and the task is ready again. `max_runtime` must be above zero.
    /// [`Put::max_runtime`](crate::Put::max_runtime) overrides it for a task.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{ManualClock, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let options = TubeOptions::new().max_runtime(Duration::from_secs(60));
    /// let jobs = store.open_tube("jobs", options)?;
    /// jobs.put("hangs")?;
    /// let claim = jobs.try_take()?.unwrap();
    /// clock.advance(Duration::from_secs(50));
    /// claim.renew(Duration::from_secs(3600))?;
    /// assert_eq!(claim.expires_in()?, Some(Duration::from_secs(10)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "timeout")]
    max_runtime(max_runtime: Duration) -> Option<Duration> {
        /// How long one claim may last; `None` without a limit.
        or Without("unlimited"),
        in_effect limited(max_runtime),
        check above_zero(max_runtime, "the max_runtime of a tube", "no limit is the default"),
        needs timed "a max_runtime" unless Duration::MAX,
        stored 0,
    }
    /// How often a task is attempted. When its last attempt has failed or was lost, it is buried.
    /// Default: without a limit, except for failures in a worker
    /// ([`Worker::max_attempts`](crate::Worker::max_attempts)). Above zero.
    /// [`Put::max_attempts`](crate::Put::max_attempts) overrides it for a task.
    ///
    /// Each take is an attempt, however its claim ends: by [`fail`](crate::Claim::fail), by
    /// [`release`](crate::Claim::release), because the handle was dropped, the ttr elapsed, or the
    /// session or the process ended. [`Outcome::snooze`](crate::Outcome::snooze) and
    /// [`revoke`](crate::Admin::revoke) forgive the attempt, and [`kick`](crate::Tube::kick) forgives
    /// all of them. [`count_takes`](TubeOptions::count_takes) says what of this survives a crash.
    ///
    /// # Example: a task that kills its workers ends up buried
    /// ```
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(2))?;
    /// let id = jobs.put("poison")?.id;
    /// drop(jobs.try_take()?); // the first worker gives up
    /// drop(jobs.try_take()?); // and the second one
    /// assert!(jobs.try_take()?.is_none());
    /// let failure = jobs.query().task(id)?.info.failure.unwrap();
    /// assert_eq!((failure.group.as_str(), failure.attempt), ("released", 2));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "retries")]
    #[doc(alias = "attempts")]
    max_attempts(limit: u32) -> Option<u32> {
        /// How often a task is attempted; `None` without a limit.
        or Without("unlimited"),
        check check_max_attempts(Some(limit)),
        stored 1,
    }
    /// When the take of a task with a limited number of attempts is counted. Default:
    /// [`Counting::Written`]. Tasks without a limit are counted lazily. In a temporary tube, and in
    /// a store in memory, takes are counted in memory.
    count_takes(counting: Counting) -> Counting {
        /// When takes of tasks with a limit are counted.
        stored 2,
    }
    /// How long a task is delayed after an attempt that has failed or was lost. Default: no delay, except
    /// where [a worker has one](crate::Worker::backoff), in a tube without a limit of attempts. Timed drivers
    /// only. The delay is added to the ttl, which stands still meanwhile.
    #[doc(alias = "retry")]
    backoff(backoff: Backoff) -> Backoff {
        /// How long a task is delayed before its next attempt.
        in_effect backoff.whole(),
        check backoff.check(),
        needs timed "a backoff" unless Backoff::none(),
        stored 3,
    }
    /// How long the holder of a claim that has expired may still ack, fail or renew it. Default:
    /// zero. Timed drivers only.
    ///
    /// When the ttr has elapsed, the claim is overdue: an event [`Lost`](crate::EventKind::Lost)
    /// reports it, and the task stays taken. When the delay has elapsed as well, the claim ends. A
    /// claim whose handle is dropped, or whose session ends, ends immediately.
    #[doc(alias = "grace period")]
    reclaim_delay(delay: Duration) -> Option<Duration> {
        /// How long a claim that has expired may still be acked.
        or Without("none"),
        in_effect Some(whole(delay)).filter(|delay| !delay.is_zero()),
        needs timed "a reclaim delay" unless Duration::ZERO,
        stored 4,
    }
    /// Which tasks that are done are kept, with their results. Default: none. A kept task takes no
    /// place of the capacity. [`Tube::ending`](crate::Tube::ending) reads how it has ended,
    /// [`Admin::forget`](crate::Admin::forget) removes it.
    ///
    /// The ack that exceeds the count removes the oldest one with the same commit.
    #[doc(alias = "result backend")]
    keep_done(keep: Keep) -> Option<Keep> {
        /// What is kept of tasks that are done; `None` for nothing.
        or Without("none"),
        in_effect Some(keep.whole()),
        stored 5,
    }
    /// Which buried tasks are kept. Default: all, until they are kicked or deleted, or their ttl
    /// elapses. A task beyond these limits is removed: the oldest one first.
    #[doc(alias = "dead letter")]
    keep_buried(keep: Keep) -> Option<Keep> {
        /// Which buried tasks are kept; `None` for all.
        or Without("all"),
        in_effect Some(keep.whole()).filter(|keep| *keep != Keep::new()),
        stored 6,
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
    /// # use std::time::Duration;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let downloads = store.open_tube("downloads", TubeOptions::new().max_taken(2))?;
    /// downloads.put_many(["a", "b", "c"])?;
    /// let mut claims = downloads.take_many(10, Duration::ZERO)?;
    /// assert_eq!(claims.len(), 2);
    /// assert!(downloads.try_take()?.is_none());
    /// claims.remove(0).ack()?;
    /// assert_eq!(downloads.try_take()?.unwrap().body(), b"c");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "concurrency")]
    #[doc(alias = "max_concurrency")]
    max_taken(limit: u64) -> Option<u64> {
        /// How many of its tasks may be taken at a time; `None` without a limit.
        or Without("unlimited"),
        check above_zero(limit, "max_taken", "no limit is the default; or pause the tube"),
        stored 7,
    }
    /// How many tasks of each sub-queue may be taken at a time. Default: 1. Above zero. Drivers with
    /// sub-queues only. A take passes over the sub-queues that have as many taken tasks.
    ///
    /// The tasks without a sub-queue are one sub-queue too. Each taken task counts, also one with a
    /// [parked](crate::Claim::park) claim, or with an overdue claim within the
    /// [reclaim delay](TubeOptions::reclaim_delay). Its place is free when the end of the claim is
    /// visible. A limit that is [lowered](crate::Admin::alter) ends no claim. A take reads no task of a
    /// full sub-queue, however many wait in it.
    ///
    /// # Example: at most two connections to each host
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Put, Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().sub_queue_limit(2);
    /// let pages = store.open_tube("pages", options.driver(UTUBE))?;
    /// pages.put_many(["/a", "/b", "/c"].map(|page| Put::new(page).sub_queue("example.org")))?;
    /// let mut claims = pages.take_many(10, Duration::ZERO)?;
    /// assert_eq!(claims.len(), 2);
    /// claims.remove(0).ack()?;
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/c");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "concurrency")]
    sub_queue_limit(limit: u32) -> Option<u32> {
        /// How many tasks of a sub-queue may be taken at a time; `None` for one.
        or Number(1),
        in_effect Some(limit).filter(|limit| *limit != 1),
        check above_zero(limit, "sub_queue_limit", "one is the default; or pause the sub-queue"),
        needs sub_queued "a sub_queue_limit",
        stored 10,
    }
    /// Whether the names of the sub-queues are names of limits that all such tubes share. Default: no.
    /// Drivers with sub-queues only.
    ///
    /// The taken tasks of a sub-queue are then counted over all tubes with this option. How many there
    /// may be is what [`StoreAdmin::set_limit`](crate::expert::StoreAdmin::set_limit) says for its name. For a name
    /// without a limit it is the [`sub_queue_limit`](TubeOptions::sub_queue_limit) of the tube from
    /// which a task is to be taken.
    ///
    /// # Example: a database that bears two jobs, of whatever kind
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Put, Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let options = || TubeOptions::new().shared_limits(true);
    /// let imports = store.open_tube("imports", options().driver(UTUBE))?;
    /// let reports = store.open_tube("reports", options().driver(UTUBE))?;
    /// store.admin().set_limit("database", 2)?;
    /// imports.put_many(["a", "b"].map(|body| Put::new(body).sub_queue("database")))?;
    /// reports.put(Put::new("May").sub_queue("database"))?;
    ///
    /// let mut claims = imports.take_many(10, Duration::ZERO)?;
    /// assert_eq!(claims.len(), 2);
    /// assert!(reports.try_take()?.is_none());
    /// claims.remove(0).ack()?;
    /// assert_eq!(reports.try_take()?.unwrap().body(), b"May");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "semaphore")]
    shared_limits(shared: bool) -> bool {
        /// Whether the names of its sub-queues are names of [limits](crate::expert::StoreAdmin::set_limit) that it shares
        /// with other tubes.
        named "option shared_limits",
        needs sub_queued "shared limits of sub-queues" unless false,
        stored 11,
    }
    /// How many tasks of each sub-queue may be taken in a time. Default: without a limit. Drivers with
    /// sub-queues only. A take passes over the sub-queues that have no token; see [`Rate`].
    ///
    /// Each take of a task counts, however its claim ends. A take that waits gets a task when a
    /// sub-queue has a token again. The limit of [tasks that are taken](TubeOptions::sub_queue_limit)
    /// at a time holds as well.
    ///
    /// # Example: one page of a host at a time, and one a second
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Rate, Store, TubeOptions, UTUBE};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let second = Duration::from_secs(1);
    /// let options = TubeOptions::new().sub_queue_rate(Rate::per(1, second));
    /// let pages = store.open_tube("pages", options.driver(UTUBE))?;
    /// pages.put_many(["/a", "/b"].map(|page| Put::new(page).sub_queue("example.org")))?;
    /// pages.try_take()?.unwrap().ack()?;
    /// assert!(pages.try_take()?.is_none());
    /// clock.advance(second);
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/b");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate limit")]
    sub_queue_rate(rate: Rate) -> Option<Rate> {
        /// How many tasks of a sub-queue may be taken in a time; `None` without a limit.
        or Without("unlimited"),
        in_effect Some(rate.whole()),
        check rate.check(),
        needs sub_queued "a sub_queue_rate",
        stored 12,
    }
    /// How long no task of a sub-queue may be taken after the end of a claim on one of its tasks, such as
    /// the politeness delay of a crawler. Default: no time. At most 365 days of running time. Drivers with
    /// sub-queues only.
    ///
    /// Each end of a claim begins the cooldown, whatever the reason: an ack, a release, a failure, an expired
    /// ttr, the end of a session. The cooldown begins when the end of the claim is visible. A take passes over
    /// the sub-queues that are in their cooldown, and a take that waits gets a task when a cooldown ends.
    /// The [limit of taken tasks](TubeOptions::sub_queue_limit) and the [rate](TubeOptions::sub_queue_rate)
    /// hold as well. A rate counts from one take to the next, and a cooldown from the end of a task to the
    /// next take. After an open all sub-queues are in their cooldown.
    ///
    /// # Example: a second between the end of a request to a host and the next request
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store, TubeOptions, UTUBE};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let second = Duration::from_secs(1);
    /// let options = TubeOptions::new().sub_queue_cooldown(second);
    /// let pages = store.open_tube("pages", options.driver(UTUBE))?;
    /// pages.put_many(["/a", "/b"].map(|page| Put::new(page).sub_queue("example.org")))?;
    /// let page = pages.try_take()?.unwrap();
    /// clock.advance(second * 9); // a slow host
    /// page.ack()?;
    /// assert!(pages.try_take()?.is_none());
    /// clock.advance(second);
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/b");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "politeness")]
    #[doc(alias = "crawl delay")]
    sub_queue_cooldown(time: Duration) -> Option<Duration> {
        /// How long no task of a sub-queue may be taken after the end of a claim; `None` for no time.
        or Without("none"),
        in_effect Some(whole(time)).filter(|time| !time.is_zero()),
        check check_cooldown(time),
        needs sub_queued "a sub_queue_cooldown" unless Duration::ZERO,
        stored 15,
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
    /// use tubewell::{ManualClock, Rate, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let second = Duration::from_secs(1);
    /// let calls = store.open_tube("calls", TubeOptions::new().rate(Rate::per(2, second)))?;
    /// calls.put_many(["a", "b", "c"])?;
    /// assert_eq!(calls.take_many(10, Duration::ZERO)?.len(), 2);
    /// assert!(calls.try_take()?.is_none());
    /// clock.advance(second);
    /// assert_eq!(calls.take_many(10, Duration::ZERO)?.len(), 2); // the claims above were dropped
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate_limit")]
    rate(rate: Rate) -> Option<Rate> {
        /// How many takes there may be in a time; `None` without a limit.
        or Without("unlimited"),
        in_effect Some(rate.whole()),
        check rate.check(),
        stored 9,
    }
    /// How many entries the [history](crate::Query::history) of each task has at most: the first one,
    /// and the newest of the others. Default: 0, no history. At most 1000.
    ///
    /// Each stored change of a task adds an entry, with the commit of the change; an entry survives a
    /// crash if its change does. A take writes nothing: its entry goes along with the end of the claim,
    /// or with the first change that is stored while the task is taken. The history goes with the
    /// task: through a bury, a kick and a [replacement](crate::OnKey::Replace), to another tube, and to
    /// the tasks that are [kept](TubeOptions::keep_done) after their end. It is removed with the task.
    /// A tube that is [altered](crate::Admin::alter) to fewer entries, or a task that moves to a tube
    /// with fewer, loses the others with the next change of the task.
    ///
    /// A change writes one more row, and a change that ends a take writes two more rows. The end of a task
    /// removes all rows of its history, so choose a small number for a tube with many tasks.
    ///
    /// # Example
    /// See [`HistoryEntry`](crate::expert::HistoryEntry).
    #[doc(alias = "audit_log")]
    history(entries: u32) -> u32 {
        /// How many entries the [history](crate::Query::history) of a task has at most; 0 for none.
        check at_most(entries, HISTORY_MAX, "a history has", "entries"),
        stored 13,
    }
    /// How many days the numbers of the tube are kept, the current one included. Default: 0, none.
    /// At most 1000. [`Query::days`](crate::Query::days) returns them: how many tasks were put, taken,
    /// acked, failed and lost on each day, and how long they waited and ran.
    ///
    /// The numbers cost memory and no commit: they are counted in memory and written with commits that
    /// happen anyway, at most every 10 seconds, and at close. So a killed process or a power cut forgets
    /// what was counted since they were last written. A truncate leaves them; a drop of the tube removes
    /// them. An alter to fewer days hides the older ones immediately, an alter to 0 removes all.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.open_tube("mail", TubeOptions::new().metrics(30))?;
    /// mail.put("to: ann")?;
    /// mail.try_take()?.unwrap().ack()?;
    /// let today = mail.query().day(store.today()?)?;
    /// assert_eq!((today.puts, today.takes, today.acks), (1, 1, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "statistics")]
    metrics(days: u32) -> u32 {
        /// How many days its [numbers](crate::Query::days) are kept; 0 for none.
        check at_most(days, METRICS_MAX, "a tube keeps its metrics for", "days"),
        stored 14,
    }
} };
}

pub(crate) use tube_options;
