//! apalis-sqlite: threads push tasks, and its event-driven worker runs a handler for each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis_core::backend::TaskSink;
use apalis_core::backend::ext::BackendExt;
use apalis_core::backend::ext::poll_strategy::Strategy;
use apalis_core::error::{BoxDynError, WorkerError};
use apalis_core::task::attempt::Attempt;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::worker::builder::WorkerBuilder;
use apalis_sqlite::callback::HookCallbackListener;
use apalis_sqlite::{Config, SqlitePool, SqlitePoolOptions, SqliteStorage};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::ledger::{Ledger, Verdict};
use crate::queue::{
    ATTEMPTS, About, Class, FAILURE, Losses, Outcome, Peer, Plan, Queue, RESULT, Result, Setting,
    Shape, WakePlan, Work,
};
use crate::threads::{nanos_between, uneven};

/// The poll interval of the event-driven worker in its README.
const POLL: Duration = Duration::from_millis(500);
/// A call or a task that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(20);
/// `synchronous=FULL` of `SQLite`.
const FULL: i64 = 2;

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    std::iter::once(Box::new(Apalis) as Box<dyn Peer>)
}

struct Apalis;

impl Peer for Apalis {
    fn about(&self) -> About {
        About {
            name: "apalis-sqlite/full".into(),
            version: "1.0.0".into(),
            class: Class::Durable,
            loses: Losses::new(
                "the last batch of acks; its tasks run again",
                "the same",
                "the same",
            ),
            callers: "threads push; one worker takes batches of as many tasks as there are callers"
                .into(),
            waits: "SQLite's update hook and a poll every 500 ms".into(),
            note: "synchronous=FULL on all 10 connections of the pool. As shipped, setup() leaves \
                   its connection at synchronous=OFF, which loses tasks and may corrupt the file; \
                   here setup() runs on a separate connection, which is then closed. Acks are \
                   written in batches after the handler has returned. Jobs: max_attempts, the \
                   first attempt returns an error, the second one the result; the worker polls after \
                   it has written an ack, which returns a failed task; all results are kept, since it removes all or none."
                .into(),
        }
    }

    fn does_jobs(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let path = dir.join("apalis.sqlite");
        let url = format!("sqlite://{}?mode=rwc", path.to_str().ok_or("the path is not UTF-8")?);
        let (pool, listener) = runtime.block_on(connect(&url))?;
        let config = Config::default().queue("bench").batch_size(setting.shape.width());
        let (jobs, counts) = (setting.jobs, Arc::default());
        Ok(Box::new(Open { runtime, pool, listener, config, jobs, counts }))
    }
}

async fn connect(url: &str) -> Result<(SqlitePool, HookCallbackListener)> {
    let only_for_setup = SqlitePoolOptions::new().max_connections(1).connect(url).await?;
    SqliteStorage::setup(&only_for_setup).await?;
    only_for_setup.close().await;
    let (pool, listener) = SqliteStorage::connect_with_callback(url)?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&pool).await?;
    if synchronous == FULL { Ok((pool, listener)) } else { Err("not synchronous=FULL".into()) }
}

struct Open {
    runtime: Runtime,
    pool: SqlitePool,
    listener: HookCallbackListener,
    config: Config,
    jobs: bool,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Tasks that were pushed and not yet handled; jobs whose second attempt was not yet handled.
    waiting: AtomicU64,
    workers: AtomicU64,
}

/// A task that the handler has received.
struct Handled {
    at: Instant,
    body: String,
    attempt: u32,
}

/// The sender that stops a worker, until it is used.
type Stop = Arc<Mutex<Option<oneshot::Sender<()>>>>;

/// A running worker.
struct RunningWorker {
    handled: Receiver<Handled>,
    stop: Stop,
    task: JoinHandle<std::result::Result<(), WorkerError>>,
}

