//! Schedules: tasks that are put again and again.

use std::time::{Duration, SystemTime};

use crate::values::put::{Encoded, of_bytes};
use crate::{Bytes, Error, IntoPut, Result};

/// When the runs of a schedule are.
///
/// Its text is `every 1h`, or `cron 0 9 * * 1-5 in Europe/Berlin`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Recurrence {
    /// Again and again after this time, which is measured on the store's timeline as delays are: it
    /// goes on while the store is closed, and a wall clock that is set does not change it.
    Every(Duration),
    /// At the moments of the wall clock that a cron expression names.
    Cron {
        /// The expression.
        expression: String,
        /// The time zone in which it is read: a name of the IANA time zone database.
        zone: String,
    },
}

/// Which of the runs are made up for that were missed while the store was closed, the machine was
/// suspended, or the store was busy.
///
/// Its text is `skip`, `all`, or the number of the newest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missed {
    /// This many of the newest runs, from 1 to 100. The default is 1: an application that was closed
    /// for a month begins with one run.
    Latest(u32),
    /// All of them, the oldest first.
    All,
    /// None: a run that is more than a minute late is left out.
    Skip,
}

impl Default for Missed {
    fn default() -> Missed {
        Missed::Latest(1)
    }
}

/// What a schedule does if its last run is not over when the next one is due.
///
/// Its text is `allow` or `skip`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It puts the next run all the same.
    #[default]
    Allow,
    /// It leaves the next run out, and counts it as skipped. The last run is over when its task is
    /// done, removed, or buried, in whichever tube it is by then.
    Skip,
}

/// A schedule to be stored with [`Tube::schedule`](crate::Tube::schedule): when its runs are, and what
/// each of them puts.
///
/// A schedule has a [`key`](Schedule::key), by which it is changed and removed. Each run is a task of
/// its own, with the key of the schedule, a hyphen and the number of the run as its key: `report-1`.
/// If another task has that key, the run has none.
///
/// # Example: a report each night, and a clean-up every ten minutes
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tubewell::{ManualClock, Overlap, Put, Schedule, Store};
///
/// let clock = ManualClock::new(); // 2026-01-01 00:00:00 UTC
/// let store = Store::options().clock(&clock).open_in_memory()?;
/// let jobs = store.tube("jobs")?;
/// let day = Duration::from_secs(86_400);
/// let three = UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 3 * 3600);
/// let report = Schedule::every(day).key("report").starting(three).put("report");
/// jobs.schedule(report)?;
/// let tidy = Schedule::every(Duration::from_secs(600)).key("tidy").overlap(Overlap::Skip);
/// jobs.schedule(tidy.put(Put::new("tidy").max_attempts(3)))?;
///
/// clock.advance(Duration::from_secs(3 * 3600));
/// let tasks = jobs.take_many(10, Duration::ZERO)?;
/// let keys: Vec<_> = tasks.iter().filter_map(|task| task.key()).collect();
/// assert_eq!(keys, ["tidy-1", "report-1"]); // The first clean-up is not over.
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a schedule is not stored until a tube schedules it"]
#[doc(alias = "cron")]
#[doc(alias = "periodic")]
pub struct Schedule<P = &'static str> {
    pub(crate) terms: Terms,
    pub(crate) put: P,
}

/// When a schedule has runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) recurrence: Recurrence,
    pub(crate) key: Option<String>,
    pub(crate) starting: Option<SystemTime>,
    pub(crate) times: Option<u64>,
    pub(crate) missed: Missed,
    pub(crate) within: Option<Duration>,
    pub(crate) overlap: Overlap,
    pub(crate) restored: Option<Restored>,
}

/// What a schedule of another store brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Restored {
    pub(crate) id: Option<u64>,
    pub(crate) runs: u64,
    pub(crate) skipped: u64,
}

impl Schedule {
    /// Runs that follow each other after this time, at least a millisecond. Each moment is counted
    /// from the one before, not from when its run was put, so that they do not drift. Rounded up to
    /// microseconds.
    #[doc(alias = "interval")]
    pub fn every(interval: Duration) -> Schedule {
        Schedule::new(Recurrence::Every(interval))
    }

