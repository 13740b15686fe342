//! Tasks as callers see them: what is put, and what comes back.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tubewell_drivers::{Position, Shelf};

use crate::{LastFailure, OnKey, OnParent, SpawnedBy};

/// The state of a task.
///
/// Its text is the name of the state: `ready`, `taken`, `delayed`, `blocked`, `buried`, `done` or
/// `recurring`.
///
/// # Example
/// ```
/// use tubewell::State;
///
/// assert_eq!(State::Buried.to_string(), "buried");
/// assert_eq!("buried".parse(), Ok(State::Buried));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the states of the reference, all of them")]
pub enum State {
    /// May be taken.
    Ready,
    /// Claimed by a session.
    Taken,
    /// Becomes ready by itself when its delay elapses.
    Delayed,
    /// Waits for its parents: it becomes ready, or delayed, when the last of them is done.
    #[doc(alias = "dependency")]
    Blocked,
    /// Set aside, as in a dead letter queue, until it is kicked or deleted, or its ttl elapses.
    #[doc(alias = "dead letter")]
    Buried,
    /// A schedule: it puts tasks, its runs, and is never taken itself. See
    /// [`Tube::schedule`](crate::Tube::schedule).
    #[doc(alias = "cron")]
    Recurring,
    /// Over: acked, deleted or expired. A stored task has this state only in a tube that
    /// [keeps](crate::TubeOptions::keep_done) what is done.
    Done,
}

impl State {
    /// The state of a stored task that is not taken.
    pub(crate) fn on_shelf(shelf: Shelf) -> State {
        match shelf {
            Shelf::Ready => State::Ready,
            Shelf::Delayed => State::Delayed,
            Shelf::Buried => State::Buried,
            Shelf::Blocked => State::Blocked,
            Shelf::Done => State::Done,
            Shelf::Recurring => State::Recurring,
        }
    }

    /// The part of its tube in which the row of such a task is. A taken task's row stays where it
    /// was.
    pub(crate) fn shelf(self) -> Shelf {
        match self {
            State::Ready | State::Taken => Shelf::Ready,
            State::Delayed => Shelf::Delayed,
            State::Buried => Shelf::Buried,
            State::Blocked => Shelf::Blocked,
            State::Done => Shelf::Done,
            State::Recurring => Shelf::Recurring,
        }
    }

    /// The name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Taken => "taken",
            State::Delayed => "delayed",
            State::Blocked => "blocked",
            State::Buried => "buried",
            State::Done => "done",
            State::Recurring => "recurring",
        }
    }

    /// The state as one character, as in Tarantool's queue; `#` for a blocked task and `*` for a
    /// schedule, which it does not have.
    #[must_use]
    pub fn as_char(self) -> char {
        match self {
            State::Ready => 'r',
            State::Taken => 't',
            State::Delayed => '~',
            State::Blocked => '#',
            State::Buried => '!',
            State::Done => '-',
            State::Recurring => '*',
        }
    }
}

/// How long the [`token`](Put::token) of a put is remembered: an hour.
pub const TOKEN_TIME: Duration = Duration::from_micros(tubewell_drivers::TOKEN_TIME);

/// A task to be put: its body and its options.
///
/// A put returns [`Unsupported`](crate::Error::Unsupported) if the driver of the tube does not have
/// one of the options. Times are rounded up to microseconds.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::Put;
///
/// let urgent = Put::new("resize cat.jpg").pri(0).ttr(Duration::from_secs(30));
/// let polite = Put::new("GET /").sub_queue("example.org");
/// # let _ = (urgent, polite);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a task is not stored until it is put"]
pub struct Put {
    pub(crate) body: Vec<u8>,
    pub(crate) pri: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) not_before: Option<SystemTime>,
    pub(crate) sub_queue: Option<String>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) key: Option<String>,
    pub(crate) on_key: OnKey,
    pub(crate) token: Option<Box<str>>,
    pub(crate) tags: Vec<String>,
    pub(crate) after: Option<Box<After>>,
}

/// The parents of a task to be put: ids by the names of tubes, and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct After {
    pub(crate) parents: Vec<(Arc<str>, Vec<u64>)>,
    /// Parents by their keys.
    pub(crate) keys: Vec<String>,
    pub(crate) on_parent: OnParent,
}

