//! The schedules of a tube.

use super::{Schedules, Tube};
use crate::core::ScheduleRequest;
use crate::core::list::{ChangeSchedule, FindSchedule, ListSchedules, RemoveSchedule, SetSchedule};
use crate::values::put::Encoded;
use crate::values::task::Cursor;
use crate::{IntoPut, Mode, Page, Receipt, Result, Schedule, ScheduleInfo};

impl<T, M: Mode> Tube<T, M> {
    /// Stores a schedule, which puts this task into this tube again and again, and returns the receipt of
    /// the schedule: its state is [`Recurring`](crate::TaskState::Recurring).
    ///
    /// Each run puts the body and the options of the task, as [`put`](Tube::put) takes them. A run cannot
    /// have a key of its own, parents, or a moment before which it is not ready.
    ///
    /// The store puts the runs itself while it is open, also while the tube is paused. Each run is put
    /// with one commit, which also moves the schedule to its next moment: no crash loses or doubles a
    /// run. What was missed while the store was closed is made up for as
    /// [`Schedule::missed`] says, by default with one run. A run that does not fit into the tube or
    /// onto the disk waits for a second, and is left out and counted as skipped if it does not fit then.
    /// While the driver of the tube is not registered, the schedule stands still.
    ///
    /// If a schedule with this key exists, the call changes it to this schedule and this task, and moves it
    /// to this tube. It keeps its id and its count of runs. It keeps its next moment if the interval or the
    /// expression is the same. So an application may store its schedules at each start. Each start then
    /// overrides the changes that operators have made with [`change`](Schedules::change) and
    /// [`change_task`](Schedules::change_task), and stores removed and ended schedules anew. To keep such
    /// changes, store only the schedules that [`get`](Schedules::get) does not find.
    ///
    /// A schedule takes no place of the tube's capacity. [`truncate`](crate::Admin::truncate) and
    /// [`drop_tube`](crate::Store::drop_tube) remove it, as does a [`delete`](Tube::delete) by its id.
    /// Its runs stay when it is removed.
    ///
    /// Once this returns, the schedule survives what a put survives. It waits as a put does. A schedule that is
    /// stored again as it is writes nothing.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): an empty key, or one of more than 4071 bytes; a schedule that does
    /// not say when its runs are; an interval below a millisecond; an expression or a time zone that is not
    /// known; a task with a key, parents or a moment. [`KeyInUse`](crate::Error::KeyInUse): a task that is no
    /// schedule has the key. [`Unsupported`](crate::Error::Unsupported) for an option of the task that the
    /// driver does not have. [`DriverUnknown`](crate::Error::DriverUnknown);
    /// [`DiskFull`](crate::Error::DiskFull). Nothing changed. After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the schedule may be there.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Schedule, TaskState, Store};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let hour = Duration::from_secs(3600);
    /// let receipt = jobs.schedule(Schedule::every("fetch", hour), "fetch the news")?;
    /// assert_eq!(receipt.state, TaskState::Recurring);
    ///
    /// clock.advance(hour);
    /// let fetch = jobs.try_take()?.unwrap();
    /// assert_eq!(fetch.body(), b"fetch the news");
    /// jobs.schedules().remove("fetch")?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "cron")]
    #[doc(alias = "recurring")]
    #[doc(alias = "periodic")]
    pub fn schedule<P: IntoPut<T>>(&self, schedule: Schedule, task: P) -> M::Answer<Receipt> {
        self.make_checked(self.set_schedule(schedule, task))
    }

    pub(crate) fn set_schedule<P: IntoPut<T>>(
        &self,
        schedule: Schedule,
        task: P,
    ) -> Result<SetSchedule> {
        let (key, request) = ScheduleRequest::new(schedule, self.encode(task)?)?;
        Ok(SetSchedule { key, request })
    }
}

