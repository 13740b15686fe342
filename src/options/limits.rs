//! The options that limit the sub-queues of a tube.

use super::TubeOptions;
use crate::Rate;

impl TubeOptions {
    /// How many tasks of each sub-queue may be taken at a time. Default: 1. Above zero. Drivers with
    /// sub-queues only. A take passes over the sub-queues that have as many taken tasks.
    ///
    /// The tasks without a sub-queue are one sub-queue too. Each taken task counts, also one with a
    /// [parked](crate::Claim::park) claim, or with an overdue claim within the
    /// [reclaim delay](TubeOptions::reclaim_delay). Its place is free when the end of the claim is
    /// visible. A limit that is [lowered](crate::Tube::alter) ends no claim. A take reads no task of a
    /// full sub-queue, however many wait in it.
    ///
    /// # Example: at most two connections to each host
    /// ```
    /// use tubewell::{Put, Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().sub_queue_limit(2);
    /// let pages = store.create_tube("pages", UTUBE, options)?;
    /// pages.put_many(["/a", "/b", "/c"].map(|page| Put::new(page).sub_queue("example.org")))?;
    /// let mut claims = pages.take_many(10, None)?;
    /// assert_eq!(claims.len(), 2);
    /// claims.remove(0).ack()?;
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/c");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "concurrency")]
    #[must_use]
    pub fn sub_queue_limit(mut self, limit: u32) -> TubeOptions {
        self.sub_queue_limit = Some(limit);
        self
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
    /// let pages = store.create_tube("pages", UTUBE, options)?;
    /// pages.put_many(["/a", "/b"].map(|page| Put::new(page).sub_queue("example.org")))?;
    /// pages.try_take()?.unwrap().ack()?;
    /// assert!(pages.try_take()?.is_none());
    /// clock.advance(second);
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/b");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate limit")]
    #[must_use]
    pub fn sub_queue_rate(mut self, rate: Rate) -> TubeOptions {
        self.sub_queue_rate = Some(rate);
        self
    }

    /// Whether the names of the sub-queues are names of limits that all such tubes share. Default: no.
    /// Drivers with sub-queues only.
    ///
    /// The taken tasks of a sub-queue are then counted over all tubes with this option. How many there
    /// may be is what [`Store::set_limit`](crate::Store::set_limit) says for its name. For a name
    /// without a limit it is the [`sub_queue_limit`](TubeOptions::sub_queue_limit) of the tube from
    /// which a task is to be taken.
    ///
    /// # Example: a database that bears two jobs, of whatever kind
    /// ```
    /// use tubewell::{Put, Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let options = || TubeOptions::new().shared_limits(true);
    /// let imports = store.create_tube("imports", UTUBE, options())?;
    /// let reports = store.create_tube("reports", UTUBE, options())?;
    /// store.set_limit("database", 2)?;
    /// imports.put_many(["a", "b"].map(|body| Put::new(body).sub_queue("database")))?;
    /// reports.put(Put::new("May").sub_queue("database"))?;
    ///
    /// let mut claims = imports.take_many(10, None)?;
    /// assert_eq!(claims.len(), 2);
    /// assert!(reports.try_take()?.is_none());
    /// claims.remove(0).ack()?;
    /// assert_eq!(reports.try_take()?.unwrap().body(), b"May");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "semaphore")]
    #[must_use]
    pub fn shared_limits(mut self, shared: bool) -> TubeOptions {
        self.shared_limits = shared;
        self
    }
}
