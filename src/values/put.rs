//! A task to be put.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::values::body::Coder;
use crate::{Bytes, OnKey, OnParent, Result};

/// How long the [`idempotency_key`](Put::idempotency_key) of a put is remembered by default: an hour.
pub const IDEMPOTENCY_KEY_TIME: Duration =
    Duration::from_micros(tubewell_drivers::IDEMPOTENCY_KEY_TIME);

/// The priority of tasks without one, in tubes [without one](crate::TubeOptions::priority): 100. There are
/// 100 more urgent priorities, from 0 to 99, and 4 billion less urgent ones.
pub const DEFAULT_PRIORITY: u32 = tubewell_drivers::DEFAULT_PRIORITY;

/// How long an idempotency key is remembered at most ([`Put::unique_for`]): 366 days.
pub const MAX_IDEMPOTENCY_KEY_TIME: Duration =
    Duration::from_micros(tubewell_drivers::IDEMPOTENCY_KEY_TIME_MAX);

/// A task to be put: its body, as it was given, and its options.
///
/// The body is a value of the tube's type, by value or by reference; for a tube of [`Bytes`] also
/// text and bytes. [`Tube::put`](crate::Tube::put) encodes it.
///
/// A put returns [`Unsupported`](crate::Error::Unsupported) if the driver of the tube does not have
/// one of the options. Times are rounded up to microseconds.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::Put;
///
/// let urgent = Put::new("resize cat.jpg").priority(0).ttr(Duration::from_secs(30));
/// let polite = Put::new("GET /").sub_queue("example.org");
/// # let _ = (urgent, polite);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a task is not stored until it is put"]
pub struct Put<B = Bytes> {
    pub(crate) body: B,
    pub(crate) options: PutOptions,
}

/// A task with its body as bytes: what is stored.
pub(crate) type Encoded = Put<Vec<u8>>;

/// All functions before the puts of a handle, as one.
pub(crate) type BeforePut = Arc<dyn Fn(Encoded) -> Result<Encoded> + Send + Sync>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PutOptions {
    pub(crate) priority: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) delay: Duration,
    pub(crate) not_before: Option<SystemTime>,
    pub(crate) sub_queue: Option<String>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_runtime: Option<Duration>,
    pub(crate) key: Option<String>,
    pub(crate) on_key: OnKey,
    pub(crate) idempotency_key: Option<Box<str>>,
    pub(crate) unique_for: Option<Duration>,
    pub(crate) traceparent: Option<Box<str>>,
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

impl<B> Put<B> {
    /// A task with this body, and the options of its tube.
    pub fn new(body: B) -> Put<B> {
        Put { body, options: PutOptions::default() }
    }

    /// A task with these options and another body, made of this one: for a function [before a
    /// put](crate::Tube::before_put) that compresses bodies.
    #[inline]
    pub fn map<C>(self, body: impl FnOnce(B) -> C) -> Put<C> {
        Put { body: body(self.body), options: self.options }
    }

    /// The body. This and the next three are for a function [before a put](crate::Tube::before_put), which sees it encoded:
    /// an empty string of a tube with JSON has two bytes.
    pub fn get_body(&self) -> &B {
        &self.body
    }

    /// The [key](Put::key), if it was given one. The task that a [`requeue`](crate::Tube::requeue) names by its key
    /// needs none.
    #[must_use]
    pub fn get_key(&self) -> Option<&str> {
        self.options.key.as_deref()
    }

    /// The [tags](Put::tag), in the order in which they were given.
    #[must_use]
    pub fn get_tags(&self) -> &[String] {
        &self.options.tags
    }

    /// The [idempotency key](Put::idempotency_key), if it was given one.
    #[must_use]
    pub fn get_idempotency_key(&self) -> Option<&str> {
        self.options.idempotency_key.as_deref()
    }

    /// Its [place in a trace](Put::traceparent), if it was given one.
    #[must_use]
    pub fn get_traceparent(&self) -> Option<&str> {
        self.options.traceparent.as_deref()
    }