    /// Runs at the moments that a cron expression names, in a time zone: `"0 9 * * 1-5"` in
    /// `"Europe/Berlin"` is nine o'clock in Berlin from Monday to Friday.
    ///
    /// The expression has five fields: minute, hour, day of the month, month, day of the week (0 or 7
    /// is Sunday). With six fields, the first one is the second. If both days are restricted, a day
    /// needs to match one of them. [`Tube::schedule`](crate::Tube::schedule) refuses an expression or
    /// a time zone that it does not know.
    ///
    /// The moments go by the wall clock, as [`Put::not_before`](crate::Put::not_before) does. When the clocks go forward, a
    /// run in the hour or the day that is left out comes right after it. When they go back, a run in
    /// the hour that comes twice is there once. An expression with a wildcard or a step in the field
    /// of the second, the minute or the hour is an interval instead: it has no run for the hour that
    /// is left out, and runs in both of the hours that come twice. An open store notices within 30
    /// seconds that its clock was set.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let report = Schedule::cron("0 9 * * 1-5", "UTC").key("report").put("report");
    /// jobs.schedule(report)?;
    /// assert!(jobs.schedule(Schedule::cron("61 * * * *", "UTC").key("x")).is_err());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[cfg(feature = "cron")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cron")))]
    pub fn cron(expression: impl Into<String>, zone: impl Into<String>) -> Schedule {
        let (expression, zone) = (expression.into(), zone.into());
        Schedule::new(Recurrence::Cron { expression, zone })
    }

    fn new(recurrence: Recurrence) -> Schedule {
        let terms = Terms {
            recurrence,
            key: None,
            starting: None,
            times: None,
            missed: Missed::default(),
            within: None,
            overlap: Overlap::default(),
            restored: None,
        };
        Schedule { terms, put: "" }
    }
}

impl<P> Schedule<P> {
    /// The key: a name of 1 to 4071 bytes that no other task and no other schedule of the store has. It
    /// must be given.
    pub fn key(mut self, key: impl Into<String>) -> Schedule<P> {
        self.terms.key = Some(key.into());
        self
    }

    /// The moment of the first run, by the wall clock as it is when the schedule is stored. Default:
    /// now, and for a cron expression the next moment that it names.
    ///
    /// If it has passed, the runs are where they would be if the schedule had begun then, and the first
    /// one is the next of them. A schedule that is stored already has begun: it keeps its moments.
    #[doc(alias = "offset")]
    pub fn starting(mut self, moment: SystemTime) -> Schedule<P> {
        self.terms.starting = Some(moment);
        self
    }

    /// After how many runs the schedule ends. Default: never. Above zero. Runs that are left out do
    /// not count. A schedule that has ended is removed, and its key is free.
    pub fn times(mut self, runs: u64) -> Schedule<P> {
        self.terms.times = Some(runs);
        self
    }

    /// Which missed runs are made up for. Default: [`Missed::Latest(1)`](Missed::Latest).
    #[doc(alias = "catch up")]
    #[doc(alias = "misfire")]
    pub fn missed(mut self, missed: Missed) -> Schedule<P> {
        self.terms.missed = missed;
        self
    }

    /// How late a run may be: one that is later is left out. Default: without a limit.
    #[doc(alias = "grace")]
    pub fn within(mut self, time: Duration) -> Schedule<P> {
        self.terms.within = Some(time);
        self
    }

    /// What happens if the last run is not over when the next one is due. Default:
    /// [`Overlap::Allow`].
    pub fn overlap(mut self, overlap: Overlap) -> Schedule<P> {
        self.terms.overlap = overlap;
        self
    }

    /// What each run puts: the body and the options of its task, as [`Tube::put`](crate::Tube::put)
    /// takes them. Default: an empty text. A run cannot have a key of its own, parents, or a moment
    /// before which it is not ready.
    pub fn put<Q>(self, task: Q) -> Schedule<Q> {
        Schedule { terms: self.terms, put: task }
    }

    pub(crate) fn try_map<Q>(self, with: impl FnOnce(P) -> Result<Q>) -> Result<Schedule<Q>> {
        Ok(Schedule { terms: self.terms, put: with(self.put)? })
    }

