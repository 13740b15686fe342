//! Schedules: tasks that are put again and again.

use std::time::{Duration, SystemTime};

use crate::{Error, Result};

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
    /// None. A run that is up to a minute late is still put.
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

/// A schedule: its key, when its runs are, and what happens to runs that are late.
///
/// [`Tube::schedule`](crate::Tube::schedule) stores it, with the task that each of its runs puts. What it does
/// not name has its default then, also if the schedule is stored already.
/// [`Schedules::change`](crate::Schedules::change) keeps what it does not name.
///
/// The key is a name of 1 to 4071 bytes that no other task and no other schedule of the store has. Each run
/// is a task of its own, with the key of the schedule, a hyphen and the number of the run as its key:
/// `report-1`. If another task has that key, the run has none.
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
/// jobs.schedule(Schedule::every("report", day).starting(three), "report")?;
/// let tidy = Schedule::every("tidy", Duration::from_secs(600)).overlap(Overlap::Skip);
/// jobs.schedule(tidy, Put::new("tidy").max_attempts(3))?;
///
/// clock.advance(Duration::from_secs(3 * 3600));
/// let tasks = jobs.take_many(10, Duration::ZERO)?;
/// let keys: Vec<_> = tasks.iter().filter_map(|task| task.key()).collect();
/// assert_eq!(keys, ["tidy-1", "report-1"]); // The first clean-up is not over.
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a schedule does nothing until `Tube::schedule` or `Schedules::change` is given it"]
#[doc(alias = "cron")]
#[doc(alias = "periodic")]
pub struct Schedule {
    pub(crate) key: String,
    pub(crate) recurrence: Option<Recurrence>,
    pub(crate) starting: Option<SystemTime>,
    pub(crate) times: Option<Option<u64>>,
    pub(crate) missed: Option<Missed>,
    pub(crate) within: Option<Option<Duration>>,
    pub(crate) overlap: Option<Overlap>,
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
    ///
    /// A changed interval counts from the moment of the last run that was due. Moments that have passed by
    /// then are missed runs, for which [`missed`](Schedule::missed) holds. If no run was due yet, the first one
    /// stays where it is. A run that waits for space stays, too.
    #[doc(alias = "interval")]
    pub fn every(key: impl Into<String>, interval: Duration) -> Schedule {
        Schedule { recurrence: Some(Recurrence::Every(interval)), ..Schedule::of(key) }
    }

    /// Runs at the moments that a cron expression names, in a time zone: `"0 9 * * 1-5"` in
    /// `"Europe/Berlin"` is nine o'clock in Berlin from Monday to Friday.
    ///
    /// The expression has five fields: minute, hour, day of the month, month, day of the week (0 or 7
    /// is Sunday). With six fields, the first one is the second. If both days are restricted, a day
    /// needs to match one of them. [`Tube::schedule`](crate::Tube::schedule) refuses an expression or
    /// a time zone that it does not know. The time zones are those of the operating system (on most Linux
    /// systems the package `tzdata`).
    ///
    /// The moments go by the wall clock, as [`Put::not_before`](crate::Put::not_before) does. When the
    /// clocks go forward, a run in the hour or the day that is left out comes right after it. When they go
    /// back, a run in the hour that comes twice is there once. An expression with a wildcard or a step in
    /// the field of the second, the minute or the hour is an interval: it has no run in the hour that is left
    /// out, and its runs are in both hours of the same name. An open store notices within 30 seconds that its
    /// clock was set.
    ///
    /// A changed expression holds from now on. A run that is due and waits for space keeps its moment.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Schedule, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.schedule(Schedule::cron("report", "0 9 * * 1-5", "UTC"), "report")?;
    /// assert!(jobs.schedule(Schedule::cron("x", "61 * * * *", "UTC"), "x").is_err());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[cfg(feature = "cron")]
    #[cfg_attr(docsrs, doc(cfg(feature = "cron")))]
    pub fn cron(
        key: impl Into<String>,
        expression: impl Into<String>,
        zone: impl Into<String>,
    ) -> Schedule {
        let (expression, zone) = (expression.into(), zone.into());
        let recurrence = Recurrence::Cron { expression, zone };
        Schedule { recurrence: Some(recurrence), ..Schedule::of(key) }
    }

