//! Building a worker.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::around::{Around, AroundAsync, AsyncNext, Next};
use super::batch::{Batch, BatchHandler};
use super::future::WorkerFuture;
use super::groups::{GroupOf, Groups};
use super::handle::WorkerHandle;
use super::handled::Handled;
use super::job::{AsyncJob, Job};
use super::order::Order;
use super::pool::{Parts, Pool, Spawn, SpawnedFuture, Watch};
use super::report::{Report, Tally};
use super::retries::Retries;
use super::source::{Handler, JobHandler, Registered};
use super::stopper::Stopper;
use crate::base::park::block_on;
use crate::base::signal::unless_raised;
use crate::handle::call::CallFuture;
use crate::{Backoff, Error, IntoOutcome, Result, Session, Store, Tube};

/// The most jobs that a worker runs at a time.
const MAX_CONCURRENCY: usize = 1024;

/// A worker: it takes the tasks of tubes, calls the handlers of these tubes with them, and ends the
/// tasks as the handlers say. See [the module](super).
///
/// Nothing happens before [`start`](Worker::start), [`run_until_idle`](Worker::run_until_idle) or
/// [`run_async`](Worker::run_async).
#[must_use = "a worker does nothing until it is started"]
pub struct Worker {
    store: Store,
    name: Arc<str>,
    session: Option<Session>,
    tubes: Vec<Registered>,
    concurrency: usize,
    order: Order,
    max_runtime: Option<Duration>,
    retries: Retries,
    limit: Option<u64>,
    failure_group: Option<GroupOf>,
    around: Vec<Around>,
    around_async: Vec<AroundAsync>,
    watch: Option<Watch>,
    spawn: Option<Spawn>,
    stopper: Stopper,
}

impl Worker {
    /// A worker for tubes of this store.
    pub fn new(store: &Store) -> Worker {
        Worker {
            store: store.clone(),
            name: "worker".into(),
            session: None,
            tubes: Vec::new(),
            concurrency: 1,
            order: Order::Listed,
            max_runtime: None,
            retries: Retries::default(),
            limit: None,
            failure_group: None,
            around: Vec::new(),
            around_async: Vec::new(),
            watch: None,
            spawn: None,
            stopper: Stopper::default(),
        }
    }

    /// The label of its session, which [`Store::owners`] and
    /// [`Query::owner`](crate::Query::owner) show. Default: `worker`.
    pub fn name(mut self, label: impl Into<Arc<str>>) -> Worker {
        self.name = label.into();
        self
    }