impl After {
    /// Whether it says for which tasks to wait, possibly for none.
    pub(crate) fn names_parents(&self) -> bool {
        !(self.parents.is_empty() && self.keys.is_empty())
    }
}

impl Put {
    /// A task with this body, and the options of its tube.
    pub fn new(body: impl Into<Vec<u8>>) -> Put {
        Put { body: body.into(), ..Put::default() }
    }

    /// The priority; 0 is the most urgent. Default: that of the tube. Timed drivers only.
    #[doc(alias = "priority")]
    pub fn pri(mut self, pri: u32) -> Put {
        self.pri = Some(pri);
        self
    }

    /// Time to live: how long until the task expires and is removed, whatever its state. The delay
    /// is added to it. Default: that of the tube. `Duration::MAX` is without a limit. Timed
    /// drivers only.
    #[doc(alias = "time to live")]
    #[doc(alias = "expiration")]
    pub fn ttl(mut self, ttl: Duration) -> Put {
        self.ttl = Some(ttl);
        self
    }

    /// Time to run, also called visibility timeout: how long a take claims the task before it is
    /// ready again. Default: that of the tube. `Duration::MAX` is without a limit; with zero, a
    /// claim expires immediately. Timed drivers only.
    #[doc(alias = "time to run")]
    #[doc(alias = "visibility timeout")]
    #[doc(alias = "lease")]
    pub fn ttr(mut self, ttr: Duration) -> Put {
        self.ttr = Some(ttr);
        self
    }

    /// How long until the task is ready. Default: zero. Timed drivers only.
    #[doc(alias = "schedule")]
    #[doc(alias = "eta")]
    pub fn delay(mut self, delay: Duration) -> Put {
        self.delay = delay;
        self
    }

    /// The moment of the wall clock before which the task is not ready. Default: none. Timed drivers
    /// only. Rounded up to microseconds.
    ///
    /// The task is delayed until the wall clock shows this moment, or a later one, and until its
    /// [`delay`](Put::delay) has elapsed. A moment that has passed delays nothing; one before 1970 is
    /// that of 1970, and one after the year 586,000 never comes.
    ///
    /// The moment stays with the task: a bury and a kick, a release, and the end of its parents do not
    /// make it ready before. It is not converted to a delay: if the wall clock is set, the machine is
    /// suspended or the store is closed, the task is ready when the wall clock shows the moment. An
    /// open store notices within 30 seconds that its clock was set, or that the machine was suspended.
    /// A task that is ready stays ready if the clock is set back. A wall clock that is further ahead
    /// of the store's time than
    /// [`wall_clock_limit`](crate::StoreOptions::wall_clock_limit) is not followed.
    ///
    /// The [`ttl`](Put::ttl) counts from the moment, as it counts from the end of a delay.
    ///
    /// # Example: a mail for nine o'clock
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tubewell::{FIFOTTL, ManualClock, Put, State, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new(); // 2026-01-01 00:00:00 UTC
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let mails = store.create_tube("mails", FIFOTTL, TubeOptions::new())?;
    /// let nine = UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 9 * 3600);
    /// let mail = mails.put(Put::new("to: ann").not_before(nine))?;
    /// assert_eq!(mail.state, State::Delayed);
    ///
    /// // The clock is set forward by eight hours: there is one left.
    /// clock.set_wall(Duration::from_secs(1_767_225_600 + 8 * 3600));
    /// clock.advance(Duration::from_secs(3599));
    /// assert!(mails.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(mails.try_take()?.is_some());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "schedule")]
    #[doc(alias = "eta")]
    #[doc(alias = "run_at")]
    pub fn not_before(mut self, moment: SystemTime) -> Put {
        self.not_before = Some(moment);
        self
    }

    /// The sub-queue: at most one task of a sub-queue is taken at a time. Default: none. Drivers
    /// with sub-queues.
    #[doc(alias = "message group")]
    #[doc(alias = "concurrency key")]
    pub fn sub_queue(mut self, name: impl Into<String>) -> Put {
        self.sub_queue = Some(name.into());
        self
    }

    /// How often the task is attempted before it is buried. Default: that of the tube. Above zero.
    /// See [`TubeOptions::max_attempts`](crate::TubeOptions::max_attempts).
    #[doc(alias = "retries")]
    pub fn max_attempts(mut self, limit: u32) -> Put {
        self.max_attempts = Some(limit);
        self
    }

    /// A parent of the task, by its [`key`](Put::key): the task is blocked until that task is done. May
    /// be called several times, and besides [`after`](Put::after).
    ///
    /// A task that is done and kept has its key, and is not waited for. The put returns
    /// [`KeyNotFound`](crate::Error::KeyNotFound) for a key that no task has.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Put, State, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// jobs.put(Put::new("fetch").key("fetch 7"))?;
    /// assert_eq!(jobs.put(Put::new("parse").after_key("fetch 7"))?.state, State::Blocked);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn after_key(mut self, key: impl Into<String>) -> Put {
        self.after.get_or_insert_default().keys.push(key.into());
        self
    }