    #[inline]
    fn try_map<C>(self, body: impl FnOnce(B) -> Result<C>) -> Result<Put<C>> {
        Ok(Put { body: body(self.body)?, options: self.options })
    }

    /// The priority; 0 is the most urgent. Default: that of the tube, which is
    /// [`DEFAULT_PRIORITY`], 100, if [nothing else](crate::TubeOptions::priority) was said. Timed drivers
    /// only.
    pub fn priority(mut self, priority: u32) -> Put<B> {
        self.options.priority = Some(priority);
        self
    }

    /// Time to live: how long until the task expires and is removed, whatever its state. The delay
    /// is added to it. Default: that of the tube. `Duration::MAX` is without a limit. Timed
    /// drivers only.
    #[doc(alias = "time to live")]
    #[doc(alias = "expiration")]
    pub fn ttl(mut self, ttl: Duration) -> Put<B> {
        self.options.ttl = Some(ttl);
        self
    }

    /// Time to run, also called visibility timeout: how long a take claims the task before it is
    /// ready again. Default: that of the tube. `Duration::MAX` is without a limit; with zero, a
    /// claim expires immediately. Timed drivers only.
    #[doc(alias = "time to run")]
    #[doc(alias = "visibility timeout")]
    #[doc(alias = "lease")]
    pub fn ttr(mut self, ttr: Duration) -> Put<B> {
        self.options.ttr = Some(ttr);
        self
    }

    /// How long until the task is ready. Default: zero. Timed drivers only.
    #[doc(alias = "schedule")]
    #[doc(alias = "eta")]
    pub fn delay(mut self, delay: Duration) -> Put<B> {
        self.options.delay = delay;
        self
    }