impl<T, M: Mode> Schedules<'_, T, M> {
    /// The schedule with this key, in whichever tube it is; `None` if no schedule has it, and also if a task
    /// has it. [`Store::by_key`](crate::Store::by_key) returns the tube, and waits for the same flush.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): an empty key, or one of more than 4096 bytes.
    /// [`Corrupt`](crate::Error::Corrupt) if the schedule is damaged.
    ///
    /// # Example
    /// See [`change`](Schedules::change).
    pub fn get(&self, key: &str) -> M::Answer<Option<ScheduleInfo>> {
        self.tube.make(FindSchedule { key: key.into() })
    }

    /// Changes the stored schedule with the key of `named`: only what `named` names. Its id, its count of
    /// runs, its task and all else stay.
    ///
    /// Further runs are as it says then; those that were put are not changed. A new interval counts
    /// from the moment of the last run that was due, as [`Schedule::every`] says. If the schedule is in another
    /// tube, it goes on in this one: call it on the tube in which the schedule is to be.
    ///
    /// Once this returns, the change survives what a put survives. It waits as a put does. A change that
    /// changes nothing writes nothing.
    ///
    /// # Errors
    /// [`KeyNotFound`](crate::Error::KeyNotFound): nothing has the key; no crash brings the schedule back
    /// that had it, if its tube has durability flush. [`WrongState`](crate::Error::WrongState): a task that
    /// is no schedule has it. [`Invalid`](crate::Error::Invalid): as of [`schedule`](Tube::schedule); it has
    /// put as many runs already as it is to have; it is [`restored`](Schedule::restored); or it would move
    /// between a temporary tube and another one. [`Unsupported`](crate::Error::Unsupported): the driver of
    /// this tube does not have an option of its task. [`DriverUnknown`](crate::Error::DriverUnknown),
    /// [`DiskFull`](crate::Error::DiskFull). Nothing changed.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let hour = Duration::from_secs(3600);
    /// jobs.schedule(Schedule::every("fetch", hour).times(10), "fetch the news")?;
    /// let schedules = jobs.schedules();
    /// schedules.change(Schedule::every("fetch", hour / 2))?;
    /// schedules.change(Schedule::of("fetch").within(hour))?;
    ///
    /// let fetch = schedules.get("fetch")?.unwrap();
    /// assert_eq!(fetch.recurrence.to_string(), "every 30m");
    /// assert_eq!((fetch.times, fetch.within), (Some(10), Some(hour)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn change(&self, named: Schedule) -> M::Answer<Receipt> {
        self.make_change(named, Ok(None))
    }

    /// Changes what each further run puts: the body and all options of its task. `of` is the key of the
    /// schedule, or a schedule that names what else changes, as in [`change`](Schedules::change). All of it is
    /// one commit. The runs that were put stay as they are.
    ///
    /// If the schedule is in another tube, it goes on in this one. Once this returns, the change survives
    /// what a put survives. It waits as a put does.
    ///
    /// # Errors
    /// Those of [`change`](Schedules::change), and [`Invalid`](crate::Error::Invalid) for a task that
    /// [`schedule`](Tube::schedule) refuses. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Put, Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.schedule(Schedule::every("report", Duration::from_secs(3600)), "sales")?;
    /// let schedules = jobs.schedules();
    /// schedules.change_task("report", Put::new("sales and costs").tag("checked"))?;
    /// schedules.change_task(Schedule::of("report").times(9), "sales")?;
    ///
    /// let report = schedules.get("report")?.unwrap();
    /// assert_eq!((report.times, report.tags.len()), (Some(9), 0));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn change_task<P: IntoPut<T>>(
        &self,
        of: impl Into<Schedule>,
        task: P,
    ) -> M::Answer<Receipt> {
        self.make_change(of.into(), self.tube.encode(task).map(Some))
    }

    fn make_change(&self, named: Schedule, task: Result<Option<Encoded>>) -> M::Answer<Receipt> {
        let change = task.and_then(|task| ScheduleRequest::change(named, task));
        self.tube.make_checked(change.map(|(key, request)| ChangeSchedule { key, request }))
    }

    /// Removes the schedule with this key, in whichever tube it is. Its runs stay.
    ///
    /// Once this returns, the removal survives what a put survives. It waits as a put does. The state of the
    /// receipt is [`Done`](crate::TaskState::Done).
    ///
    /// # Errors
    /// [`KeyNotFound`](crate::Error::KeyNotFound) and [`WrongState`](crate::Error::WrongState) as of
    /// [`change`](crate::Schedules::change). Nothing changed.
    ///
    /// # Example
    /// See [`schedule`](Tube::schedule).
    pub fn remove(&self, key: &str) -> M::Answer<Receipt> {
        self.tube.make(RemoveSchedule { key: key.into() })
    }

    /// Up to `limit` schedules of this tube, at most 1,000, in the order in which they were first
    /// stored: from the first one, or after the page that `after` is of. Does not block.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the cursor is of another list. Those of every call.
    ///
    /// # Example
    /// See [`Schedules`].
    pub fn list(
        &self,
        after: impl Into<Option<Cursor>>,
        limit: usize,
    ) -> M::Answer<Page<ScheduleInfo>> {
        self.tube.make(ListSchedules { after: after.into(), limit })
    }
}
