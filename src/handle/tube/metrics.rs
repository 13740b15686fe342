//! The numbers of a tube, by day.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use tubewell_drivers::DayCounts;

use super::{AsyncTube, Query};
use crate::core::list::{Days, FailedOn};
use crate::values::date::Date;
use crate::values::metrics::Day;
use crate::{Error, Mode, Result, Ticket};

impl<T, M: Mode> Query<'_, T, M> {
    /// The numbers of this tube on one day. All are zero on a day that it does not keep, or on which
    /// nothing happened.
    ///
    /// The numbers are live: they include each change that is decided, also before its flush. A killed
    /// process forgets what was counted since the numbers were last written; see
    /// [`TubeOptions::metrics`](crate::TubeOptions::metrics). [`Store::today`](crate::Store::today) is
    /// the day that is counted now. Does not block.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the tube has no metrics.
    /// [`Corrupt`](crate::Error::Corrupt): the numbers of the day are damaged. Those of every call.
    ///
    /// # Example
    /// See [`TubeOptions::metrics`](crate::TubeOptions::metrics).
    pub fn day(&self, date: Date) -> M::Answer<Day> {
        let tube = self.tube.to_bytes().to_async();
        M::run(async move {
            let counts = tube.counts_of(date..=date).await?.pop();
            let counts = counts.map_or_else(DayCounts::default, |(_, counts)| counts);
            let failed = tube.failed_on(date..=date).await?.get(&date.days()).copied().unwrap_or(0);
            Ok(Day::new(date, &counts, failed))
        })
    }

    /// The numbers of this tube on the days of a range, the oldest first: those days that the tube keeps
    /// and on which something was counted, or a task failed that is still buried. Leaves out days whose numbers are damaged;
    /// [`verify`](crate::expert::StoreAdmin::verify) names them.
    ///
    /// The numbers are those of [`day`](crate::Query::day). Does not block. Reads a row for each of the days
    /// that are kept, and one for each task that has failed on them and is still buried.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the tube has no metrics. Those of every call.
    ///
    /// # Example: the last week
    /// ```
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.open_tube("mail", TubeOptions::new().metrics(30))?;
    /// mail.put_many(["to: ann", "to: bob"])?;
    /// let today = store.today()?;
    /// for day in mail.query().days(today.plus_days(-6)..=today)? {
    ///     println!("{}: {} put, {} acked, median wait {:?}", day.date, day.puts, day.acks,
    ///         day.wait.percentile(0.5));
    ///     assert_eq!((day.date, day.puts), (today, 2));
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "metrics")]
    #[doc(alias = "statistics")]
    pub fn days(&self, range: RangeInclusive<Date>) -> M::Answer<Vec<Day>> {
        let tube = self.tube.to_bytes().to_async();
        M::run(async move {
            let counts = if range.start() == range.end() {
                tube.whole_counts_of(*range.start()).await?.unwrap_or_default()
            } else {
                tube.counts_of(range.clone()).await?
            };
            let mut counts: BTreeMap<u32, DayCounts> = counts.into_iter().collect();
            let failed = tube.failed_on(range).await?;
            // On such a day nothing else was counted, or its numbers are damaged.
            for day in
                failed.keys().filter(|day| !counts.contains_key(day)).copied().collect::<Vec<_>>()
            {
                if tube.whole_counts_of(Date::of_day(day)).await?.is_some() {
                    counts.insert(day, DayCounts::default());
                }
            }
            let failed_on = |day: u32| failed.get(&day).copied().unwrap_or(0);
            let days = counts.iter();
            Ok(days.map(|(day, it)| Day::new(Date::of_day(*day), it, failed_on(*day))).collect())
        })
    }
}

impl AsyncTube {
    /// The numbers of one day, if there are some; `None` if they are damaged. Those of several days leave
    /// out the damaged ones.
    async fn whole_counts_of(&self, date: Date) -> Result<Option<Vec<(u32, DayCounts)>>> {
        match self.counts_of(date..=date).await {
            Err(Error::Corrupt { .. }) => Ok(None),
            counts => counts.map(Some),
        }
    }

    fn counts_of(&self, range: RangeInclusive<Date>) -> Ticket<Vec<(u32, DayCounts)>> {
        let (from, to) = (range.start().days(), range.end().days());
        self.make(Days { from, to })
    }

    /// How many tasks are still buried that have failed on each of these days.
    async fn failed_on(&self, range: RangeInclusive<Date>) -> Result<BTreeMap<u32, u64>> {
        let (from, to) = (range.start().days(), range.end().days());
        let mut failed = BTreeMap::new();
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            let step = self.make(FailedOn { from, to, next: key }).await?;
            for day in step.days {
                *failed.entry(day).or_default() += 1;
            }
            next = step.next;
        }
        Ok(failed)
    }
}
