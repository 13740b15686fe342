//! Tasks and schedules by their keys.

use super::Store;
use crate::core::list::{ByKey, FindSchedule};
use crate::values::task::TaskInfo;
use crate::{Error, Mode, ScheduleInfo, TaskState};

impl<M: Mode> Store<M> {
    /// The task that has this [key](crate::Put::key), with its tube; `None` if no task
    /// has it. A task that is done and [kept](crate::TubeOptions::keep_done) has its key.
    ///
    /// If the last change of the task is still to be flushed, the call blocks for that flush, so
    /// that in a tube with durability flush it returns nothing that a crash could undo. In a written
    /// tube it blocks for a write, and returns nothing that a killed process could undo. In a relaxed
    /// tube it does not block, and a crash may undo what it returns. If no task has the key, it blocks
    /// for the flush of changes of flushed tubes that is under way. Otherwise it does not block.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): no key has so many bytes, or none.
    /// [`Corrupt`](crate::Error::Corrupt) if the task is damaged. [`Closed`](crate::Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put(Put::new("to: ann").key("welcome ann"))?.id;
    /// let task = store.by_key("welcome ann")?.unwrap();
    /// assert_eq!((task.tube.as_str(), task.id, task.state), ("mails", id, TaskState::Ready));
    /// assert_eq!(store.by_key("welcome bob")?, None);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn by_key(&self, key: &str) -> M::Answer<Option<TaskInfo>> {
        self.make(ByKey { key: key.into() })
    }

    /// The schedule with this key, with its [tube](ScheduleInfo::tube); `None` if no schedule has it, and also
    /// if a task has it. Keys are unique in the store.
    ///
    /// It blocks for a flush as [`by_key`](Store::by_key) does, which finds the tube first.
    /// [`Schedules::get`](crate::Schedules::get) is the same for a caller that has a tube.
    ///
    /// # Errors
    /// Those of [`by_key`](Store::by_key).
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let reports = store.tube("reports")?;
    /// reports.schedule(Schedule::every("report", Duration::from_secs(3600)), "sales")?;
    ///
    /// let report = store.schedule("report")?.unwrap();
    /// assert_eq!((report.tube.as_str(), report.recurrence.to_string().as_str()), ("reports", "every 1h"));
    /// store.find_tube(&report.tube)?.schedules().remove("report")?;
    /// assert_eq!(store.schedule("report")?, None);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn schedule(&self, key: &str) -> M::Answer<Option<ScheduleInfo>> {
        let (store, key) = (self.to_async(), Box::<str>::from(key));
        M::run(async move {
            let found = store.by_key(&key).await?;
            let Some(task) = found.filter(|task| task.state == TaskState::Recurring) else {
                return Ok(None);
            };
            // Its tube may be dropped meanwhile, with the schedule.
            let found = match store.find_tube(&task.tube).await {
                Ok(tube) => tube.make(FindSchedule { key }).await,
                Err(error) => Err(error),
            };
            match found {
                Err(Error::TubeNotFound { .. } | Error::TubeDropped { .. }) => Ok(None),
                found => found,
            }
        })
    }
}