    /// The moment of the wall clock before which the task is not ready. Default: none. Timed drivers
    /// only. Rounded up to microseconds.
    ///
    /// The task is delayed until the wall clock shows this moment, or a later one, and until its
    /// [`delay`](Put::delay) has elapsed. A moment that has passed delays nothing. A moment before 1970
    /// counts as 1970, and a moment after the year 586,000 never comes.
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
    /// use tubewell::{ManualClock, Put, TaskState, Store};
    ///
    /// let clock = ManualClock::new(); // 2026-01-01 00:00:00 UTC
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let nine = UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 9 * 3600);
    /// let mail = mails.put(Put::new("to: ann").not_before(nine))?;
    /// assert_eq!(mail.state, TaskState::Delayed);
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
    pub fn not_before(mut self, moment: SystemTime) -> Put<B> {
        self.options.not_before = Some(moment);
        self
    }

    /// The sub-queue: at most one task of a sub-queue is taken at a time. Default: none. Drivers
    /// with sub-queues.
    #[doc(alias = "message group")]
    #[doc(alias = "concurrency key")]
    pub fn sub_queue(mut self, name: impl Into<String>) -> Put<B> {
        self.options.sub_queue = Some(name.into());
        self
    }

    /// How often the task is attempted before it is buried. Default: that of the tube. Above zero.
    /// See [`TubeOptions::max_attempts`](crate::TubeOptions::max_attempts).
    #[doc(alias = "retries")]
    pub fn max_attempts(mut self, limit: u32) -> Put<B> {
        self.options.max_attempts = Some(limit);
        self
    }

    /// The longest time that one claim of the task may last, from the take on. Default: that of the tube
    /// ([`TubeOptions::max_runtime`](crate::TubeOptions::max_runtime)), which it overrides, whichever is longer.
    /// `Duration::MAX` is without a limit. Above zero, rounded up to microseconds. Timed drivers only.
    ///
    /// Renew, touch and checkpoint do not extend a claim beyond it. When it has elapsed, the claim ends as by the
    /// ttr: the attempt counts. A worker has the shorter of this and [its own
    /// limit](crate::Worker::max_runtime): the future of an async handler is dropped, and a handler on a thread is
    /// told. The limit stays with the task: it holds for each attempt, and after a move and a restart. A task with
    /// a limit of its own has some bytes more; no row.
    ///
    /// # Example: a long film in a tube of short ones
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let films = store.open_tube("films", TubeOptions::new().max_runtime(Duration::from_secs(60)))?;
    /// films.put(Put::new("long.mp4").max_runtime(Duration::from_secs(3600)))?;
    /// let film = films.try_take()?.unwrap();
    /// film.renew(Duration::MAX)?;
    /// assert_eq!(film.expires_in()?, Some(Duration::from_secs(3600)));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "timeout")]
    #[doc(alias = "time limit")]
    pub fn max_runtime(mut self, most: Duration) -> Put<B> {
        self.options.max_runtime = Some(most);
        self
    }

    /// Where the task belongs in a distributed trace: a `traceparent` of [W3C trace
    /// context](https://www.w3.org/TR/trace-context/#traceparent-header), version 00. Default: none, and with the
    /// feature `tracing` that of the span of the put, if [`set_propagation`] says what it is.
    ///
    /// A worker, of this process or of another one, reads it from [`Claim::traceparent`](crate::Claim::traceparent), and
    /// begins its span as a child of it or with a link to it. So do programs in other languages, through HTTP. The
    /// store does not interpret it; [`TaskInfo::traceparent`](crate::TaskInfo::traceparent) shows it.
    ///
    /// The text is `00-`, a trace id of 32 hex digits, `-`, a span id of 16 hex digits, `-` and flags of 2 hex digits,
    /// in lower case. The put returns [`Invalid`](crate::Error::Invalid) for any other text, and for an id that is all
    /// zeros: nothing is put. The runs of a [schedule](crate::Tube::schedule) have none, and the task of a schedule is
    /// refused with one.
    ///
    /// It is stored with the task, in 25 to 30 bytes of its record, and survives what the task survives. It
    /// stays with the task when it is released, kicked, moved, kept as done, exported or passed on: an
    /// [`advance`](crate::Outcome::advance) changes it only to one that its put names. A put that
    /// [replaces](OnKey::Replace) the task replaces it too, also by none.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let here = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"; // the header of a request
    /// mails.put(Put::new("to: ann").traceparent(here))?;
    /// assert_eq!(mails.take()?.traceparent().as_deref(), Some(here));
    ///
    /// let refused = mails.put(Put::new("to: bob").traceparent("4bf92f35"));
    /// assert!(matches!(refused, Err(Error::Invalid { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// [`set_propagation`]: https://docs.rs/tubewell/latest/tubewell/tracing/fn.set_propagation.html
    #[doc(alias = "trace")]
    #[doc(alias = "opentelemetry")]
    #[doc(alias = "span")]
    pub fn traceparent(mut self, text: impl Into<String>) -> Put<B> {
        self.options.traceparent = Some(text.into().into_boxed_str());
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
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put(Put::new("fetch").key("fetch 7"))?;
    /// assert_eq!(jobs.put(Put::new("parse").after_key("fetch 7"))?.state, TaskState::Blocked);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn after_key(mut self, key: impl Into<String>) -> Put<B> {
        self.options.after.get_or_insert_default().keys.push(key.into());
        self
    }

    /// What happens to the task when a parent is buried or removed. Default: [`OnParent::Wait`].
    pub fn on_parent(mut self, rule: OnParent) -> Put<B> {
        if rule != OnParent::Wait || self.options.after.is_some() {
            self.options.after.get_or_insert_default().on_parent = rule;
        }
        self
    }

    /// The key: a name of 1 to 4096 bytes that no other task of the store has, in any tube. Default:
    /// none. [`on_key`](Put::on_key) says what happens if a task has it already.
    ///
    /// With the key of a request or of an event, the same put can be repeated after an error or a crash, and
    /// the task is there once (idempotent). [`Store::by_key`](crate::Store::by_key) finds the task. The key
    /// is free again when the task is removed: acked and not kept, deleted, expired, or forgotten. With an
    /// [`idempotency_key`](Put::idempotency_key) a put can be repeated for an hour, or for the time of
    /// [`unique_for`](Put::unique_for), also when its task is removed.
    ///
    /// # Example
    /// See [`OnKey`].
    #[doc(alias = "unique")]
    #[doc(alias = "deduplication")]
    pub fn key(mut self, key: impl Into<String>) -> Put<B> {
        self.options.key = Some(key.into());
        self
    }

    /// What the put does if another task has its [`key`](Put::key). Default: [`OnKey::Reject`].
    #[doc(alias = "upsert")]
    pub fn on_key(mut self, on_key: OnKey) -> Put<B> {
        self.options.on_key = on_key;
        self
    }

    /// An idempotency key of the caller's, with which this put can be made again. Default: none. A text of 1
    /// to 64 bytes, such as a random UUID, which the caller makes once for each task.
    ///
    /// A caller may not know the outcome of a put: its process was killed, or the put returned
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown). It makes the put again, with the same idempotency
    /// key. If the first put has taken place within the last hour, or the time that it was put with
    /// ([`unique_for`](Put::unique_for)), the second one puts nothing, is not counted and has no event. Its receipt has the id of the first task, and the state of this task as it is now:
    /// [`Done`](crate::TaskState::Done) if it has left the tube, acked, deleted, expired or moved. So the put
    /// is idempotent: the task is put exactly once, in any number of attempts within that time.
    ///
    /// The idempotency key is that of the *put*, and a [`key`](Put::key) that of the *task*. A key is in use
    /// as long as its task is stored, and another task can have it afterwards. An idempotency key is
    /// remembered for its time, whatever becomes of the task, and then forgotten. A put may have both, and its
    /// idempotency key counts first.
    ///
    /// * Idempotency keys belong to a tube: the same text in another tube is another idempotency key.
    ///   `truncate` and `drop_tube` remove the idempotency keys of the tube.
    /// * The idempotency key is stored in the commit of the task: a crash keeps or loses both, as the
    ///   [`Durability`](crate::Durability) of the tube says. The time is measured on the timeline,
    ///   which goes on while the store is closed.
    /// * The store remembers no idempotency key for a refused put, nor for a put that [keeps](OnKey::Keep)
    ///   the task with its key. It remembers the idempotency key of a put that replaces a task. For a put
    ///   that waits for space, it remembers the idempotency key when it admits the put.
    /// * The contents are not compared, unlike those of Stripe's requests: a put with other contents
    ///   and the same idempotency key puts nothing.
    /// * Two puts with the same idempotency key in one [`put_many`](crate::Tube::put_many) or
    ///   [end](crate::Claim::end) are one put. [`requeue`](crate::Tube::requeue),
    ///   [`spawn`](crate::Claim::spawn), [`put_and_wait`](crate::Tube::put_and_wait) and puts that return
    ///   tickets have idempotency keys, too. [`Invalid`](crate::Error::Invalid) for the task of an
    ///   [`advance`](crate::Outcome::advance), of a schedule, of a
    ///   [`restore_many`](crate::Admin::restore_many), and of a transaction of the application.
    /// * Idempotency keys are not exported, and `salvage` does not restore them. `backup` and `compact` keep
    ///   them.
    ///
    /// An idempotency key costs the put two rows, which a later put with an idempotency key removes after
    /// that time.
    ///
    /// Stripe has [idempotency keys](https://docs.stripe.com/api/idempotent_requests), too, and remembers
    /// them for at least 24 hours. Amazon SQS calls it a [deduplication
    /// id](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html),
    /// which a FIFO queue remembers for 5 minutes.
    ///
    /// # Example: a put that is made again
    /// ```
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let put = || Put::new("to: ann").idempotency_key("8d0f5a3c-1b5e-4a57-9d0a-3f4c2f0a7e11");
    /// let first = mails.put(put())?;
    /// assert_eq!(mails.put(put())?.id, first.id); // puts nothing
    ///
    /// mails.try_take()?.unwrap().ack()?;
    /// let again = mails.put(put())?;
    /// assert_eq!((again.id, again.state), (first.id, TaskState::Done));
    /// assert!(mails.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "idempotency key")]
    #[doc(alias = "idempotent")]
    #[doc(alias = "deduplication")]
    #[doc(alias = "retry")]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Put<B> {
        self.options.idempotency_key = Some(key.into().into_boxed_str());
        self
    }

    /// How long the [idempotency key](Put::idempotency_key) of this put is remembered, from the put. Default: an
    /// hour ([`IDEMPOTENCY_KEY_TIME`](crate::IDEMPOTENCY_KEY_TIME)). Above zero, and at most 366 days
    /// ([`MAX_IDEMPOTENCY_KEY_TIME`](crate::MAX_IDEMPOTENCY_KEY_TIME)); rounded up to microseconds. A put without an
    /// idempotency key cannot have it.
    ///
    /// So a job is put at most once in a period of this length, whatever becomes of its task: it may be done,
    /// deleted or buried long before the end. The put that puts the task decides the period. A later put in
    /// the period puts nothing, and its `unique_for` has no effect. The first put after the end puts a task
    /// again, and begins a new period.
    ///
    /// The time is that of the timeline: it goes on while the store is closed, and setting the wall clock of
    /// a running program does not change it. It begins when the put takes place. A put that [waits for
    /// space](crate::Tube::put_timeout) takes place when it is admitted.
    ///
    /// The two rows of the idempotency key, some 130 bytes with a key of 36 bytes, are stored for that long: one
    /// put a second with a time of a year makes 4 GB. A connection that breaks makes a put again only if it is
    /// remembered for an hour or longer. Otherwise the put returns
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown).
    ///
    /// # Example: at most one digest a day for a customer
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store};
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 3600);
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let digests = store.tube("digests")?;
    /// let digest = || Put::new("to: ann").idempotency_key("digest ann").unique_for(DAY);
    /// let first = digests.put(digest())?;
    /// digests.try_take()?.unwrap().ack()?;
    ///
    /// clock.advance(DAY - Duration::from_secs(1));
    /// assert_eq!(digests.put(digest())?.id, first.id); // puts nothing
    /// assert!(digests.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert_ne!(digests.put(digest())?.id, first.id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "unique")]
    #[doc(alias = "deduplication")]
    #[doc(alias = "period")]
    #[doc(alias = "throttle")]
    pub fn unique_for(mut self, time: Duration) -> Put<B> {
        self.options.unique_for = Some(time);
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
    /// use tubewell::{Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put(Put::new("to: ann").tag("newsletter").tag("ann"))?.id;
    /// assert_eq!(mails.query().task(id)?.info.tags, ["newsletter", "ann"]);
    /// assert_eq!(store.list(Filter::new().tag("ann"), None, 10)?.items[0].id, id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn tag(mut self, tag: impl Into<String>) -> Put<B> {
        self.options.tags.push(tag.into());
        self
    }
}