    /// Names the schedule with this key, and nothing to change: for
    /// [`Schedules::change`](crate::Schedules::change). The other methods name what changes.
    /// [`Tube::schedule`](crate::Tube::schedule) refuses it, since it does not say when the runs are.
    pub fn of(key: impl Into<String>) -> Schedule {
        Schedule {
            key: key.into(),
            recurrence: None,
            starting: None,
            times: None,
            missed: None,
            within: None,
            overlap: None,
            restored: None,
        }
    }

    /// The moment of the first run, by the wall clock as it is when the schedule is stored. Default:
    /// now, and for a cron expression the next moment that it names.
    ///
    /// If it has passed, the runs are where they would be if the schedule had begun then, and the first
    /// one is the next of them. [`Tube::schedule`](crate::Tube::schedule) of a schedule that is stored
    /// already keeps its moments; [`change`](crate::Schedules::change) takes this moment for the next run.
    #[doc(alias = "offset")]
    pub fn starting(mut self, moment: SystemTime) -> Schedule {
        self.starting = Some(moment);
        self
    }

    /// After how many runs the schedule ends, with those that it has put already; `None`, the default, for
    /// never. Above zero. Runs that are left out do not count. A schedule that has ended is removed, and
    /// its key is free.
    pub fn times(mut self, runs: impl Into<Option<u64>>) -> Schedule {
        self.times = Some(runs.into());
        self
    }

    /// Which missed runs are made up for. Default: [`Missed::Latest(1)`](Missed::Latest).
    #[doc(alias = "catch up")]
    #[doc(alias = "misfire")]
    pub fn missed(mut self, missed: Missed) -> Schedule {
        self.missed = Some(missed);
        self
    }

    /// How late a run may be. A later run is left out. `None`, the default, is no limit.
    #[doc(alias = "grace")]
    pub fn within(mut self, time: impl Into<Option<Duration>>) -> Schedule {
        self.within = Some(time.into());
        self
    }

    /// What happens if the last run is not over when the next one is due. Default:
    /// [`Overlap::Allow`].
    pub fn overlap(mut self, overlap: Overlap) -> Schedule {
        self.overlap = Some(overlap);
        self
    }

    /// Marks it as a schedule of another store, to be put back as it was: with its id there, if that is
    /// to stay, and its counts of runs and of skipped runs. Default: it is a new one. Only for
    /// [`Tube::schedule`](crate::Tube::schedule).
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
    /// let hourly = Schedule::every("hourly", Duration::from_secs(3600));
    /// jobs.schedule(hourly.restored(17, 4, 1), "tick")?;
    /// let stored = jobs.schedules().get("hourly")?.unwrap();
    /// assert_eq!((stored.id, stored.runs, stored.skipped), (17, 4, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn restored(mut self, id: impl Into<Option<u64>>, runs: u64, skipped: u64) -> Schedule {
        self.restored = Some(Restored { id: id.into(), runs, skipped });
        self
    }
}

/// The schedule with this key, as [`Schedule::of`] names it.
impl From<&str> for Schedule {
    fn from(key: &str) -> Schedule {
        Schedule::of(key)
    }
}

/// A stored schedule; from [`Schedules::get`](crate::Schedules::get) and
/// [`Schedules::list`](crate::Schedules::list).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// The id of the schedule. It is one of a task: [`task`](crate::Query::task) returns what the runs
    /// have as their body.
    pub id: u64,
    /// The tube that has it, and into which it puts its runs.
    pub tube: String,
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
    /// How long one claim of a run may last; `None` for the limit of the tube, and `Duration::MAX` without one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_runtime: Option<Duration>,
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