    /// Marks it as a schedule of another store, to be put back as it was: with its id there, if that is
    /// to stay, and its counts of runs and of skipped runs. Default: it is a new one.
    ///
    /// Its [`starting`](Schedule::starting) is then the moment of its next run, also if that has
    /// passed. A run is not put within a minute after the last restore of an id, unless a task was
    /// put since: it would have an id that is still to be restored. That minute counts for
    /// [`missed`](Schedule::missed) and [`within`](Schedule::within). The schedule is refused if its
    /// key is in use. For ids, what [`restore_many`](crate::Admin::restore_many) says holds.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let hourly = Schedule::every(Duration::from_secs(3600)).key("hourly");
    /// jobs.schedule(hourly.restored(17, 4, 1))?;
    /// let stored = &jobs.schedules().list(None, 10)?.items[0];
    /// assert_eq!((stored.id, stored.runs, stored.skipped), (17, 4, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn restored(mut self, id: impl Into<Option<u64>>, runs: u64, skipped: u64) -> Schedule<P> {
        self.terms.restored = Some(Restored { id: id.into(), runs, skipped });
        self
    }
}

/// What [`Schedules::change`](crate::Schedules::change) changes of a schedule. What is left out stays as
/// it is, and so does the count of its runs.
///
/// # Example
/// See [`Schedules::change`](crate::Schedules::change).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "nothing is changed until a tube reschedules a schedule"]
pub struct Reschedule {
    pub(crate) recurrence: Option<Recurrence>,
    pub(crate) starting: Option<SystemTime>,
    pub(crate) times: Option<Option<u64>>,
    pub(crate) missed: Option<Missed>,
    pub(crate) within: Option<Option<Duration>>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) put: Option<Encoded>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) priority: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) tags: Option<Vec<String>>,
}

impl Reschedule {
    /// Changes nothing.
    pub fn new() -> Reschedule {
        Reschedule::default()
    }

    /// A new interval. It counts from the moment of the last run that was due; if none was, the first
    /// run stays where it is. So does a run that is due and waits for space.
    pub fn every(mut self, interval: Duration) -> Reschedule {
        self.recurrence = Some(Recurrence::Every(interval));
        self
    }

    /// A new cron expression and its time zone, from now on. A run that is due and waits for space
    /// keeps its moment. See [`Schedule::cron`].
    #[cfg(feature = "cron")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cron")))]
    pub fn cron(mut self, expression: impl Into<String>, zone: impl Into<String>) -> Reschedule {
        let (expression, zone) = (expression.into(), zone.into());
        self.recurrence = Some(Recurrence::Cron { expression, zone });
        self
    }

    /// The moment of the next run. See [`Schedule::starting`].
    pub fn starting(mut self, moment: SystemTime) -> Reschedule {
        self.starting = Some(moment);
        self
    }

    /// After how many runs the schedule ends, with those that it has put already; `None` for never.
    pub fn times(mut self, runs: impl Into<Option<u64>>) -> Reschedule {
        self.times = Some(runs.into());
        self
    }

    /// Which missed runs are made up for.
    pub fn missed(mut self, missed: Missed) -> Reschedule {
        self.missed = Some(missed);
        self
    }

    /// How late a run may be; `None` without a limit.
    pub fn within(mut self, time: impl Into<Option<Duration>>) -> Reschedule {
        self.within = Some(time.into());
        self
    }

    /// What happens if the last run is not over when the next one is due.
    pub fn overlap(mut self, overlap: Overlap) -> Reschedule {
        self.overlap = Some(overlap);
        self
    }

    /// What each further run puts: the body, as bytes also in a typed tube, and all options of its task.
    pub fn put(mut self, task: impl IntoPut<Bytes>) -> Reschedule {
        self.put = Some(of_bytes(task));
        self
    }