    /// What happens to the task when a parent is buried or removed. Default: [`OnParent::Wait`].
    pub fn on_parent(mut self, rule: OnParent) -> Put {
        if rule != OnParent::Wait || self.after.is_some() {
            self.after.get_or_insert_default().on_parent = rule;
        }
        self
    }

    /// The key: a name of 1 to 4096 bytes that no other task of the store has, in any tube. Default:
    /// none. [`on_key`](Put::on_key) says what happens if a task has it already.
    ///
    /// With the key of a request or of an event, the same put can be repeated after an error or a
    /// crash, and the task is there once (idempotent). [`Store::by_key`](crate::Store::by_key) finds
    /// the task. The key is free again when the task is removed: acked and not kept, deleted,
    /// expired, or forgotten. With a [`token`](Put::token) a put can be repeated for an hour, also when
    /// its task is removed.
    ///
    /// # Example
    /// See [`OnKey`].
    #[doc(alias = "unique")]
    #[doc(alias = "deduplication")]
    #[doc(alias = "idempotency key")]
    pub fn key(mut self, key: impl Into<String>) -> Put {
        self.key = Some(key.into());
        self
    }

    /// What the put does if another task has its [`key`](Put::key). Default: [`OnKey::Reject`].
    #[doc(alias = "upsert")]
    pub fn on_key(mut self, on_key: OnKey) -> Put {
        self.on_key = on_key;
        self
    }

