//! Tasks as callers see them: what comes back.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tubewell_drivers::{Position, Shelf};

use crate::values::body::Coder;
use crate::values::ending::{FailureKind, LastFailure};
use crate::values::spawned_by::SpawnedBy;
use crate::{Bytes, Ending, Error, Result, TaskState};

/// The answer of an operation that changed a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the task.
    pub id: u64,
    /// The state of the task after the change.
    pub state: TaskState,
    /// The number of the commit with the change, whatever the durability of the tube. If nothing that
    /// is stored has changed, the number of the last commit that is flushed: after a release without a
    /// delay, the bury of a buried task, a put whose idempotency key was seen or that keeps the task with its
    /// key, and a change to a priority, tags or parents that the task has already. In a written or
    /// relaxed tube the commit of the task may be a later one. Temporary tubes count commits of their
    /// own.
    ///
    /// If a later run of the store opens at a lower number
    /// ([`Counters::opened_at`](crate::expert::Counters::opened_at)), the file has lost the commit. No
    /// crash does this to the receipt of a flushed change or of one in memory only, and no killed
    /// process to that of a written change.
    pub commit: u64,
}

/// A task without its body.
///
/// With the feature `serde`, its durations are objects with `secs` and `nanos`, and its moments are
/// objects with `secs_since_epoch` and `nanos_since_epoch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TaskInfo {
    /// The id of the task. Ids are unique in the store, increase, and are never reused.
    pub id: u64,
    /// The name of the tube that it is in.
    pub tube: String,
    /// Its state.
    pub state: TaskState,
    /// Its priority; 0 is the most urgent.
    pub priority: u32,
    /// Its sub-queue, if it was put with one.
    pub sub_queue: Option<String>,
    /// Its key, if it was put with one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub key: Option<String>,
    /// Its tags, in the order in which they were added.
    #[cfg_attr(feature = "serde", serde(default))]
    pub tags: Vec<String>,
    /// How many times it was taken.
    pub takes: u32,
    /// How many of these takes count as attempts: a snooze, a revoke and a kick forgive them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub attempts: u32,
    /// How many attempts it may have: its own limit, or else that of its tube as it is now; `None` without a
    /// limit. A [worker](crate::Worker::max_attempts) may limit a task that has none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_attempts: Option<u32>,
    /// How many of them are left; `None` without a limit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub attempts_left: Option<u32>,
    /// How many parents it waits for. A buried task may still have some.
    #[cfg_attr(feature = "serde", serde(default))]
    pub open_parents: u32,
    /// Its last failure, if one was recorded. A task that is done and kept still has it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub failure: Option<LastFailure>,
    /// The failure group of a buried task; `None` if it was buried without a failure.
    #[cfg_attr(feature = "serde", serde(default))]
    pub group: Option<String>,
    /// The length of its body, in bytes.
    pub size: u64,
    /// The time until its ttl elapses; `None` without a limit. Of a task that is done, how long it
    /// is still kept.
    pub ttl_left: Option<Duration>,
    /// How long a take claims it; `None` without a limit.
    pub ttr: Option<Duration>,
    /// How long one claim of it may last, if it was put with a [limit](crate::Put::max_runtime) of its own;
    /// `Duration::MAX` is without a limit. `None` for the limit of its tube.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_runtime: Option<Duration>,
    /// The time until it becomes ready by itself: until its delay has elapsed and its moment has
    /// come, as the clocks are now, or until its claim expires.
    pub due_in: Option<Duration>,
    /// Of a taken task whose claim is overdue: the time until the store takes the task back, when the
    /// [reclaim delay](crate::TubeOptions::reclaim_delay) has elapsed too. Until then its holder may still
    /// end or renew the claim. `None` for all other tasks; [`due_in`](TaskInfo::due_in) says when a claim
    /// becomes overdue.
    #[cfg_attr(feature = "serde", serde(default))]
    pub reclaimed_in: Option<Duration>,
    /// The moment of the wall clock before which it is not ready, if it has one. It may have passed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub not_before: Option<SystemTime>,
    /// What its holder reported last, of a task that is taken; see
    /// [`Claim::progress`](crate::Claim::progress).
    #[cfg_attr(feature = "serde", serde(default))]
    pub progress: Option<Progress>,
    /// Of a run of a schedule: the schedule, and which run it is.
    #[cfg_attr(feature = "serde", serde(default))]
    pub spawned_by: Option<SpawnedBy>,
    /// Whether [steps](crate::Claim::step) of the work are stored; [`Query::steps`](crate::Query::steps)
    /// returns them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub has_steps: bool,
    /// When it was put, by the wall clock as it is now. Its age is the time from then until now.
    ///
    /// Nothing that happens to the task changes this time: not a release, a bury, a kick, an
    /// [`update`](crate::Tube::update), a move to another tube, an
    /// [`advance`](crate::Outcome::advance), or a put that [replaces](crate::OnKey::Replace) the task. A
    /// put that [waits](crate::Tube::put_timeout) for space puts its task when there is some, and a
    /// schedule puts each of its runs. A [restored](crate::expert::Restore::put_at) task has the time that it is
    /// restored with.
    ///
    /// The store measures the time that has passed since the put, as for a ttl. If the wall clock is
    /// set by a second or more while the store is open, this time is set with it. Otherwise it is
    /// always the same. In the JSON of an earlier release it is missing, and then the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(default = "unix_epoch"))]
    pub put_at: SystemTime,
    /// When it was buried or done, if it is: by the wall clock as it is now, as for
    /// [`put_at`](TaskInfo::put_at). A move does not change it.
    ///
    /// `None` for a task that was buried without a failure in a tube that
    /// [keeps all buried tasks](crate::TubeOptions::keep_buried): its record has no room for it. The record of a
    /// task that is neither has no moment of the last change, which would be a write more for each take and
    /// release; its [history](crate::Query::history) has all moments, if its tube keeps one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ended_at: Option<SystemTime>,
    /// Where it belongs in a trace, if it was put with a [`traceparent`](crate::Put::traceparent).
    #[cfg_attr(feature = "serde", serde(default))]
    pub traceparent: Option<String>,
}

