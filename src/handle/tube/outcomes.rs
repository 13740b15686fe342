//! Outcomes: how tasks have ended, and the groups of those that have failed.

use super::{Admin, Query, Tube};
use crate::core::list::{EndingOf, Forget, Groups};
use crate::values::ending::FailureGroup;
use crate::{Ending, Mode, Receipt};

impl<T, M: Mode> Tube<T, M> {
    /// How a task has ended; `None` if it is ready, taken or delayed.
    ///
    /// [`Ending::Done`] with the result, if the tube [keeps](crate::TubeOptions::keep_done) what is done;
    /// [`Ending::Buried`] with the last failure; [`Ending::Gone`] if the task has ended and nothing is kept
    /// of it. An id that was skipped after a crash, and an id of a task of another tube, are `Gone`, too. If
    /// the end of the task still waits for its flush, or in a written tube for its write, the call blocks for
    /// it: the answer survives what an ack survives. Otherwise it does not block.
    /// [`wait_done`](Tube::wait_done) waits for the end.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound) if the id was never assigned;
    /// [`Corrupt`](crate::Error::Corrupt) if the task or its result is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Ending, Keep, Outcome, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let reports = store.open_tube("reports", TubeOptions::new().keep_done(Keep::new()))?;
    /// let id = reports.put("May")?.id;
    /// assert_eq!(reports.ending(id)?, None);
    /// reports.try_take()?.unwrap().end(Outcome::result("12 pages"))?;
    /// let result = Some(b"12 pages".to_vec());
    /// assert_eq!(reports.ending(id)?, Some(Ending::Done { result }));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "result")]
    #[doc(alias = "outcome")]
    pub fn ending(&self, id: u64) -> M::Answer<Option<Ending>> {
        self.make(EndingOf { id })
    }
}

impl<T, M: Mode> Query<'_, T, M> {
    /// The failure groups of the buried tasks, with the number of tasks in each, in the order of
    /// their names: the first 10,000. The counts are kept, so that nothing is scanned. Tasks that
    /// were buried without a failure are in none. [`list`](crate::Query::list) of a filter with the
    /// [group](crate::Filter::group) has its tasks.
    ///
    /// Does not block. Includes changes whose flush is not done.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Failure, Filter, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(1))?;
    /// let id = jobs.put("work")?.id;
    /// jobs.try_take()?.unwrap().fail(Failure::new("timeout", "no answer in 30 s"))?;
    /// let groups = jobs.query().groups()?;
    /// assert_eq!((groups[0].name.as_str(), groups[0].count), ("timeout", 1));
    /// let last_first = Filter::new().group("timeout").newest_first();
    /// assert_eq!(jobs.query().list(last_first, None, 100)?.items[0].id, id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "failed")]
    #[doc(alias = "errors")]
    pub fn groups(&self) -> M::Answer<Vec<FailureGroup>> {
        self.tube.make(Groups {})
    }
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Removes a task that is done and kept, before its time.
    ///
    /// Once this returns, the task and its result do not come back after a killed process or a power
    /// cut. The call blocks for a flush. A task in another state is removed with
    /// [`delete`](Tube::delete).
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`NotDone`](crate::Error::NotDone). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`delete`](Tube::delete).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Ending, Keep, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.open_tube("mails", TubeOptions::new().keep_done(Keep::new()))?;
    /// let id = mails.put("to: ann")?.id;
    /// mails.try_take()?.unwrap().ack()?;
    /// mails.admin().forget(id)?;
    /// assert_eq!(mails.ending(id)?, Some(Ending::Gone));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn forget(&self, id: u64) -> M::Answer<Receipt> {
        self.tube.make(Forget { id })
    }
}
