//! What waits in the tubes of a store.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Store;
use super::prometheus::scrape_tubes;
use crate::Mode;
use crate::expert::Backlog;
use crate::values::scrape::TubeScrape;

impl<M: Mode> Store<M> {
    /// What waits in each tube, by its name: tasks, takes and puts, and how long a task has been ready at most.
    ///
    /// The age is found with a bounded number of reads: the call looks at the first ready task of each of the first 8
    /// order keys of a tube (the priorities, unless its driver decides otherwise), and in a tube with sub-queues at
    /// those from which a task can be taken. The time counts from the moment at which the task became ready if the
    /// tube has [`metrics`](crate::TubeOptions::metrics), else from its put.
    ///
    /// Reads the tubes in steps of at most 256, each under one hold of the store's lock, so what is told of two tubes may
    /// be of two moments. Changes nothing, does not wait for other calls, and works while the storage has failed.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Store};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// store.tube("mails")?.put("to: ann")?;
    /// clock.advance(Duration::from_secs(60));
    /// let mails = store.backlog()?["mails"];
    /// assert_eq!((mails.oldest_ready, mails.waiting_takes), (Some(Duration::from_secs(60)), 0));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "lag")]
    pub fn backlog(&self) -> M::Answer<BTreeMap<String, Backlog>> {
        self.backlog_after("", usize::MAX)
    }

    /// As [`backlog`](Self::backlog), of the first `limit` tubes whose names come after `after`. The empty name comes
    /// before all others. A page of a store with many tubes is ready long before the whole.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// let store = tubewell::Store::in_memory()?;
    /// for name in ["calls", "mails", "visits"] {
    ///     store.tube(name)?;
    /// }
    /// let two = store.backlog_after("", 2)?;
    /// assert_eq!(two.keys().collect::<Vec<_>>(), ["calls", "mails"]);
    /// assert_eq!(store.backlog_after("mails", 2)?.len(), 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn backlog_after(&self, after: &str, limit: usize) -> M::Answer<BTreeMap<String, Backlog>> {
        let (handle, after) = (self.handle.clone(), after.into());
        M::run(async move { Ok(by_name(scrape_tubes(&handle, Some(after), limit).await?)) })
    }
}

fn by_name(tubes: Vec<TubeScrape>) -> BTreeMap<String, Backlog> {
    let backlog = tubes.into_iter().map(|tube| {
        let oldest = tube.oldest_ready.filter(|_| tube.statistics.tasks.ready > 0);
        let waits = Backlog {
            statistics: tube.statistics,
            waiting_takes: tube.waiting_takes,
            waiting_puts: tube.waiting_puts,
            oldest_ready: oldest.map(Duration::from_micros),
        };
        (tube.name.as_ref().to_owned(), waits)
    });
    backlog.collect()
}