    /// A token of the caller's, with which this put can be made again. Default: none. A text of 1 to
    /// 64 bytes, such as a random UUID, which the caller makes once for each task.
    ///
    /// A caller may not know the outcome of a put: its process was killed, or the put returned
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown). It makes the put again, with the same token.
    /// If the first put has taken place within the last hour ([`TOKEN_TIME`](crate::TOKEN_TIME)),
    /// the second one puts nothing, is not counted and has no event. Its receipt has the id of the
    /// first task, and the state of this task as it is now: [`Done`](State::Done) if it has left the
    /// tube, acked, deleted, expired or moved. So the put is idempotent: the task is put exactly
    /// once, in any number of attempts within the hour.
    ///
    /// The token is that of the *put*, and a [`key`](Put::key) that of the *task*. A key is in use as
    /// long as its task is stored, and another task can have it afterwards. A token is remembered for
    /// an hour, whatever becomes of the task, and then forgotten. A put may have both, and its token
    /// counts first.
    ///
    /// * Tokens are of a tube: the same token in another tube is another one. `truncate` and
    ///   `drop_tube` forget those of the tube.
    /// * The token is stored in the commit of the task: a crash keeps or loses both, as the
    ///   [`Durability`](crate::Durability) of the tube says. The hour is measured on the timeline,
    ///   which goes on while the store is closed.
    /// * A put that is refused remembers nothing, and neither does one that
    ///   [keeps](OnKey::Keep) the task with its key. A put that replaces a task remembers its token.
    ///   One that waits for space remembers it when it is admitted.
    /// * The contents are not compared, unlike those of Stripe's requests: a put with other contents
    ///   and the same token puts nothing.
    /// * The same token twice in one [`put_many`](crate::Tube::put_many) or
    ///   [`finish`](crate::Claim::finish) is one put. [`requeue`](crate::Tube::requeue),
    ///   [`spawn`](crate::Claim::spawn), [`put_and_wait`](crate::Tube::put_and_wait) and deferred puts
    ///   have tokens, too. [`Invalid`](crate::Error::Invalid) for the task of an
    ///   [`advance`](crate::Claim::advance), of a schedule, of a
    ///   [`restore_many`](crate::Tube::restore_many), and of a transaction of the application.
    /// * Tokens are not exported, and `salvage` does not restore them. `backup` and `compact` keep
    ///   them.
    ///
    /// A token costs the put two rows, which a later put with a token removes after the hour.
    ///
    /// Stripe calls this an [idempotency key](https://docs.stripe.com/api/idempotent_requests), which
    /// it remembers for at least 24 hours. Amazon SQS calls it a [deduplication
    /// id](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html),
    /// which a FIFO queue remembers for 5 minutes.
    ///
    /// # Example: a put that is made again
    /// ```
    /// use tubewell::{FIFO, Put, State, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.create_tube("mails", FIFO, TubeOptions::new())?;
    /// let put = || Put::new("to: ann").token("8d0f5a3c-1b5e-4a57-9d0a-3f4c2f0a7e11");
    /// let first = mails.put(put())?;
    /// assert_eq!(mails.put(put())?.id, first.id); // puts nothing
    ///
    /// mails.try_take()?.unwrap().ack()?;
    /// let again = mails.put(put())?;
    /// assert_eq!((again.id, again.state), (first.id, State::Done));
    /// assert!(mails.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "idempotency key")]
    #[doc(alias = "idempotent")]
    #[doc(alias = "deduplication")]
    #[doc(alias = "retry")]
    pub fn token(mut self, token: impl Into<String>) -> Put {
        self.token = Some(token.into().into_boxed_str());
        self
    }

    /// A tag: a label of 1 to 255 bytes by which the task is found. Default: none. May be called
    /// several times, for up to 32 tags; a tag that is named again is there once.
    ///
    /// [`Store::list`](crate::Store::list) lists the tasks with a tag, in any tube, and
    /// [`Store::tags`](crate::Store::tags) the tags that are used most. The tags of a task are in the
    /// order in which they were added. They stay with it when it is moved, passed on, buried, or kept as
    /// done. Each tag costs the put two more rows.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Filter, Put, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.create_tube("mails", FIFO, TubeOptions::new())?;
    /// let id = mails.put(Put::new("to: ann").tag("newsletter").tag("ann"))?.id;
    /// assert_eq!(mails.peek(id)?.info.tags, ["newsletter", "ann"]);
    /// assert_eq!(store.list(Filter::new().tag("ann"), None, 10)?.items[0].id, id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn tag(mut self, tag: impl Into<String>) -> Put {
        self.tags.push(tag.into());
        self
    }
}

impl From<&str> for Put {
    fn from(body: &str) -> Put {
        Put::new(body)
    }
}

impl From<String> for Put {
    fn from(body: String) -> Put {
        Put::new(body)
    }
}

impl From<Vec<u8>> for Put {
    fn from(body: Vec<u8>) -> Put {
        Put::new(body)
    }
}

impl From<&[u8]> for Put {
    fn from(body: &[u8]) -> Put {
        Put::new(body)
    }
}

impl<const N: usize> From<&[u8; N]> for Put {
    fn from(body: &[u8; N]) -> Put {
        Put::new(body.as_slice())
    }
}

