//! An embedded, persistent task queue (job queue): tubes of tasks inside your process, in one file.
//!
//! tubewell needs no server, no async runtime and no polling. When a put or an ack has returned, it
//! is on the disk. Concurrent callers share one flush (group commit). A take waits for no
//! flush, and an idle store writes nothing. This page is a tutorial of what most programs need.
//!
//! # Open, put, take, ack
//!
//! A [`Store`] is a file that one process owns. It contains tubes: a [`Tube`] is a named queue with
//! a driver, which decides its order and its options. The default is [`FIFOTTL`].
//!
//! ```
//! use std::time::Duration;
//! use tubewell::Store;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("app.tubewell");
//! let store = Store::open(&path)?;
//! let mail = store.tube("mail")?;
//!
//! mail.put("to: ann")?; // on the disk when this returns
//! mail.put_many(["to: bob", "to: cem"])?; // both or none, with one flush
//!
//! while let Some(task) = mail.try_take()? {
//!     println!("sending {}", String::from_utf8_lossy(task.body()));
//!     task.ack()?; // done: the task is removed
//! }
//! # assert_eq!(mail.statistics()?.tasks.done, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Handles are cheap to clone and can be used from any thread. A body is bytes. [`Tube::typed`] makes values
//! of any serde type of them, as JSON; [`Tube::typed_with`] uses bincode, text or a codec of your own.
//!
//! # Workers
//!
//! Most programs leave the takes and the acks to a [`Worker`]. It takes tasks, calls a function for each of
//! them, and ends each task as the function returns. An error or a panic fails the attempt: the task is
//! retried after a backoff, or buried after its last attempt, as its tube or else the worker says. A worker
//! runs on threads or as a future, stops gracefully, and needs no heartbeat. A step that has finished does
//! not run again in the next attempt.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::worker::{Job, Worker};
//! use tubewell::{Backoff, Result, Store, TubeOptions};
//!
//! fn sign_up(job: &Job<String>) -> Result<()> {
//!     let id = job.step("create", || create_account(job.value()))?;
//!     job.step("welcome", || send_mail(job.value(), id))
//! }
//! # fn create_account(_: &str) -> Result<u64> { Ok(7) }
//! # fn send_mail(_: &str, _: u64) -> Result<()> { Ok(()) }
//!
//! # let store = Store::in_memory()?;
//! let retry = Backoff::exponential(Duration::from_secs(1));
//! let options = TubeOptions::new().max_attempts(5).backoff(retry);
//! let sign_ups = store.open_tube("sign-ups", options)?.typed::<String>();
//! let worker = Worker::new(&store).on(&sign_ups, sign_up).concurrency(8).start()?;
//! sign_ups.put("ann")?;
//! # while sign_ups.statistics()?.tasks.done == 0 { std::thread::yield_now(); }
//! worker.stop(Duration::from_secs(30))?; // jobs may end; those that do not are given back
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # If the worker fails
//!
//! [`take`](Tube::take) returns a [`Claim`] (a lease on the task). Dropping it without an
//! [`ack`](Claim::ack), for example by `?` or a panic, releases the task.
//! [`release`](Claim::release) releases it explicitly, also after a delay (retry with backoff).
//! [`bury`](Claim::bury) makes a task that keeps failing a dead letter, until a caller
//! [kicks](Tube::kick) it. [`takes`](Claim::takes) counts the attempts.
//!
//! ```
//! # use std::time::Duration;
//! # use tubewell::{Filter, Store, TaskState};
//! # let store = Store::in_memory()?;
//! # let mail = store.tube("mail")?;
//! mail.put("to: nobody")?;
//!
//! let task = mail.try_take()?.unwrap();
//! drop(task); // ready again, in its old place
//!
//! let task = mail.try_take()?.unwrap();
//! assert_eq!(task.takes(), 2);
//! task.bury(None)?;
//! assert!(mail.try_take()?.is_none());
//! assert_eq!(mail.query().list(TaskState::Buried, None, 10)?.items.len(), 1);
//!
//! mail.admin().kick(Filter::new().limit(1))?;
//! # assert!(mail.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! If the process dies, the task is ready at the next open. A task is delivered at least once, so
//! the work must be idempotent. If a worker hangs, its claim expires (after the *ttr*, below), and
//! its later calls return [`NotTaken`](Error::NotTaken): it cannot finish a task that another
//! worker has by now. Long work [renews](Claim::renew) its claim (a heartbeat). A
//! [worker](#workers) does all this for a function.
//!
//! # Waiting
//!
//! A [take](Tube::take) waits without a limit, or [for a time](Tube::take_timeout). Waiting takers are served
//! first come, first served, and wake within microseconds. [`close`](Store::close) ends every wait, for a
//! graceful shutdown.
//!
//! ```
//! # use std::time::Duration;
//! # use tubewell::{Error, Filter, Store};
//! # let store = Store::in_memory()?;
//! # let jobs = store.tube("jobs")?;
//! std::thread::scope(|scope| {
//!     let worker = scope.spawn(|| {
//!         loop {
//!             match jobs.take() {
//!                 Ok(job) => job.ack()?,
//!                 Err(Error::Closed) => return Ok(()),
//!                 Err(error) => return Err(error),
//!             };
//!         }
//!     });
//!     jobs.put("one")?;
//!     jobs.put("two")?;
//! #   let events = store.events(Filter::new(), 100)?;
//! #   while jobs.statistics()?.tasks.total > 0 && events.recv().is_some() {}
//!     store.close()?;
//!     worker.join().unwrap()
//! })
//! # .map(|()| assert_eq!(store.statistics().unwrap()["jobs"].tasks.done, 2))
//! # ?; Ok::<(), Error>(())
//! ```
//!
//! Each call of a handle from [`to_async`](Tube::to_async) is a future, for any runtime or none.
//! [`take_any`](Store::take_any) waits in several tubes.
//!
//! # Priorities, delays, times to live
//!
//! The timed drivers, such as [`FIFOTTL`], have four options of a task: *priority*, 0 first and
//! [100](DEFAULT_PRIORITY) by default; *delay*, the time before it is ready; *ttl*, the time after which it is removed; and *ttr* (the visibility
//! timeout), the time after which a claim expires. All but the delay can also be defaults of the tube.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::{Put, Store, TubeOptions};
//!
//! # let store = Store::in_memory()?;
//! let options = TubeOptions::new().ttr(Duration::from_secs(30));
//! let jobs = store.open_tube("jobs", options)?;
//! jobs.put("some time")?;
//! jobs.put(Put::new("urgent").priority(10))?;
//! jobs.put(Put::new("tomorrow").delay(Duration::from_secs(86_400)))?;
//! jobs.put(Put::new("today or never").ttl(Duration::from_secs(86_400)))?;
//!
//! let job = jobs.try_take()?.unwrap();
//! assert_eq!(job.body(), b"urgent");
//! job.release_in(Duration::from_secs(10))?; // it failed: retry in ten seconds
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Sub-queues and capacity
//!
//! In a tube with [`UTUBE`] or [`UTUBETTL`] at most one task of each sub-queue is taken at a time:
//! one page of a host, one order of a customer. A tube with [`LIMFIFOTTL`] has a capacity, and
//! [`put_timeout`](Tube::put_timeout) waits for space (back pressure). For other rules, write a
//! [`Driver`](driver::Driver).
//!
//! ```
//! use tubewell::{Put, Store, TubeOptions, UTUBE};
//!
//! # let store = Store::in_memory()?;
//! let pages = store.open_tube("pages", TubeOptions::new().driver(UTUBE))?;
//! pages.put(Put::new("/a").sub_queue("example.org"))?;
//! pages.put(Put::new("/b").sub_queue("example.org"))?;
//! pages.put(Put::new("/c").sub_queue("example.com"))?;
//!
//! let first = pages.try_take()?.unwrap();
//! let second = pages.try_take()?.unwrap();
//! assert_eq!((first.body(), second.body()), (&b"/a"[..], &b"/c"[..]));
//! assert!(pages.try_take()?.is_none()); // /b waits for /a
//! first.ack()?;
//! assert!(pages.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Sessions
//!
//! A claim belongs to a [`Session`], by default to the store's own. Create a session for a client
//! whose end must release all its tasks: a connection, a plug-in, a window.
//!
//! ```
//! # use tubewell::Store;
//! # let store = Store::in_memory()?;
//! # let jobs = store.tube("jobs")?;
//! jobs.put_many(["one", "two"])?;
//! let client = store.session("client")?;
//! let theirs = client.tube(&jobs)?;
//! let one = theirs.try_take()?.unwrap().detach(); // the session keeps the claim
//! let _two = theirs.try_take()?.unwrap().detach();
//! theirs.claimed(one.info.id)?.ack()?;
//!
//! client.end()?; // or when its last handle is dropped, immediately or after a grace period
//! assert_eq!(jobs.statistics()?.tasks.ready, 1);
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Many calls on one thread
//!
//! A call of a handle from [`to_async`](Tube::to_async) returns a [`Ticket`] at once, which can be waited
//! for or awaited. One thread can have hundreds in flight, which share their flushes.
//!
//! ```
//! # use tubewell::Store;
//! # let store = Store::in_memory()?;
//! # let jobs = store.tube("jobs")?;
//!
//! let tickets: Vec<_> = {
//!     let jobs = jobs.to_async();
//!     (0..500).map(|n| jobs.put(format!("job {n}"))).collect()
//! };
//! for ticket in tickets {
//!     ticket.wait()?; // on the disk
//! }
//! # assert_eq!(jobs.statistics()?.tasks.ready, 500);
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # What can be lost
//!
//! By default no acknowledged change is lost: neither by a killed process nor by a power cut. Calls
//! on a [written](Durability::Write) tube return after the write to the file, and calls on a
//! [relaxed](Durability::Relaxed) tube immediately. The flush follows within a time (default 50
//! ms). A power cut loses the changes since the last flush, from the end; a killed process loses
//! only those of relaxed tubes, and of written ones only while the
//! [storage fails](Error::Unavailable). The tasks of a [temporary](TubeOptions::temporary) tube live
//! in memory.
//!
//! ```
//! use tubewell::Durability;
//! # use tubewell::{Store, TubeOptions};
//! # let store = Store::in_memory()?;
//!
//! let written = TubeOptions::new().durability(Durability::write());
//! let thumbnails = store.open_tube("thumbnails", written)?;
//! thumbnails.put("cat.jpg")?; // survives a killed process
//!
//! let relaxed = TubeOptions::new().durability(Durability::relaxed());
//! let clicks = store.open_tube("clicks", relaxed)?;
//! clicks.put("at 3, 4")?; // does not wait
//! store.flush()?; // now both are on the disk
//! store.close()?; // also flushes, and returns an error if that fails
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Time in tests
//!
//! A [`ManualClock`] stands still until it is moved. [`advance`](ManualClock::advance) does
//! everything that falls due before it returns, so tests need no sleep.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::{ManualClock, Put, Store};
//!
//! let clock = ManualClock::new();
//! let store = Store::options().clock(&clock).open_in_memory()?;
//! let calls = store.tube("calls")?;
//! calls.put(Put::new("wake up").delay(Duration::from_secs(8 * 3600)))?;
//!
//! assert!(calls.try_take()?.is_none());
//! clock.advance(Duration::from_secs(8 * 3600));
//! assert!(calls.try_take()?.is_some());
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! The module [`testing`] has assertions about the tasks of a tube.
//!
//! # Features
//!
//! No feature is on by default.
//!
//! * `cron`: `Schedule::cron`, schedules by cron expressions in time zones.
//! * `serde`: `Serialize` and `Deserialize` for the values that calls return. States, event kinds,
//!   durabilities, session ids and cursors are their text, durations are `{"secs", "nanos"}`.
//! * `redb`: `Store::transact` and `Store::view`, the application's own tables in the file and in the
//!   commits of the store; and the crate `redb`, which they name.
//! * `tracing`: spans for puts, takes, ends and handlers, with OpenTelemetry's attributes; the module `tracing`.
//! * `full`: all of them.
//!
//! # Further reading
//!
//! * [`Statistics`] are exact and cost nothing to read. [`Store::events`] and
//!   [`Tube::on_task_change`] deliver events. [`Claim::progress`] reports how far a task is, and
//!   [`Store::owners`] lists the sessions that have tasks.
//! * [`StoreAdmin::verify`](crate::expert::StoreAdmin::verify) checks the file, and [`StoreOptions::compact`]
//!   shrinks it. [`StoreAdmin::backup`](crate::expert::StoreAdmin::backup)
//!   copies it, and [`StoreOptions::salvage`] reads what is left of a damaged file.
//! * Each [`Error`] says what is true after it.
//!
//! The guides, in the folder `docs` of the package:
//!
//! * `docs/workers.md`: handlers, attempts, time limits, async, exactly once, stop and deploy.
//! * `docs/testing.md`: stores in memory, a clock that the test moves, assertions, crashes.
//! * `docs/schedules.md`: intervals, cron expressions, missed runs, and clocks that are set.
//! * `docs/operating.md`: alarms, dead letters, backup, upgrade, and what to do after an error.
//! * `docs/monitoring.md`: metrics for Prometheus, alarms, a Grafana dashboard.
//! * `docs/other-processes.md`: several processes that use one store.
//! * `docs/cookbook.md`: recipes, such as idempotent work, a batch and its end, deduplication, request and response, graceful
//!   shutdown, axum, a desktop UI.
//! * `docs/coming-from.md`: the verbs and options of other systems, and what they are here.
//! * `docs/traces.md`: distributed traces, from the put to the work and on, with OpenTelemetry.
//! * `docs/command.md`: the command `tubewell`.
//!
//! `docs/semantics.md` is the reference: states, waits, durability and errors of every verb.
//! `docs/reliability.md` says what a crash may lose, and names the tests. `examples/` has whole programs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