impl TaskInfo {
    /// How a buried task was buried: by a call, or by the end of its last attempt, or of a parent. Makes no
    /// call.
    ///
    /// `None` for a task that is not buried. Also `None` for one that was
    /// [restored](crate::expert::Restore::group) in a failure group without a failure, and for one whose
    /// failure cannot be read, which [`verify`](crate::expert::StoreAdmin::verify) reports.
    ///
    /// # Example
    /// ```
    /// use tubewell::expert::FailureKind;
    /// use tubewell::{Failure, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let spent = mails.put(Put::new("to: ann").max_attempts(1))?.id;
    /// let stopped = mails.put("to: bob")?.id;
    /// mails.claim(spent)?.fail(Failure::new("smtp", "connection refused"))?;
    /// mails.admin().bury(stopped, None)?;
    ///
    /// let buried_by = |id| Ok::<_, tubewell::Error>(mails.query().task(id)?.info.buried_by());
    /// assert_eq!(buried_by(spent)?, Some(FailureKind::Reported)); // its last attempt has failed
    /// assert_eq!(buried_by(stopped)?, Some(FailureKind::Call));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn buried_by(&self) -> Option<FailureKind> {
        match (self.state, &self.group, &self.failure) {
            // A failure that it may have is one of an earlier attempt.
            (TaskState::Buried, None, _) => Some(FailureKind::Call),
            (TaskState::Buried, Some(_), Some(failure)) => Some(failure.kind),
            _ => None,
        }
    }
}

#[cfg(feature = "serde")]
fn unix_epoch() -> SystemTime {
    SystemTime::UNIX_EPOCH
}