/// The answer of an operation that changed a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the task.
    pub id: u64,
    /// The state of the task after the change.
    pub state: State,
    /// The number of the commit with the change, whatever the durability of the tube. If nothing that
    /// is stored has changed, the number of the last commit that is flushed: after a release without a
    /// delay, the bury of a buried task, a put whose token was seen or that keeps the task with its
    /// key, and a change to a priority, tags or parents that the task has already. In a written or
    /// relaxed tube the commit of the task may be a later one. Temporary tubes count commits of their
    /// own.
    ///
    /// If a later run of the store opens at a lower number
    /// ([`Counters::opened_at`](crate::Counters::opened_at)), the file has lost the commit. No
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
    pub state: State,
    /// Its priority; 0 is the most urgent.
    pub pri: u32,
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
    /// How many attempts are left; `None` without a limit.
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
    /// The time until it becomes ready by itself: until its delay has elapsed and its moment has
    /// come, as the clocks are now, or until its claim expires.
    pub due_in: Option<Duration>,
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
    /// Whether [steps](crate::Claim::step) of the work are stored; [`Tube::steps`](crate::Tube::steps)
    /// returns them.
    #[cfg_attr(feature = "serde", serde(default))]
    pub has_steps: bool,
    /// When it was put, by the wall clock as it is now. Its age is the time from then until now.
    ///
    /// Nothing that happens to the task changes this time: not a release, a bury, a kick, an
    /// [`update`](crate::Tube::update), a move to another tube, an
    /// [`advance`](crate::Claim::advance), or a put that [replaces](crate::OnKey::Replace) the task. A
    /// put that [waits](crate::Tube::put_wait) for space puts its task when there is some, and a
    /// schedule puts each of its runs. A [restored](crate::Restore::put_at) task has the time that it is
    /// restored with.
    ///
    /// The store measures the time that has passed since the put, as for a ttl. If the wall clock is
    /// set by a second or more while the store is open, this time is set with it. Otherwise it is
    /// always the same. In the JSON of an earlier release it is missing, and then the beginning of 1970.
    #[cfg_attr(feature = "serde", serde(default = "unix_epoch"))]
    pub put_at: SystemTime,
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Task {
    /// The task without its body.
    pub info: TaskInfo,
    /// The body. With the feature `serde`, it is a sequence of numbers.
    pub data: Vec<u8>,
}

/// A position in a listing, at which the next [`Page`](crate::Page) begins: of [`Tube::list`](crate::Tube::list),
/// [`Store::list`](crate::Store::list) or [`Tube::schedules`](crate::Tube::schedules). It is valid for the
/// state, the failure group or the tag of whose page it is.
///
/// A cursor has a text form, so that a page of tasks can have a URL. The text has at most 809
/// characters, all of which a URL may have as they are (`A-Z a-z 0-9 - . _ ~`). It stays valid
/// after the store is reopened and after the tasks of the page are removed. A later release reads
/// the texts of earlier ones. Do not take the text apart: it may change.
///
/// The text is neither secret nor signed. Parsing any text is safe: one that is not a cursor
/// returns [`Invalid`](crate::Error::Invalid).
///
/// # Example
/// ```
/// use tubewell::{Cursor, FIFO, State, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
/// tube.put_many(["a", "b", "c"])?;
/// let page = tube.list(State::Ready, None, 2)?;
/// let url = format!("/jobs?after={}", page.next.unwrap());
///
/// let after: Cursor = url.strip_prefix("/jobs?after=").unwrap().parse()?;
/// let page = tube.list(State::Ready, Some(after), 2)?;
/// assert_eq!(page.items.len(), 1);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pagination")]
pub struct Cursor {
    pub(crate) position: Position,
    /// The failure group or the tag of whose pages it is; `None` if it is of the tasks in one state.
    pub(crate) of: Option<CursorOf>,
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
        (*shelf, *order, *id, sub, &self.of).hash(state);
    }
}

impl Cursor {
    /// The place of a task in the pages of a tag.
    pub(crate) fn of_tag(tag: Arc<str>, id: u64) -> Cursor {
        let position = Position { shelf: Shelf::Ready, order: 0, id, sub: Arc::default() };
        Cursor { position, of: Some(CursorOf::Tag(tag)) }
    }

    /// The place of a delayed task among those that become ready one after the other.
    pub(crate) fn of_soonest(moment: u64, id: u64) -> Cursor {
        let position = Position { shelf: Shelf::Delayed, order: moment, id, sub: Arc::default() };
        Cursor { position, of: Some(CursorOf::Soonest) }
    }
}

impl From<Position> for Cursor {
    fn from(position: Position) -> Cursor {
        Cursor { position, of: None }
    }
}