mod base;
mod commit;
mod connection;
mod core;
mod events;
mod handle;
mod options;
mod runtime;
mod serve;
mod storage;
pub mod testing;
mod text;
mod values;
pub mod worker;

/// What a driver of your own needs; see
/// [`StoreAdmin::register_driver`](crate::expert::StoreAdmin::register_driver).
pub mod driver {
    pub use tubewell_drivers::{
        Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Load, Traits, UTUBE, UTUBETTL,
    };
}

pub mod expert {
    //! What few programs name: the parts of a backup, a repair and an export, the numbers of metrics, media of
    //! your own, and the types of some fields.
    //!
    //! * **A whole store:** [`StoreAdmin`], from [`Store::admin`](crate::Store::admin).
    //! * **Other media and clocks:** [`Storage`], [`Clock`]; a driver of your own is in
    //!   [`driver`](crate::driver).
    //! * **Tasks that come from elsewhere:** [`Restore`], [`SpawnedBy`], [`HistoryEntry`], [`Step`],
    //!   [`LastFailure`];
    //!   a damaged file: [`Salvaged`].
    //! * **Numbers:** [`Counters`], [`ClockReport`], [`CallCounts`], [`Day`], [`Summary`], [`Bin`], [`Date`],
    //!   [`TagCount`], [`FailureGroup`], [`ParentCounts`], [`Backlog`],
    //!   [`PausedSubQueue`].
    //! * **Fields and parameters:** [`FailureKind`], [`Recurrence`], [`OptionValue`], [`Delivered`], [`EventDetails`],
    //!   [`Callback`], [`BoxError`], [`traceparent_of_header`].

