//! apalis-sqlite: threads push tasks, and its event-driven worker runs a handler for each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis_core::backend::TaskSink;
use apalis_core::backend::ext::BackendExt;
use apalis_core::backend::ext::poll_strategy::Strategy;
use apalis_core::error::{BoxDynError, WorkerError};
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

use crate::ledger::Ledger;
use crate::queue::{
    About, Class, Losses, Outcome, Peer, Plan, Queue, Result, Setting, WakePlan, Work,
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
                   written in batches after the handler has returned."
                .into(),
        }
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let path = dir.join("apalis.sqlite");
        let url = format!("sqlite://{}?mode=rwc", path.to_str().ok_or("the path is not UTF-8")?);
        let (pool, listener) = runtime.block_on(connect(&url))?;
        let config = Config::default().queue("bench").batch_size(setting.shape.width());
        Ok(Box::new(Open { runtime, pool, listener, config, counts: Arc::default() }))
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
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Tasks that were pushed and not yet handled.
    waiting: AtomicU64,
    workers: AtomicU64,
}

/// The time at which the handler received a task, and the body of the task.
type Handled = (Instant, String);

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
        };
        Ok(Outcome { tasks, elapsed: start.elapsed() })
    }

    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        let (mut storage, worker) = (self.storage(), self.start_worker(None));
        let nanos = (0..plan.tasks).map(|n| {
            std::thread::sleep(uneven(plan.pause, n));
            self.push(&mut storage, &ledger.body())?;
            let returned = Instant::now();
            let (received, body) = worker.handled.recv_timeout(TIMEOUT)?;
            ledger.check(body.as_bytes());
            Ok(nanos_between(returned, received))
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
        let call = storage.push(str::from_utf8(body)?.to_owned());
        let answer = self.runtime.block_on(async { timeout(TIMEOUT, call).await })?;
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
            ledger.check(handled.recv_timeout(TIMEOUT)?.1.as_bytes());
            tasks += 1;
        }
        Ok(tasks)
    }

    /// Runs a worker until no task is left or the phase ends, and until its acks are in the file.
    fn take(&self, end: Instant, ledger: &Ledger) -> Result<u64> {
        if self.counts.waiting.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let (worker, mut tasks) = (self.start_worker(Some(end)), 0);
        let in_time = loop {
            match worker.handled.recv_timeout(TIMEOUT) {
                Ok((_, body)) => ledger.check(body.as_bytes()),
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
        let (counts, stop_here) = (self.counts.clone(), stop.clone());
        let handler = move |body: String| {
            handle(body, &sender, &counts, end, &stop_here);
            std::future::ready(Ok::<(), BoxDynError>(()))
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
    body: String,
    sender: &Sender<Handled>,
    counts: &Counts,
    end: Option<Instant>,
    stop_here: &Stop,
) {
    let now = Instant::now();
    // The receiver is dropped if the phase has failed.
    let _ = sender.send((now, body));
    let was = counts.waiting.fetch_sub(1, Ordering::Relaxed);
    if end.is_some_and(|end| was == 1 || now >= end) {
        stop(stop_here);
    }
}

fn stop(stop: &Stop) {
    if let Some(stop) = stop.lock().take() {
        let _ = stop.send(());
    }
}