impl Queue for Open {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        let start = Instant::now();
        let end = start + plan.limit;
        let tasks = match plan.work {
            Work::Put => self.callers(plan, |storage| self.put(storage, end, ledger))?,
            Work::TakeAck => self.take(end, ledger)?,
            Work::Cycle => {
                let worker = self.start_worker(None);
                let handled = &worker.handled;
                let tasks = self.callers(plan, |storage| self.cycle(storage, handled, end, ledger));
                let stopped = self.stop_worker(worker);
                tasks.and_then(|tasks| stopped.map(|()| tasks))?
            }
            Work::Job => {
                let worker = self.start_worker(None);
                let handled = Mutex::new(&worker.handled);
                let tasks = self.callers(plan, |storage| self.job(storage, &handled, end, ledger));
                let stopped = self.stop_worker(worker);
                tasks.and_then(|tasks| stopped.map(|()| tasks))?
            }
        };
        Ok(Outcome { tasks, elapsed: start.elapsed() })
    }

    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        let (mut storage, worker) = (self.storage(), self.start_worker(None));
        let nanos = (0..plan.tasks).map(|n| {
            std::thread::sleep(uneven(plan.pause, n));
            self.push(&mut storage, &ledger.body())?;
            let returned = Instant::now();
            let handled = worker.handled.recv_timeout(TIMEOUT)?;
            ledger.check(handled.body.as_bytes());
            Ok(nanos_between(returned, handled.at))
        });
        let nanos = nanos.collect::<Result<Vec<i64>>>();
        let stopped = self.stop_worker(worker);
        nanos.and_then(|nanos| stopped.map(|()| nanos))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.runtime.block_on(async { timeout(TIMEOUT, self.pool.close()).await })?;
        self.runtime.shutdown_timeout(TIMEOUT);
        Ok(())
    }
}

impl Open {
    fn storage(&self) -> SqliteStorage<String> {
        SqliteStorage::new(&self.pool).with_config(self.config.clone())
    }