/// What a put has as its [`traceparent`](Put::traceparent), from the header `traceparent` of a call over HTTP. `None` if the
/// header has another form: the standard of W3C wants it to be ignored then. A newer version than 00 is read as far as it is
/// known.
///
/// ```
/// use tubewell::Put;
/// use tubewell::expert::traceparent_of_header;
///
/// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let mut put = Put::new("to: ann");
/// if let Some(traceparent) = traceparent_of_header(header) {
///     put = put.traceparent(traceparent);
/// }
/// assert_eq!(put.get_traceparent(), Some(header));
/// assert_eq!(traceparent_of_header("none"), None);
/// ```
#[must_use]
pub fn traceparent_of_header(header: &str) -> Option<String> {
    tubewell_drivers::Traceparent::of_header(header).map(|read| read.to_string())
}

/// Bytes need no codec, which alone can fail.
pub(crate) fn of_bytes(task: impl IntoPut<Bytes>) -> Encoded {
    task.into_put(&Coder::BYTES).unwrap_or_default()
}

/// What a `Tube<T>` puts: a `T`, a `&T`, or a [`Put`] of either with options; into a tube of
/// [`Bytes`] also text and bytes. Implemented here for all of these; the trait is sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no body of a `Tube<{T}>`",
    label = "not a `{T}`",
    note = "a tube of bytes puts text and bytes; a typed tube puts values of its type, by value or by reference"
)]
pub trait IntoPut<T: 'static>: sealed::IntoPut<T> {}