/// How far the work on a taken task is, as its holder reported; from
/// [`Claim::progress`](crate::Claim::progress) and
/// [`Claim::progress_text`](crate::Claim::progress_text).
///
/// # Example
/// See [`Claim::progress`](crate::Claim::progress).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Progress {
    /// How much is done, in units of the holder.
    pub done: u64,
    /// How much there is to do; 0 if the holder does not know.
    pub total: u64,
    /// What the holder is doing, in its words.
    pub text: Option<Arc<str>>,
}

impl Progress {
    /// The part that is done, from 0 to 1; `None` if the total is not known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a fraction for people")]
        let fraction = self.done as f64 / self.total as f64;
        (self.total > 0).then_some(fraction.min(1.0))
    }
}

/// `7 of 10`, or `7` if the total is not known, and the text after a colon.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.done, self.total, &self.text) {
            (0, 0, Some(text)) => return f.write_str(text),
            (done, 0, _) => write!(f, "{done}")?,
            (done, total, _) => write!(f, "{done} of {total}")?,
        }
        self.text.iter().try_for_each(|text| write!(f, ": {text}"))
    }
}

/// A task with its body.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Task<T: 'static = Bytes> {
    /// The task without its body.
    pub info: TaskInfo,
    /// The body. With the feature `serde`, it is a sequence of numbers.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_numbers"))]
    pub body: Bytes,
    /// The result with which it was acked, if it is done and its tube [keeps](crate::TubeOptions::keep_done) it. Left out if it
    /// and the body together have more than 64 MiB; [`Tube::ending`](crate::Tube::ending) returns it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub result: Option<Vec<u8>>,
    #[cfg_attr(feature = "serde", serde(skip))]
    coder: Coder<T>,
}

impl Task {
    pub(crate) fn of(info: TaskInfo, body: impl Into<Bytes>) -> Task {
        Task { info, body: body.into(), result: None, coder: Coder::BYTES }
    }

    pub(crate) fn with_result(self, result: Option<Vec<u8>>) -> Task {
        Task { result, ..self }
    }
}

impl<T> Task<T> {
    pub(crate) fn new(info: TaskInfo, body: Bytes, coder: Coder<T>) -> Task<T> {
        Task { info, body, result: None, coder }
    }

    pub(crate) fn with_coder<U>(self, coder: Coder<U>) -> Task<U> {
        Task { info: self.info, body: self.body, result: self.result, coder }
    }

    /// How it has ended, as [`Tube::ending`](crate::Tube::ending) says it: `None` if it is neither done nor buried.
    ///
    /// # Example: what was done, and what came of it
    /// ```
    /// use tubewell::{Keep, Outcome, Store, TaskState, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let sums = store.open_tube("sums", TubeOptions::new().keep_done(Keep::new()))?;
    /// sums.put("2 + 2")?;
    /// sums.try_take()?.unwrap().end(Outcome::value(&4))?;
    /// for task in sums.query().tasks(TaskState::Done, None, 100)?.items {
    ///     assert_eq!(task.body, b"2 + 2");
    ///     assert_eq!(task.ending().unwrap().value::<i32>()?, 4);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn ending(&self) -> Option<Ending> {
        match self.info.state {
            TaskState::Done => Some(Ending::Done { result: self.result.clone() }),
            TaskState::Buried => Some(Ending::Buried { failure: self.info.failure.clone() }),
            _ => None,
        }
    }

    /// The body as a value. The task stays as it is if that fails.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec): the body is no value of this type.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("numbers")?;
    /// let numbers = tube.typed::<u64>();
    /// let id = numbers.put(42)?.id;
    /// assert_eq!(numbers.query().task(id)?.value()?, 42);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn value(&self) -> Result<T> {
        let decoded = self.coder.decode(self.body.clone());
        decoded.map(|(value, _)| value).map_err(|(_, error)| match error {
            Error::Codec { what } => {
                Error::Codec { what: format!("task {}: {what}", self.info.id) }
            }
            other => other,
        })
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Task { info, body, result, .. } = self;
        let mut shown = f.debug_struct("Task");
        shown
            .field("info", info)
            .field("body", body)
            .field("result", result)
            .finish_non_exhaustive()
    }
}