    pub use crate::base::clock::Clock;
    pub use crate::events::{Callback, Delivered, EventDetails};
    pub use crate::handle::salvage::{Salvaged, SalvagedTube};
    pub use crate::handle::store::StoreAdmin;
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub use crate::handle::transact::View;
    pub use crate::options::OptionValue;
    pub use crate::serve::{is_socket_served, socket_beside};
    pub use crate::storage::Storage;
    pub use crate::values::backlog::Backlog;
    pub use crate::values::body::BoxError;
    pub use crate::values::counters::{ClockReport, Counters};
    pub use crate::values::date::Date;
    pub use crate::values::ending::{FailureGroup, FailureKind, LastFailure};
    pub use crate::values::history::HistoryEntry;
    pub use crate::values::limit::PausedSubQueue;
    pub use crate::values::listing::TagCount;
    pub use crate::values::metrics::{Bin, Day, Summary};
    pub use crate::values::parent_counts::ParentCounts;
    pub use crate::values::put::traceparent_of_header;
    pub use crate::values::restore::Restore;
    pub use crate::values::schedule::Recurrence;
    pub use crate::values::spawned_by::SpawnedBy;
    pub use crate::values::statistics::CallCounts;
    pub use crate::values::step::{Step, StepKind};
}

#[cfg(feature = "tracing")]
#[cfg_attr(docsrs, doc(cfg(feature = "tracing")))]
pub mod tracing {
    //! Spans of the crate [`tracing`](https://docs.rs/tracing) for puts, takes, ends and handlers, with the attributes
    //! that OpenTelemetry names for messaging.
    //!
    //! | `otel.name` | `otel.kind` | level | when |
    //! |---|---|---|---|
    //! | `put {tube}` | `producer` | DEBUG | a put, from the call to its answer; `put_many`, `requeue` and `put_and_wait` with their names |
    //! | `take {tube}` | `client` | DEBUG | a take that got a task, without its wait; `take_many` with its name |
    //! | `ack {tube}` | `client` | DEBUG | the end of a claim, by its name: also `release`, `snooze`, `fail`, `bury`, `advance` and `end_many` |
    //! | `process {tube}` | `consumer` | INFO | a handler of a [`Worker`](crate::Worker), of a job or of a batch, with the functions around it |
    //!
    //! A handler runs inside its span, so that the spans of the application are children of it; a future is inside it
    //! in each poll. A worker has no span for its takes. The target of all spans is `tubewell`. Their names are `put`,
    //! `take`, `settle` and `process`; their fields are the names of the table and `messaging.system` (`tubewell`),
    //! `messaging.operation.name`, `messaging.operation.type` (`send`, `receive`, `settle`, `process`),
    //! `messaging.destination.name` (the tube), `messaging.message.id`, or `messaging.batch.message_count` of a call
    //! with several tasks; of a handler `tubewell.attempt`; after an error `otel.status_code` (`ERROR`),
    //! `otel.status_description` and `error.type`. No span has the body, the key or the tags of a task.
    //!
    //! Puts, takes and ends are DEBUG, since there are several of them for each job and they say what the log of a
    //! queue says. A handler is INFO: it is the work of the application.
    //!
    //! A call through a [connection](crate::connect) has its span in the process that makes it. The calls of a
    //! [`transact`](https://docs.rs/tubewell/latest/tubewell/struct.Store.html#method.transact) have none.
    //!
    //! Without a subscriber a call compares one number more, and allocates nothing.
    //!
    //! [`set_propagation`] joins the spans to distributed traces: a task carries the
    //! [`traceparent`](crate::Put::traceparent) of the span of its put, and its handler continues that trace, in
    //! another process or months later. `docs/traces.md` is the guide, with an example that exports to OpenTelemetry.

