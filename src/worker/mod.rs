//! Workers: they take the tasks of tubes, call a function for each of them, and end the tasks as
//! the functions say.
//!
//! A [`Worker`] runs on threads, or as a future of any runtime. It needs no heartbeat, polls
//! nothing, and costs nothing while there are no tasks.
//!
//! # Example: a worker for two tubes
//! ```
//! use std::time::Duration;
//! use tubewell::worker::{Job, Worker};
//! use tubewell::{Result, Store, TubeOptions};
//!
//! fn main() -> Result<()> {
//! #   let dir = tempfile::tempdir().unwrap();
//! #   let path = dir.path().join("app.tubewell");
//!     let store = Store::open(&path)?;
//!     let options = || TubeOptions::new().max_attempts(5);
//!     let mails = store.open_tube("mails", options())?.typed::<String>();
//!     let films = store.open_tube("films", options())?;
//!     mails.put("to: ann")?;
//!
//!     let send = |job: &Job<String>| println!("sending {}", job.value());
//!     let encode = |job: &Job| println!("encoding {} bytes", job.body().len());
//!     let worker = Worker::new(&store).on(&mails, send).on(&films, encode).concurrency(4).start()?;
//!     // ... the program does its work, until it is asked to end
//! #   while mails.statistics()?.tasks.done == 0 { std::thread::yield_now(); }
//!     worker.stop(Duration::from_secs(30))?;
//!     Ok(())
//! }
//! ```
//!
//! # The return value decides
//! A handler that returns `()` or `Ok(())` has done the task: it is acked. An `Err` of any error
//! type fails the attempt. The limit of [attempts](crate::TubeOptions::max_attempts) and the
//! [backoff](crate::TubeOptions::backoff) of the tube decide what becomes of the task; where there is no limit,
//! the worker has [one](Worker::max_attempts). An
//! [`Outcome`](crate::Outcome) says anything else: a result, the next tube of a pipeline, a delay, a
//! dead letter. A panic fails the
//! attempt, a body that cannot be decoded is buried, and the worker goes on in both cases. If the
//! store refuses an outcome, for instance to advance to a tube that is full, the attempt fails in
//! the group `refused`.
//!
//! ```
//! use std::time::Duration;
//! use tubewell::worker::{Job, Worker};
//! use tubewell::{Backoff, Failure, Outcome, Store, TaskState, TubeOptions};
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("the server answered {0}")]
//! struct ServerError(u16);
//!
//! fn post(job: &Job<u16>) -> Result<Outcome, ServerError> {
//!     match job.value() {
//!         200 => Ok(Outcome::result("created")),
//!         400 => Ok(Outcome::bury(Failure::new("bad request", "no attempt can do it"))),
//!         503 => Ok(Outcome::snooze(Duration::from_secs(60))), // the attempt does not count
//!         code => Err(ServerError(*code)),
//!     }
//! }
//!
//! let store = Store::in_memory()?;
//! let options = TubeOptions::new().backoff(Backoff::exponential(Duration::from_secs(1)));
//! let posts = store.open_tube("posts", options)?.typed::<u16>();
//! posts.put_many(&[200, 400, 503, 500])?;
//! let tally = Worker::new(&store).on(&posts, post).run_until_idle()?;
//! assert_eq!((tally.done, tally.buried, tally.snoozed, tally.failed), (1, 1, 1, 1));
//! let failed = posts.query().task(3)?.info;
//! assert_eq!((failed.state, failed.failure.unwrap().group.as_str()), (TaskState::Delayed, "ServerError"));
//! # Ok::<(), tubewell::Error>(())
//! ```
//!
//! # Jobs that take long
//! A worker holds a task while its handler runs, whatever the ttr of the tube, so that no heartbeat hides a
//! job that hangs. [`Worker::max_runtime`] limits it. In a loop, call [`Job::check`] with `?`: it returns an
//! error when the worker stops or the claim has ended. While a handler waits, use [`Job::cancelled`] or
//! [`Job::wait_cancelled`]. A job of several steps names them with [`step`](crate::Claim::step), so that the
//! next attempt goes on where this one was; it can [sleep](Job::sleep) for days and [join](Job::join) other
//! tasks without a worker.
//!
//! # Batches
//! [`Worker::on_batch`] calls its handler with many jobs at a time, for work that is cheaper together, such
//! as the rows of one insert. A batch ends at a number of jobs, or after a time. [`Job::set_outcome`] gives a
//! single job an end of its own.
//!
//! # Tubes without delays
//! `fifo` and `utube` have no delays. If a job asks for one there
//! ([`Outcome::snooze`](crate::Outcome::snooze), [`Outcome::release_in`](crate::Outcome::release_in),
//! [`Outcome::fail_in`](crate::Outcome::fail_in), [`Job::sleep`]), the worker holds the claim on its task
//! for that time: no take gets the task before, and the worker runs one job less meanwhile. A stop
//! ends that time early. Use `fifottl` or `utubettl` for long delays.
//!
//! # Async
//! An async handler gets an [`AsyncJob`], whose calls are awaited.
//! [`Worker::run_async`] is the worker as a future. It polls up to [`Worker::concurrency`] handlers
//! itself, or hands them to [`Worker::spawn_with`], such as `tokio::spawn`.
//!
//! ```
//! use tubewell::worker::{AsyncJob, Worker};
//! use tubewell::{Result, Store};
//!
//! async fn fetch(job: AsyncJob<String>) -> Result<()> {
//!     // ... with an asynchronous client
//! #   let _ = job;
//!     Ok(())
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = Store::in_memory()?;
//! let pages = store.tube("pages")?.typed::<String>();
//! pages.put_many(&["/".to_owned(), "/about".to_owned()])?;
//! let worker = Worker::new(&store).on_async(&pages, fetch).concurrency(100).limit(2);
//! let tally = worker.spawn_with(|handler| drop(tokio::spawn(handler))).run_async().await?;
//! assert_eq!(tally.done, 2);
//! # Ok::<(), tubewell::Error>(()) }).unwrap();
//! ```
//!
//! # Stops and errors
//! [`WorkerHandle::stop`] is a graceful shutdown: the worker takes no further task, and its jobs have a time
//! to end. The tasks of jobs that still run then are released, and their attempts do not count. A [`Stopper`]
//! asks for the stop from elsewhere, and [`WorkerFuture::stop_timeout`] limits the time of a worker that is a
//! future.
//!
//! A worker whose take fails, or that cannot store the end of a job, pauses (100 ms, doubling to 5 s) and
//! goes on. While the disk is full, the storage fails or the owner of the store cannot be reached, the worker
//! holds the task of a job that has ended, and repeats the end after each pause, so that the work of the job
//! is not lost. After a stop, the worker repeats an end for at most 5 s, and never longer than the timeout of
//! the stop. If the store could not carry out a call of the job, and the handler returns an error, the
//! attempt does not count: see [`IntoOutcome`](crate::IntoOutcome). [`Worker::watch`] reports each end and
//! each error.
//!
//! If the process dies, its tasks are ready at the next open: a job runs at least once, so its work
//! must be idempotent. docs/semantics.md has the details.

mod around;
mod batch;
mod builder;
mod end_many;
mod ending;
mod ends;
mod full_disk;
mod future;
mod gather;
mod groups;
mod handle;
mod handled;
mod how;
mod idle;
mod job;
mod lane;
mod order;
mod pause;
mod permits;
mod pool;
mod report;
mod retries;
mod source;
mod spawned;
mod stop;
mod stop_timer;
mod stopper;
mod timeout;
mod timer;
mod trace;

pub use around::{AsyncNext, Next};
pub use builder::Worker;
pub use future::WorkerFuture;
pub use handle::WorkerHandle;
pub use handled::Handled;
pub use job::{AsyncJob, Cancelled, Job};
pub use order::Order;
pub use report::{Ended, Left, Report, Tally};
pub use stopper::Stopper;