    /// The body of further runs, as bytes also in a typed tube.
    #[doc(alias = "payload")]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Reschedule {
        self.body = Some(body.into());
        self
    }

    /// The priority of further runs; 0 is the most urgent. Timed drivers only.
    pub fn priority(mut self, priority: u32) -> Reschedule {
        self.priority = Some(priority);
        self
    }

    /// How often each further run is attempted. Above zero.
    #[doc(alias = "retries")]
    pub fn max_attempts(mut self, limit: u32) -> Reschedule {
        self.max_attempts = Some(limit);
        self
    }

    /// The tags of further runs, in place of the tags so far: up to 32, as in
    /// [`Put::tag`](crate::Put::tag). None removes all. Runs that were put keep theirs.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Put, Reschedule, Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let hour = Duration::from_secs(3600);
    /// jobs.schedule(Schedule::every(hour).key("report").put(Put::new("x").tag("draft")))?;
    /// jobs.schedules().change("report", Reschedule::new().tags(["checked", "ann"]))?;
    /// assert_eq!(jobs.schedules().list(None, 9)?.items[0].tags, ["checked", "ann"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Reschedule {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }
}

/// A stored schedule; from [`Schedules::list`](crate::Schedules::list).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// The id of the schedule. It is one of a task: [`task`](crate::Query::task) returns what the runs
    /// have as their body.
    pub id: u64,
    /// Its key.
    pub key: String,
    /// When its runs are.
    pub recurrence: Recurrence,
    /// The moment of its next run. Of an interval, it is on the store's timeline, which differs from
    /// the wall clock if that was set while the store was open.
    pub next: SystemTime,
    /// How long until the next run, as the clocks are now; zero if it is due.
    pub due_in: Duration,
    /// How many runs it has put.
    pub runs: u64,
    /// How many runs it has left out, since the last one was not over, the tube or the disk was full,
    /// or the driver refused the task. Missed runs do not count.
    pub skipped: u64,
    /// The task of the last run, which may be over; `None` before the first one.
    pub last: Option<u64>,
    /// After how many runs it ends; `None` for never.
    pub times: Option<u64>,
    /// Which missed runs are made up for.
    pub missed: Missed,
    /// How late a run may be; `None` without a limit.
    pub within: Option<Duration>,
    /// What happens if the last run is not over when the next one is due.
    pub overlap: Overlap,
    /// The priority of the runs; `None` for that of the tube.
    pub priority: Option<u32>,
    /// The ttl of the runs; `None` for that of the tube.
    pub ttl: Option<Duration>,
    /// The ttr of the runs; `None` for that of the tube.
    pub ttr: Option<Duration>,
    /// The delay of the runs.
    pub delay: Duration,
    /// The sub-queue of the runs, if they have one.
    pub sub_queue: Option<String>,
    /// How often each run is attempted; `None` for the limit of the tube.
    pub max_attempts: Option<u32>,
    /// The tags of the runs. The schedule itself is not found by them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tags: Vec<String>,
    /// The length of their body, in bytes.
    pub size: u64,
    /// Why it stands still, if it does: nothing is lost, and it goes on when the reason is gone.
    pub stopped: Option<String>,
}

/// The shortest interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// The largest number of newest runs to make up for.
const MAX_LATEST: u32 = 100;
/// Maximum length of a cron expression and of the name of a time zone, in bytes.
const CRON_MAX: usize = 255;

impl Recurrence {
    /// Refuses an interval that is too short.
    pub(crate) fn check_interval(&self) -> Result<()> {
        match self {
            Recurrence::Every(interval) if *interval < MIN_INTERVAL => {
                Err(Error::invalid("the interval of a schedule must be at least a millisecond"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses one that cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_interval()?;
        match self {
            Recurrence::Cron { expression, zone }
                if expression.len().max(zone.len()) > CRON_MAX =>
            {
                Err(Error::invalid(format!(
                    "a cron expression and the name of a time zone have at most {CRON_MAX} bytes"
                )))
            }
            #[cfg(feature = "cron")]
            Recurrence::Cron { expression, zone } => crate::values::cron::check(expression, zone),
            _ => Ok(()),
        }
    }
}

impl Missed {
    /// Refuses a number that is out of bounds.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Missed::Latest(runs) if !(1..=MAX_LATEST).contains(&runs) => {
                Err(Error::invalid(format!(
                    "a schedule makes up for 1 to {MAX_LATEST} of the newest missed runs, for all, or \
                 for none (skip); not for {runs}"
                )))
            }
            _ => Ok(()),
        }
    }
}