    /// The session that the worker takes tasks for, instead of one of its own, which ends with it.
    ///
    /// For handlers that return [`Outcome::detach`](crate::Outcome::detach): the tubes of this
    /// session return these claims later ([`Tube::claimed`](crate::Tube::claimed)).
    /// [`name`](Worker::name) has no effect with it.
    ///
    /// # Example: failed tasks that are tried again after the run, and not in it
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Failure, Outcome, Store};
    ///
    /// let store = Store::in_memory()?;
    /// store.tube("jobs")?.put_many(["bad", "good"])?;
    /// let session = store.session("encoder")?;
    /// let jobs = session.tube(&store.tube("jobs")?)?;
    /// let failed = Arc::new(Mutex::new(Vec::new()));
    /// let keep = {
    ///     let failed = failed.clone();
    ///     move |job: &Job| match job.body() {
    ///         b"good" => Outcome::done(),
    ///         _ => {
    ///             failed.lock().unwrap().push(job.id());
    ///             Outcome::detach()
    ///         }
    ///     }
    /// };
    /// Worker::new(&store).session(&session).on(&jobs, keep).run_until_idle()?;
    /// for id in failed.lock().unwrap().drain(..) {
    ///     jobs.claimed(id)?.fail(Failure::new("bad", "it is not good"))?;
    /// }
    /// assert_eq!(jobs.statistics()?.tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn session(mut self, session: &Session) -> Worker {
        self.session = Some(session.clone());
        self
    }

    /// Adds a tube, and the function that is called for each of its tasks. The
    /// handler gets the body as a value of the type of the tube.
    ///
    /// The value that the handler returns decides what becomes of the task; see
    /// [`IntoOutcome`]. A panic fails the attempt, in the group `panic`. A task whose body is not a
    /// value of the type of the tube is buried, in the group `undecodable`. The handler may block.
    /// It may be called on several threads at a time. [`on_batch`](Worker::on_batch) is for handlers of many tasks.
    ///
    /// A tube has one handler, or one for each [kind](Tube::typed_as) of its bodies. With kinds, a handler of
    /// the tube without a kind gets all other tasks. Without such a handler, tasks of another kind are buried in the
    /// group `unknown kind`, and those without a kind in the group `undecodable`.
    ///
    /// # Example: kinds that only a newer release knows wait for it
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Job, Outcome, Store, TaskState, Worker};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let (mails, films) = (jobs.typed_as::<String>("mail"), jobs.typed_as::<u32>("film"));
    /// mails.put("ann")?;
    /// let film = films.put(90)?.id;
    ///
    /// let send = |job: &Job<String>| println!("to {}", job.value());
    /// let wait = |_: &Job| Outcome::snooze(Duration::from_secs(60)); // the attempt does not count
    /// let tally = Worker::new(&store).on(&mails, send).on(&jobs, wait).run_until_idle()?;
    /// assert_eq!((tally.done, tally.snoozed), (1, 1));
    /// assert_eq!(jobs.query().task(film)?.info.state, TaskState::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn on<T: Send + Sync + 'static, R: IntoOutcome>(
        mut self,
        tube: &Tube<T>,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> Worker {
        self.add(tube, Handler::Job(JobHandler::blocking(tube.coder().clone(), handler)));
        self
    }

    /// As [`on`](Worker::on), with a function that returns a future, such as an `async fn`. The handler gets
    /// an [`AsyncJob`], whose calls block no thread. For work that blocks, it moves
    /// [`into_blocking`](AsyncJob::into_blocking) to a thread.
    ///
    /// [`run_async`](Worker::run_async) needs such handlers. With [`start`](Worker::start) and
    /// [`run_until_idle`](Worker::run_until_idle) the future is polled on a thread of the worker,
    /// so that it must not need a runtime.
    pub fn on_async<T: Send + Sync + 'static, F>(
        mut self,
        tube: &Tube<T>,
        handler: impl Fn(AsyncJob<T>) -> F + Send + Sync + 'static,
    ) -> Worker
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        self.add(tube, Handler::Job(JobHandler::future(tube.coder().clone(), handler)));
        self
    }

    /// Adds a tube, and the function that is called with many of its tasks at a time: for work that is cheaper
    /// together, such as the rows of one insert, or one request to an API for a hundred mails.
    ///
    /// The first task opens a batch. The handler is called once the batch has `most` jobs, or `within` after the
    /// first task was taken, on the running time of the store's clock; through a [connection](crate::connect) on
    /// that of this machine. `Duration::ZERO` waits for nothing: the batch has the tasks that are ready.
    /// `Duration::MAX` waits until the batch is full. [`run_until_idle`](Worker::run_until_idle) waits for nothing
    /// either. The jobs stand in the order in which their tasks came.
    ///
    /// What the handler returns is the end of each job of the batch, as with [`on`](Worker::on): an error or a
    /// panic fails the attempt of each, and an outcome that puts a task puts one for each.
    /// [`Job::set_outcome`] gives a single job another end, whatever the handler returns. All ends are one call: in
    /// a tube with durability flush, a batch blocks for one flush. The handler must be idempotent for each task, as
    /// the tasks of a batch that is attempted again may come in other batches.
    ///
    /// * The tasks are claimed from their take on, and their claims do not run out while the batch gathers.
    ///   [`max_runtime`](Worker::max_runtime) of the worker begins with the call of the handler,
    ///   [`TubeOptions::max_runtime`](crate::TubeOptions::max_runtime) with the take of each task: it must be longer
    ///   than `within`. A job whose claim has ended meanwhile, for instance because its task was deleted, is reported
    ///   as [`Lost`](Report::Lost), or as timed out if its time had elapsed, and the handler does not get it.
    /// * A stop while the batch gathers releases its tasks, and uses no attempt. If a job has
    ///   [seen](Job::check) that it should return and the handler returns an error, no attempt of the batch
    ///   fails.
    /// * A batch is one of the [concurrency](Worker::concurrency) of the worker, also while it gathers. A tube has
    ///   one batch that gathers, whatever the concurrency. [`limit`](Worker::limit) and the reports count jobs; a batch
    ///   that gathers when the limit is reached runs with what it has.
    /// * A body that is not a value of the type of the tube buries its task, and the handler gets the others. So does
    ///   a body of another [kind](Tube::typed_as).
    /// * The functions [around](Worker::around) handlers are not called: they are about one job.
    /// * What limits the takes of the tube also limits its batches, such as
    ///   [`max_taken`](crate::TubeOptions::max_taken), a rate, or one task at a time of a sub-queue: the batch then
    ///   runs after `within` with fewer jobs.
    ///
    /// The tube has no other handler in this worker. `most` is 1 to 10,000.
    ///
    /// # Example: rows that are inserted together
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Job, Result, Store, Worker};
    ///
    /// fn insert(jobs: &[Job<u32>]) -> Result<()> {
    ///     let rows: Vec<u32> = jobs.iter().map(|job| *job.value()).collect();
    ///     println!("insert {rows:?} with one statement");
    ///     Ok(())
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let rows = store.tube("rows")?.typed::<u32>();
    /// rows.put_many(0..250)?;
    /// let worker = Worker::new(&store).on_batch(&rows, 100, Duration::from_secs(5), insert);
    /// assert_eq!(worker.run_until_idle()?.done, 250); // 100, 100 and 50
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "bulk")]
    #[doc(alias = "chunk")]
    #[doc(alias = "aggregate")]
    pub fn on_batch<T: Send + Sync + 'static, R: IntoOutcome>(
        mut self,
        tube: &Tube<T>,
        most: usize,
        within: Duration,
        handler: impl Fn(&[Job<T>]) -> R + Send + Sync + 'static,
    ) -> Worker {
        let handler = BatchHandler::blocking(tube.coder().clone(), handler);
        self.add(tube, Handler::Batch(Box::new(Batch::new(most, within, handler))));
        self
    }

    /// As [`on_batch`](Worker::on_batch), with a function that returns a future, as [`on_async`](Worker::on_async)
    /// has. The handler owns the jobs.
    ///
    /// # Example: embeddings of texts, with one request for many
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{AsyncJob, Worker};
    /// use tubewell::{Outcome, Result, Store};
    ///
    /// async fn embed(jobs: Vec<AsyncJob<String>>) -> Result<()> {
    ///     // ... one request with all texts
    ///     let vectors = jobs.iter().map(|job| [job.value().len() as f32]);
    ///     for (job, vector) in jobs.iter().zip(vectors) {
    ///         job.set_outcome(Outcome::value(&vector));
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store = Store::in_memory()?;
    /// let texts = store.tube("texts")?.typed::<String>();
    /// texts.put_many(["one", "two"].map(String::from))?;
    /// let worker = Worker::new(&store).on_batch_async(&texts, 96, Duration::from_secs(1), embed);
    /// assert_eq!(worker.limit(2).run_async().await?.done, 2);
    /// # Ok::<(), tubewell::Error>(()) }).unwrap();
    /// ```
    pub fn on_batch_async<T: Send + Sync + 'static, F>(
        mut self,
        tube: &Tube<T>,
        most: usize,
        within: Duration,
        handler: impl Fn(Vec<AsyncJob<T>>) -> F + Send + Sync + 'static,
    ) -> Worker
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = BatchHandler::future(tube.coder().clone(), handler);
        self.add(tube, Handler::Batch(Box::new(Batch::new(most, within, handler))));
        self
    }

    /// How many jobs run at a time: as many threads with [`start`](Worker::start), and as many
    /// futures with [`run_async`](Worker::run_async). 1 to 1024. Default: 1.
    pub fn concurrency(mut self, jobs: usize) -> Worker {
        self.concurrency = jobs;
        self
    }

    /// The order in which the tubes are asked for the next task. Default: [`Order::Listed`].
    pub fn order(mut self, order: Order) -> Worker {
        self.order = order;
        self
    }

    /// How long a job may run. Default: without a limit, also if the tube has a ttr: the worker
    /// holds the task until the handler has returned. No heartbeat is needed.
    ///
    /// When the time has elapsed, the claim expires as by the ttr: the attempt counts, and another worker may
    /// get the task. The future of an async handler is polled once more and then dropped, and the worker goes on
    /// with the next task; what must be undone belongs into a `Drop`. A
    /// [`reclaim_delay`](crate::TubeOptions::reclaim_delay) delays this. A handler on a thread is told:
    /// [`Job::check`] returns an error, and [`Job::cancelled`] ends; its thread works on until it returns. Both jobs
    /// are reported as [`TimedOut`](Report::TimedOut).
    ///
    /// If the claim ends earlier for another reason, for instance because the task was deleted, the handler is told
    /// in the same way, and goes on. Its time goes on too: the future of an async handler is dropped once `most` has
    /// elapsed since the begin of the job. Without a limit it keeps its place until it returns.
    ///
    /// The tubes need a driver with a ttr. A task with a limit of [its own](crate::Put::max_runtime), and one of a tube
    /// with [`max_runtime`](crate::TubeOptions::max_runtime), has the shorter of both limits: the tube's is that when
    /// the worker begins. Measured on the running time of the
    /// store's clock. `most` must be above zero.
    ///
    /// # Example: a server that does not answer
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    /// use std::time::Duration;
    /// use tubewell::worker::{AsyncJob, Worker};
    /// use tubewell::{ManualClock, Store, TubeOptions};
    ///
    /// static WAITS: AtomicBool = AtomicBool::new(false);
    ///
    /// async fn fetch(job: AsyncJob) {
    ///     if job.body() == b"/slow" {
    ///         WAITS.store(true, SeqCst);
    ///         std::future::pending().await // the answer never comes
    ///     }
    /// }
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let pages = store.open_tube("pages", TubeOptions::new().max_attempts(1))?;
    /// pages.put_many(["/slow", "/"])?;
    /// let limit = Duration::from_secs(30);
    /// let worker = Worker::new(&store).on_async(&pages, fetch).max_runtime(limit).limit(2).start()?;
    /// while !WAITS.load(SeqCst) {
    ///     std::thread::yield_now(); // the time of a job counts from its begin
    /// }
    /// clock.advance(limit);
    /// let tally = worker.wait()?;
    /// assert_eq!((tally.timed_out, tally.done), (1, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn max_runtime(mut self, most: Duration) -> Worker {
        self.max_runtime = Some(most);
        self
    }

    /// How long a task is delayed after an attempt that has failed, if neither it nor its tube has a limit of
    /// attempts, and its tube has delays and no [`backoff`](crate::TubeOptions::backoff). Default:
    /// 1 s, twice as long after each further attempt, and at most an hour.
    /// [`Outcome::fail_in`](crate::Outcome::fail_in) says it for one attempt.
    ///
    /// The tube's own backoff is the better place: it also holds for attempts that are lost with their
    /// process. [`Backoff::none`] has a failed task tried again immediately.
    pub fn backoff(mut self, backoff: Backoff) -> Worker {
        self.retries.backoff = backoff;
        self
    }

    /// After how many attempts a task that has failed is buried, if neither it nor its tube has a limit
    /// ([`TubeOptions::max_attempts`](crate::TubeOptions::max_attempts),
    /// [`Put::max_attempts`](crate::Put::max_attempts)). Default: 25. Above zero; `u32::MAX` is no limit.
    ///
    /// All attempts count, also those that were released or lost; but only a failure buries the task. A task
    /// that fails by the outcome of a [transaction](crate::Store#method.transact) is left to its tube. A
    /// tube without delays has its attempts one after the other: give it a limit that fits an outage.
    ///
    /// The tube's own limit is the better place: it also holds for tasks that kill their workers, and its
    /// attempts survive a restart.
    ///
    /// # Example: a handler that always fails
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Backoff, Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let id = jobs.put("hopeless")?.id;
    /// let fails = |_: &Job| Err::<(), _>("it never works");
    /// let worker = Worker::new(&store).on(&jobs, fails).backoff(Backoff::none()).max_attempts(3);
    /// assert_eq!(worker.run_until_idle()?.failed, 3);
    /// assert_eq!(jobs.query().task(id)?.info.state, TaskState::Buried);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn max_attempts(mut self, limit: u32) -> Worker {
        self.retries.max_attempts = limit;
        self
    }

    /// The worker ends after exactly this many jobs. 0 ends it immediately. Default: without a
    /// limit.
    pub fn limit(mut self, jobs: u64) -> Worker {
        self.limit = Some(jobs);
        self
    }

    /// The function that names the failure groups of the errors that handlers return. Default: that
    /// of [`Failure::of`](crate::Failure::of) names all. `None` leaves an error to that.
    ///
    /// A tube lists and counts its buried tasks by group, so a group names a cause, and no task. It
    /// has 1 to 255 bytes; with another length the attempt fails in the group `refused`. An
    /// `anyhow::Error` hides its own type; `error.source()` and the causes behind it can be downcast.
    /// A worker uses at most 256 groups besides those of this function; further errors are in the
    /// group `Error`.
    ///
    /// # Example
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Store, TubeOptions};
    ///
    /// #[derive(Debug, thiserror::Error)]
    /// #[error("the server answers {0}")]
    /// struct Answer(u16);
    ///
    /// let store = Store::in_memory()?;
    /// let pages = store.open_tube("pages", TubeOptions::new().max_attempts(1))?;
    /// pages.put("https://example.org")?;
    /// let fetch = |_: &Job| Err::<(), _>(Answer(503));
    /// let worker = Worker::new(&store).on(&pages, fetch).failure_group(|error| {
    ///     let answer: &Answer = error.downcast_ref()?;
    ///     Some(format!("status {}", answer.0))
    /// });
    /// worker.run_until_idle()?;
    /// assert_eq!(pages.query().groups()?[0].name, "status 503");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn failure_group(
        mut self,
        name: impl Fn(&(dyn StdError + 'static)) -> Option<String> + Send + Sync + 'static,
    ) -> Worker {
        self.failure_group = Some(Box::new(name));
        self
    }

    /// A function around the handlers on threads, for the work that all jobs share: a span of a trace, a connection
    /// of a pool, a check before the work. Other job systems call it middleware.
    ///
    /// The function gets the job, with its body as bytes, and goes on with [`Next::run`], which returns how the
    /// handler has ended. The function returns the same, or another end ([`Handled::of`]). The function need not run
    /// the handler. Of several functions, the first one is the outermost. A panic of a function fails the attempt, as
    /// a panic of a handler does.
    ///
    /// It is not called for [batches](Worker::on_batch). To report ends, use [`watch`](Worker::watch), which knows
    /// what became of the task.
    ///
    /// # Example: work that waits while a service is down
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// use std::time::Duration;
    /// use tubewell::worker::{Handled, Job, Worker};
    /// use tubewell::{Outcome, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// mails.put_many(["ann", "bob"])?;
    /// let is_down = Arc::new(AtomicBool::new(false));
    /// let down = is_down.clone();
    /// let send = move |job: &Job| match job.body() {
    ///     b"ann" => Err("the server is down"),
    ///     _ => Ok(()),
    /// };
    /// let worker = Worker::new(&store).on(&mails, send).around(move |job, next| {
    ///     if down.load(Relaxed) {
    ///         return Handled::of(job, Outcome::snooze(Duration::from_secs(60)));
    ///     }
    ///     let handled = next.run();
    ///     down.store(handled.failure().is_some(), Relaxed);
    ///     handled
    /// });
    /// let tally = worker.run_until_idle()?;
    /// assert_eq!((tally.failed, tally.snoozed), (1, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "middleware")]
    #[doc(alias = "layer")]
    pub fn around(
        mut self,
        function: impl Fn(&Job, Next<'_>) -> Handled + Send + Sync + 'static,
    ) -> Worker {
        self.around.push(Box::new(function));
        self
    }

    /// As [`around`](Worker::around), around the handlers of [`on_async`](Worker::on_async).
    ///
    /// The time limit of a job ([`max_runtime`](Worker::max_runtime)) drops the future of the function with that
    /// of the handler.
    ///
    /// # Example: how long handlers run
    /// ```
    /// use std::sync::Mutex;
    /// use std::time::{Duration, Instant};
    /// use tubewell::worker::{AsyncJob, Worker};
    /// use tubewell::Store;
    ///
    /// static TIMES: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store = Store::in_memory()?;
    /// let pages = store.tube("pages")?;
    /// pages.put("/")?;
    /// let worker = Worker::new(&store).on_async(&pages, |_: AsyncJob| async {}).limit(1);
    /// let worker = worker.around_async(|_, next| async {
    ///     let begun = Instant::now();
    ///     let handled = next.run().await;
    ///     TIMES.lock().unwrap().push(begun.elapsed());
    ///     handled
    /// });
    /// worker.run_async().await?;
    /// assert_eq!(TIMES.lock().unwrap().len(), 1);
    /// # Ok::<(), tubewell::Error>(()) }).unwrap();
    /// ```
    pub fn around_async<F>(
        mut self,
        function: impl Fn(AsyncJob, AsyncNext) -> F + Send + Sync + 'static,
    ) -> Worker
    where
        F: Future<Output = Handled> + Send + 'static,
    {
        self.around_async.push(Box::new(move |job, next| {
            let handled = function(job, next);
            Box::pin(async move { handled.await.how })
        }));
        self
    }

    /// The function that is called after each end of a job and each error of a take. Default: none.
    ///
    /// It is called on the threads of the worker, after the end of a job on the thread that ran the
    /// job, and while futures are polled. A slow one delays the next job. A panic in it is ignored.
    pub fn watch(mut self, watch: impl Fn(&Report) + Send + Sync + 'static) -> Worker {
        self.watch = Some(Box::new(watch));
        self
    }

    /// The function that runs the futures of handlers for [`run_async`](Worker::run_async), such as
    /// `|future| drop(tokio::spawn(future))`. Default: the worker's future polls them itself, one
    /// at a time.
    ///
    /// A handler whose future the function drops releases its task. If the worker stops, the attempt does not count.
    pub fn spawn_with(mut self, spawn: impl Fn(SpawnedFuture) + Send + Sync + 'static) -> Worker {
        self.spawn = Some(Box::new(spawn));
        self
    }

    /// Returns a handle that stops the worker from elsewhere, once it runs.
    ///
    /// # Example: a worker that one of its jobs stops
    /// ```
    /// use tubewell::worker::Worker;
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put_many(["one", "two", "last", "four"])?;
    /// let worker = Worker::new(&store);
    /// let stopper = worker.stopper();
    /// let stop = move |job: &tubewell::worker::Job| {
    ///     if job.body() == b"last" {
    ///         stopper.stop();
    ///     }
    /// };
    /// assert_eq!(worker.on(&jobs, stop).run_until_idle()?.done, 3);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Starts the worker: it begins a session, and as many threads as it runs jobs. They wait for
    /// tasks without polling, and cost nothing while there are none.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid): the worker has no tube, two handlers for the same tasks, a
    /// [batch](Worker::on_batch) of no job or of more than 10,000, another handler for its tube, functions
    /// [around](Worker::around) handlers that it does not have, a tube or a session of
    /// another store, a concurrency that is not 1 to 1024, a [`max_runtime`](Worker::max_runtime) or
    /// [`max_attempts`](Worker::max_attempts) of zero, a [`backoff`](Worker::backoff) that a tube refuses, or
    /// too long a name. [`Unsupported`](Error::Unsupported): [`max_runtime`](Worker::max_runtime) and a tube
    /// whose claims do not expire.
    /// [`Io`](Error::Io): a thread could not be started. The errors of every call. Nothing was
    /// started.
    pub fn start(self) -> Result<WorkerHandle> {
        WorkerHandle::start(self.into_pool(false)?, 0)
    }

    /// Works until no task is ready and no job runs, and returns how the jobs have ended. For
    /// tests, and for programs that work off what there is and exit.
    ///
    /// The worker waits for ready tasks that only the [rate](crate::TubeOptions::rate) of their tube or
    /// sub-queue or the [cooldown](crate::TubeOptions::sub_queue_cooldown) of their sub-queue holds back. It
    /// does not wait for tasks that are delayed, or that wait for other tasks. The first handler runs on this
    /// thread, and with a [concurrency](Worker::concurrency) of 1 all of them do. The call blocks until
    /// then, until the [limit](Worker::limit), or until a [stop](Worker::stopper).
    ///
    /// # Errors
    /// Those of [`start`](Worker::start) and of [`WorkerHandle::wait`].
    ///
    /// # Example
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let numbers = store.tube("numbers")?.typed::<u64>();
    /// numbers.put_many(&[1, 2, 3])?;
    /// let halve = {
    ///     let numbers = numbers.clone();
    ///     move |job: &Job<u64>| match job.value() / 2 {
    ///         0 => Ok(()),
    ///         half => numbers.put(&half).map(drop),
    ///     }
    /// };
    /// assert_eq!(Worker::new(&store).on(&numbers, halve).run_until_idle()?.done, 5);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn run_until_idle(self) -> Result<Tally> {
        let worker = WorkerHandle::start(self.into_pool(true)?, 1)?;
        worker.run_lane_here(0);
        worker.wait()
    }

    /// The worker as a future, for any runtime or none. It polls up to
    /// [`concurrency`](Worker::concurrency) handlers itself, or hands them to
    /// [`spawn_with`](Worker::spawn_with). It needs no timer, and wakes only for tasks and
    /// handlers. Its session begins with this call.
    pub fn run_async(self) -> WorkerFuture {
        WorkerFuture::new(match self.tubes.iter().find(|registered| registered.has_blocking()) {
            None => self.into_pool_async(),
            Some(registered) => Err(Error::invalid(format!(
                "a handler of tube {:?} blocks, and run_async polls handlers that do not; add it with \
                 on_async or on_batch_async, or start the worker on threads",
                registered.tube.name()
            ))),
        })
    }

    fn add<T>(&mut self, tube: &Tube<T>, handler: Handler) {
        let is_it = |registered: &&mut Registered| registered.tube.is_same(tube);
        let kind = tube.coder().kind().cloned();
        if let Some(registered) = self.tubes.iter_mut().find(is_it) {
            registered.add(kind, handler);
        } else {
            let mut registered = Registered::new(tube.to_bytes());
            registered.add(kind, handler);
            self.tubes.push(registered);
        }
    }

    /// The pool of a worker whose calls may block.
    fn into_pool(self, ends_when_idle: bool) -> Result<Pool> {
        let mut parts = self.into_parts(true, ends_when_idle)?;
        for registered in &mut parts.tubes {
            block_on(registered.begin(true, parts.max_runtime))?;
        }
        Ok(Pool::new(parts))
    }

    /// As `into_pool`, as a future that blocks no thread. A stop ends its waits.
    fn into_pool_async(self) -> Result<CallFuture<Pool>> {
        let mut parts = self.into_parts(false, false)?;
        Ok(CallFuture::new(async move {
            for registered in &mut parts.tubes {
                let begins = registered.begin(false, parts.max_runtime);
                // A worker that stops takes no task any more.
                let Some(begun) = unless_raised(&parts.stop, begins).await else { break };
                begun?;
            }
            Ok(Pool::new(parts))
        }))
    }

    fn into_parts(self, is_blocking: bool, ends_when_idle: bool) -> Result<Parts> {
        self.check()?;
        let session = match self.session {
            Some(session) => session,
            None => self.store.session(self.name)?,
        };
        Ok(Parts {
            handle: self.store.handle.clone(),
            session,
            tubes: self.tubes,
            order: self.order,
            max_runtime: self.max_runtime,
            retries: self.retries,
            groups: Arc::new(Groups::new(self.failure_group)),
            around: self.around,
            around_async: self.around_async.into(),
            watch: self.watch,
            limit: self.limit,
            stop: self.stopper.signal().clone(),
            ends_when_idle,
            is_blocking,
            spawn: self.spawn,
            concurrency: self.concurrency,
        })
    }

    fn check(&self) -> Result<()> {
        if self.tubes.is_empty() {
            return Err(Error::invalid(
                "a worker needs at least one tube; add it with its handler",
            ));
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.concurrency) {
            return Err(Error::invalid(format!(
                "a worker runs 1 to {MAX_CONCURRENCY} jobs at a time, not {}",
                self.concurrency
            )));
        }
        if self.max_runtime.is_some_and(|most| most.is_zero()) {
            return Err(Error::invalid(
                "the max_runtime of a worker must be above zero; no limit is the default",
            ));
        }
        self.retries.backoff.check()?;
        if self.retries.max_attempts == 0 {
            return Err(Error::invalid(
                "the max_attempts of a worker must be above zero; u32::MAX is no limit",
            ));
        }
        if let Some(session) = &self.session
            && !session.guard().handle.is_same_store(&self.store.handle)
        {
            return Err(Error::invalid(
                "the session belongs to another store; give one of the store of the worker",
            ));
        }
        let has_blocking = self.tubes.iter().any(|tube| tube.has_single(false));
        let has_async = self.tubes.iter().any(|tube| tube.has_single(true));
        for (is_idle, what, on) in [
            (!self.around.is_empty() && !has_blocking, "around", "on"),
            (!self.around_async.is_empty() && !has_async, "around_async", "on_async"),
        ] {
            if is_idle {
                return Err(Error::invalid(format!(
                    "the worker has functions of {what}, and no handler of {on}, so they would never be called"
                )));
            }
        }
        for registered in &self.tubes {
            registered.tube.check_store(&self.store.handle)?;
            registered.check_handlers()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("name", &self.name)
            .field("concurrency", &self.concurrency)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
