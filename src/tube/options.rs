//! The options of a tube that exists.

use std::time::Duration;

use crate::{TubeInfo, TubeOptions};

impl TubeInfo {
    /// The options of the tube, to create another one like it or to
    /// [alter](crate::Tube::alter) it. The callback and the pause are not among them.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFOTTL, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().ttr(Duration::from_secs(60)).max_taken(2);
    /// let films = store.create_tube("films", FIFOTTL, options)?;
    /// let info = films.info()?;
    /// let series = store.create_tube("series", &info.driver, info.options())?;
    /// assert_eq!(series.info()?.ttr, info.ttr);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> TubeOptions {
        // A ttr without a limit is the default in a tube whose ttl has none.
        let ttr = self.ttr.or(self.ttl.map(|_| Duration::MAX));
        TubeOptions {
            ttl: self.ttl,
            ttr,
            pri: Some(self.pri).filter(|pri| *pri != 0),
            temporary: self.temporary,
            capacity: Some(self.capacity).filter(|capacity| *capacity != 0),
            max_runtime: self.max_runtime,
            max_attempts: self.max_attempts,
            count_takes: self.count_takes,
            backoff: self.backoff,
            reclaim_delay: self.reclaim_delay.unwrap_or_default(),
            keep_done: self.keep_done,
            keep_buried: self.keep_buried,
            max_taken: self.max_taken,
            sub_queue_limit: self.sub_queue_limit,
            shared_limits: self.shared_limits,
            sub_queue_rate: self.sub_queue_rate,
            rate: self.rate,
            history: self.history,
            metrics: self.metrics,
            durability: self.durability,
            ..TubeOptions::default()
        }
    }
}