    /// Runs `call` in one thread per caller of the plan; returns the total number of tasks.
    fn callers(
        &self,
        plan: &Plan,
        call: impl Fn(&mut SqliteStorage<String>) -> Result<u64> + Sync,
    ) -> Result<u64> {
        let one = || call(&mut self.storage());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.shape.width()).map(|_| scope.spawn(one)).collect();
            let done = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a caller panicked".into())))
                .collect::<Result<Vec<u64>>>()?;
            Ok(done.into_iter().sum())
        })
    }

    fn push(&self, storage: &mut SqliteStorage<String>, body: &[u8]) -> Result<()> {
        self.counts.waiting.fetch_add(1, Ordering::Relaxed);
        let body = str::from_utf8(body)?.to_owned();
        let answer = if self.jobs {
            let job = TaskBuilder::new(body).max_attempts(usize::try_from(ATTEMPTS)?).build();
            self.runtime.block_on(async { timeout(TIMEOUT, storage.push_task(job)).await })?
        } else {
            self.runtime.block_on(async { timeout(TIMEOUT, storage.push(body)).await })?
        };
        Ok(answer.map_err(|error| error.to_string())?)
    }

    fn put(
        &self,
        storage: &mut SqliteStorage<String>,
        end: Instant,
        ledger: &Ledger,
    ) -> Result<u64> {
        let mut tasks = 0;
        while Instant::now() < end {
            self.push(storage, &ledger.body())?;
            tasks += 1;
        }
        Ok(tasks)
    }

    /// Pushes a task and waits until a task was handled, repeatedly.
    fn cycle(
        &self,
        storage: &mut SqliteStorage<String>,
        handled: &Receiver<Handled>,
        end: Instant,
        ledger: &Ledger,
    ) -> Result<u64> {
        let mut tasks = 0;
        while Instant::now() < end {
            self.push(storage, &ledger.body())?;
            ledger.check(handled.recv_timeout(TIMEOUT)?.body.as_bytes());
            tasks += 1;
        }
        Ok(tasks)
    }

    /// Pushes a job and waits for two attempts of any jobs, repeatedly. Returns the number of second
    /// attempts. The lock keeps the checks in the order of the attempts.
    fn job(
        &self,
        storage: &mut SqliteStorage<String>,
        handled: &Mutex<&Receiver<Handled>>,
        end: Instant,
        ledger: &Ledger,
    ) -> Result<u64> {
        let mut done = 0;
        while Instant::now() < end {
            self.push(storage, &ledger.body())?;
            for _ in 0..2 {
                let receiver = handled.lock();
                let handled = receiver.recv_timeout(TIMEOUT)?;
                let verdict = ledger.check_job(handled.body.as_bytes(), Some(handled.attempt));
                done += u64::from(verdict == Verdict::Ack);
            }
        }
        Ok(done)
    }

    /// Runs a worker until no task is left or the phase ends, and until its acks are in the file.
    fn take(&self, end: Instant, ledger: &Ledger) -> Result<u64> {
        if self.counts.waiting.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let (worker, mut tasks) = (self.start_worker(Some(end)), 0);
        let in_time = loop {
            match worker.handled.recv_timeout(TIMEOUT) {
                Ok(handled) => ledger.check(handled.body.as_bytes()),
                Err(RecvTimeoutError::Disconnected) => break Ok(tasks),
                Err(RecvTimeoutError::Timeout) => break Err("a task was not delivered".into()),
            }
            tasks += 1;
        };
        let stopped = self.stop_worker(worker);
        in_time.and_then(|tasks| stopped.map(|()| tasks))
    }

    /// Starts a worker. If `end` is given, the worker stops then, or when no task is left.
    fn start_worker(&self, end: Option<Instant>) -> RunningWorker {
        let (sender, handled) = unbounded();
        let (stop, stopped) = oneshot::channel();
        let stop = Arc::new(Mutex::new(Some(stop)));
        let (counts, stop_here, jobs) = (self.counts.clone(), stop.clone(), self.jobs);
        let handler = move |body: String, attempt: Attempt| {
            let attempt = u32::try_from(attempt.current()).unwrap_or(u32::MAX);
            let fails = jobs && attempt == 1;
            if !fails {
                counts.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            let handled = Handled { at: Instant::now(), body, attempt };
            handle(handled, &sender, &counts, end, &stop_here);
            std::future::ready(match (jobs, fails) {
                (true, true) => Err(BoxDynError::from(FAILURE)),
                (true, false) => Ok(Some(RESULT.to_owned())),
                (false, _) => Ok(None),
            })
        };
        let listener = self.listener.clone().ready_chunks(self.config.batch_size);
        let backend =
            self.storage().poll_with_strategy(Strategy::new().stream(listener).interval(POLL));
        let number = self.counts.workers.fetch_add(1, Ordering::Relaxed);
        let worker = WorkerBuilder::new(format!("worker-{number}")).backend(backend).build(handler);
        let until = async {
            // An error means that the sender was dropped: stop as well.
            let _ = stopped.await;
            Ok::<(), WorkerError>(())
        };
        RunningWorker { handled, stop, task: self.runtime.spawn(worker.run_until(until)) }
    }

    fn stop_worker(&self, worker: RunningWorker) -> Result<()> {
        stop(&worker.stop);
        let ended = self.runtime.block_on(async { timeout(TIMEOUT, worker.task).await });
        Ok(ended???)
    }
}

fn handle(
    handled: Handled,
    sender: &Sender<Handled>,
    counts: &Counts,
    end: Option<Instant>,
    stop_here: &Stop,
) {
    let ended = end.is_some_and(|end| handled.at >= end);
    // The receiver is dropped if the phase has failed.
    let _ = sender.send(handled);
    if ended || end.is_some() && counts.waiting.load(Ordering::Relaxed) == 0 {
        stop(stop_here);
    }
}

fn stop(stop: &Stop) {
    if let Some(stop) = stop.lock().take() {
        let _ = stop.send(());
    }
}