    pub use crate::handle::trace::{Propagation, set_propagation};
}

/// Durations as text, as the command takes and shows them. The texts of policies and durabilities have
/// durations of this form, too.
pub mod duration {
    pub use crate::text::durations::{parse, show};
}

/// Time as `tests/schedules` moves it.
#[cfg(feature = "_shuttle")]
#[doc(hidden)]
pub mod explored {
    pub use crate::base::sync::explored::{begin, pass};
}

/// Connections without sockets, for the fuzz targets.
#[cfg(feature = "_peer")]
#[doc(hidden)]
pub mod unserved {
    pub use crate::serve::unserved::{Asked, Bytes, Decoded, Peer, Said, decode, read_answer};
}

/// How many tubes, waits and the like the calls of a store have looked at, for the tests of costs.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod costs {
    /// Counts what the loops of calls have looked at since the store of this process was opened.
    ///
    /// # Errors
    /// The store is one of another process.
    pub fn visits(store: &crate::Store) -> crate::Result<u64> {
        Ok(store.here("counting visits")?.inner()?.run(|core| core.visits()))
    }
}

/// Which calls were carried out, for the workloads of tests.
#[cfg(feature = "_peer")]
#[doc(hidden)]
pub mod calls {
    pub use crate::core::met;
}

pub use base::clock::ManualClock;
pub use driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};
pub use events::Event;
pub use handle::claim::{AsyncClaim, Claim};
pub use handle::mode::{Async, Blocking, Mode};
pub use handle::outcome::{IntoOutcome, Outcome};
pub use handle::session::{AsyncSession, Session};
pub use handle::store::{AsyncStore, ConnectOptions, Store, StoreOptions, connect};
pub use handle::subscription::Events;
pub use handle::ticket::Ticket;
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use handle::transact::Transaction;
pub use handle::tube::{Admin, AsyncTube, Query, Schedules, Tube};
pub use options::{TubeInfo, TubeOptions};
pub use serve::{ServeOptions, Served};
pub use tubewell_drivers::{
    BODY_MAX as MAX_BODY, IDEMPOTENCY_KEY_MAX as MAX_IDEMPOTENCY_KEY, KEY_MAX as MAX_KEY,
    SUB_QUEUE_MAX as MAX_SUB_QUEUE, TAG_MAX as MAX_TAG, TAGS_MAX as MAX_TAGS,
    TUBE_NAME_MAX as MAX_TUBE_NAME,
};
pub use values::body::{Bincode, Bytes, Codec, Json, Text};
pub use values::durability::Durability;
pub use values::ending::Ending;
pub use values::error::{Error, Result};
pub use values::failure::Failure;
pub use values::filter::Filter;
pub use values::kinds::EventKind;
pub use values::limit::Limit;
pub use values::listing::Page;
pub use values::on_key::OnKey;
pub use values::on_parent::OnParent;
pub use values::owner::{Owner, OwnerInfo};
pub use values::policy::{Backoff, Counting, Keep};
pub use values::put::{
    DEFAULT_PRIORITY, IDEMPOTENCY_KEY_TIME, IntoPut, MAX_IDEMPOTENCY_KEY_TIME, Put,
};
pub use values::rate::Rate;
pub use values::schedule::{Missed, Overlap, Schedule, ScheduleInfo};
pub use values::session_id::SessionId;
pub use values::statistics::{Statistics, TaskCounts};
pub use values::task::{Cursor, Progress, Receipt, Task, TaskInfo};
pub use values::task_state::TaskState;
pub use values::token::ClaimToken;
pub use values::update::Update;
#[doc(inline)]
pub use worker::{AsyncJob, Job, Worker};

/// The engine of the file, for the tables of the application.
#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
pub use redb;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../docs/cookbook.md")]
struct Cookbook;

#[cfg(doctest)]
#[doc = include_str!("../docs/workers.md")]
struct Workers;

#[cfg(doctest)]
#[doc = include_str!("../docs/operating.md")]
struct Operating;

#[cfg(doctest)]
#[doc = include_str!("../docs/monitoring.md")]
struct Monitoring;

#[cfg(doctest)]
#[doc = include_str!("../docs/schedules.md")]
struct SchedulesAndClocks;

#[cfg(doctest)]
#[doc = include_str!("../docs/testing.md")]
struct Testing;

#[cfg(doctest)]
#[doc = include_str!("../docs/traces.md")]
struct Traces;

#[cfg(doctest)]
#[doc = include_str!("../docs/coming-from.md")]
struct ComingFrom;

#[cfg(doctest)]
#[doc = include_str!("../docs/other-processes.md")]
struct OtherProcesses;

#[cfg(doctest)]
#[doc = include_str!("../docs/reliability.md")]
struct Reliability;

#[cfg(doctest)]
#[doc = include_str!("../docs/semantics.md")]
struct Semantics;