impl<T: 'static, P: sealed::IntoPut<T>> IntoPut<T> for P {}

mod sealed {
    use super::{Bytes, Coder, Encoded, Put};
    use crate::Result;

    pub trait IntoPut<T: 'static> {
        #[doc(hidden)]
        fn into_put(self, coder: &Coder<T>) -> Result<Encoded>;
    }

    impl<T: 'static> IntoPut<T> for T {
        fn into_put(self, coder: &Coder<T>) -> Result<Encoded> {
            Put::new(self).into_put(coder)
        }
    }

    impl<T: 'static> IntoPut<T> for &T {
        fn into_put(self, coder: &Coder<T>) -> Result<Encoded> {
            Put::new(self).into_put(coder)
        }
    }

    impl<T: 'static> IntoPut<T> for Put<T> {
        fn into_put(self, coder: &Coder<T>) -> Result<Encoded> {
            self.try_map(|value| coder.encode(&value))
        }
    }

    impl<T: 'static> IntoPut<T> for Put<&T> {
        fn into_put(self, coder: &Coder<T>) -> Result<Encoded> {
            self.try_map(|value| coder.encode(value))
        }
    }

    impl IntoPut<String> for &str {
        fn into_put(self, coder: &Coder<String>) -> Result<Encoded> {
            Put::new(self).into_put(coder)
        }
    }

    impl IntoPut<String> for Put<&str> {
        fn into_put(self, coder: &Coder<String>) -> Result<Encoded> {
            self.try_map(|value| coder.encode(&value.to_owned()))
        }
    }

    /// What is bytes already is copied once at most, unless the tube has a codec for bytes.
    macro_rules! bytes {
        ($([$($size:tt)*] $given:ty),* $(,)?) => {$(
            impl<$($size)*> IntoPut<Bytes> for $given {
                #[inline]
                fn into_put(self, coder: &Coder<Bytes>) -> Result<Encoded> {
                    Put::new(self).into_put(coder)
                }
            }

            impl<$($size)*> IntoPut<Bytes> for Put<$given> {
                #[inline]
                fn into_put(self, coder: &Coder<Bytes>) -> Result<Encoded> {
                    if coder.is_identity() {
                        return Ok(self.map(Vec::from));
                    }
                    self.try_map(|body| coder.encode(&body.into()))
                }
            }
        )*};
    }

    bytes! {
        [] &str, [] String, [] Vec<u8>, [] &[u8], [] Box<[u8]>,
        [const N: usize] &[u8; N],
    }

    macro_rules! bytes_by_reference {
        ($($given:ty),*) => {$(
            impl IntoPut<Bytes> for $given {
                fn into_put(self, coder: &Coder<Bytes>) -> Result<Encoded> {
                    self.clone().into_put(coder)
                }
            }

            impl IntoPut<Bytes> for Put<$given> {
                fn into_put(self, coder: &Coder<Bytes>) -> Result<Encoded> {
                    self.map(Clone::clone).into_put(coder)
                }
            }
        )*};
    }

    bytes_by_reference!(&String, &Vec<u8>);
}