impl<T> PartialEq for Task<T> {
    fn eq(&self, other: &Task<T>) -> bool {
        (&self.info, &self.body, &self.result) == (&other.info, &other.body, &other.result)
    }
}

impl<T> Eq for Task<T> {}

impl<T> Hash for Task<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.info, &self.body, &self.result).hash(state);
    }
}

#[cfg(feature = "serde")]
fn as_numbers<S: serde::Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(body.iter())
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Task {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Task, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(rename = "Task")]
        struct Parts {
            info: TaskInfo,
            body: Vec<u8>,
            #[serde(default)]
            result: Option<Vec<u8>>,
        }

        let Parts { info, body, result } = Parts::deserialize(deserializer)?;
        Ok(Task::of(info, body).with_result(result))
    }
}

/// A position in a listing, at which the next [`Page`](crate::Page) begins: of
/// [`Query::list`](crate::Query::list), [`Store::list`](crate::Store::list) or
/// [`Schedules::list`](crate::Schedules::list). It is valid for the state, the failure group or the tag of
/// whose page it is, and for one tube or for all of them.
///
/// A cursor has a text form, so that a page of tasks can have a URL. The text has at most 1577
/// characters, all of which a URL may have as they are (`A-Z a-z 0-9 - . _ ~`). It stays valid
/// after the store is reopened and after the tasks of the page are removed. A later release reads
/// the texts of earlier ones. Do not take the text apart: it may change.
///
/// The text is neither secret nor signed. Parsing any text is safe: one that is not a cursor
/// returns [`Invalid`](crate::Error::Invalid).
///
/// # Example
/// ```
/// use tubewell::{Cursor, TaskState, Store};
///
/// let store = Store::in_memory()?;
/// let tube = store.tube("jobs")?;
/// tube.put_many(["a", "b", "c"])?;
/// let page = tube.query().list(TaskState::Ready, None, 2)?;
/// let url = format!("/jobs?after={}", page.next.unwrap());
///
/// let after: Cursor = url.strip_prefix("/jobs?after=").unwrap().parse()?;
/// let page = tube.query().list(TaskState::Ready, Some(after), 2)?;
/// assert_eq!(page.items.len(), 1);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pagination")]
pub struct Cursor {
    pub(crate) position: Position,
    /// The failure group or the tag of whose pages it is; `None` if it is of the tasks in one state.
    pub(crate) of: Option<CursorOf>,
    /// The tube in which the page ends, or in which the next one begins: only of pages of all tubes, one tube after
    /// the other.
    pub(crate) tube: Option<Arc<str>>,
}

/// What the pages of a cursor list, if that is not the tasks in one state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CursorOf {
    Group(Arc<str>),
    /// The tasks with a tag, by their ids.
    Tag(Arc<str>),
    /// The delayed tasks by the moments at which they become ready: the order is that moment.
    Soonest,
}

impl Hash for Cursor {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Position { shelf, order, id, sub } = &self.position;
        (*shelf, *order, *id, sub, &self.of, &self.tube).hash(state);
    }
}

impl Cursor {
    /// The place of a task in the pages of a tag.
    pub(crate) fn of_tag(tag: Arc<str>, id: u64) -> Cursor {
        let position = Position { shelf: Shelf::Ready, order: 0, id, sub: Arc::default() };
        Cursor { position, of: Some(CursorOf::Tag(tag)), tube: None }
    }

    /// The place of a delayed task among those that become ready one after the other.
    pub(crate) fn of_soonest(moment: u64, id: u64) -> Cursor {
        let position = Position { shelf: Shelf::Delayed, order: moment, id, sub: Arc::default() };
        Cursor { position, of: Some(CursorOf::Soonest), tube: None }
    }

    /// The same place, in pages of all tubes.
    pub(crate) fn in_tube(self, name: &Arc<str>) -> Cursor {
        Cursor { tube: Some(name.clone()), ..self }
    }
}

impl From<Position> for Cursor {
    fn from(position: Position) -> Cursor {
        Cursor { position, of: None, tube: None }
    }
}
