//! The phases: tasks of the runtime add jobs, and one worker runs them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use effectum::{Job, JobRunner, Queue, Retries, RunningJob, Worker};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ledger::{Ledger, Verdict};
use crate::wire::{Answer, Request};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A job that takes longer has failed.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(15);

const KIND: &str = "work";
/// The message of each failure and the result of each job are those of `src/queue.rs`.
const FAILURE: &str = "the first attempt fails";
const RESULT: &str = "0123456789abcdef";
/// A job has two retries, so that it has three attempts.
const RETRIES: u32 = 2;

/// Runs phases on an open queue.
pub struct Phases {
    queue: Arc<Queue>,
    ledger: Arc<Ledger>,
    /// Jobs that were added and have not run yet.
    waiting: Arc<AtomicU64>,
    /// Faults of earlier answers.
    reported: usize,
}

/// The state that each job runs with.
#[derive(Clone)]
struct Consumer {
    ledger: Arc<Ledger>,
    waiting: Arc<AtomicU64>,
    /// Has one permit for each completed job.
    done: Arc<Semaphore>,
    /// Receives the time at which each job was delivered.
    received: mpsc::UnboundedSender<Instant>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Consumer")
    }
}

/// A running worker.
struct RunningWorker {
    worker: Worker,
    done: Arc<Semaphore>,
    received: mpsc::UnboundedReceiver<Instant>,
}

impl Phases {
    pub fn new(queue: Arc<Queue>, ledger: Ledger) -> Phases {
        Phases { queue, ledger: Arc::new(ledger), waiting: Arc::default(), reported: 0 }
    }

    pub async fn run(&mut self, request: &Request) -> Result<Answer> {
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(request.seconds);
        let mut answer = Answer::default();
        let (put, taken) = (self.ledger.put(), self.ledger.taken());
        match request.work.as_str() {
            "put" => answer.tasks = self.callers(request.callers, end, None).await?,
            "take-ack" => answer.tasks = self.take(request, end).await?,
            "cycle" | "job" => answer.tasks = self.cycle(request, end).await?,
            "wake-up" => answer.nanos = self.wake_up(request).await?,
            other => return Err(format!("no such work: {other}").into()),
        }
        answer.seconds = start.elapsed().as_secs_f64();
        answer.put = self.ledger.put() - put;
        answer.taken = self.ledger.taken() - taken;
        let (_, faults) = self.ledger.faults();
        answer.faults = faults.into_iter().skip(self.reported).collect();
        self.reported += answer.faults.len();
        Ok(answer)
    }

    /// Runs tasks that add jobs. If `done` is given, each task waits for a permit after each job.
    async fn callers(
        &self,
        callers: usize,
        end: Instant,
        done: Option<&Arc<Semaphore>>,
    ) -> Result<u64> {
        let mut set = JoinSet::new();
        for _ in 0..callers {
            let (queue, ledger, waiting) =
                (self.queue.clone(), self.ledger.clone(), self.waiting.clone());
            let (done, retries) = (done.cloned(), retries(ledger.is_for_jobs(), callers));
            set.spawn(async move {
                let mut tasks = 0;
                while Instant::now() < end {
                    add(&queue, ledger.body(), &retries, &waiting).await?;
                    if let Some(done) = &done {
                        timeout(JOB_TIMEOUT, done.acquire()).await??.forget();
                    }
                    tasks += 1;
                }
                Result::Ok(tasks)
            });
        }
        set.join_all().await.into_iter().sum()
    }

    async fn take(&self, request: &Request, end: Instant) -> Result<u64> {
        let before = self.waiting.load(Ordering::Relaxed);
        if before == 0 {
            return Ok(0);
        }
        let worker = self.start_worker(request.callers).await?;
        let all = u32::try_from(before)?;
        let left = end.saturating_duration_since(Instant::now());
        // A timeout is the normal end of the phase.
        let _ = timeout(left, worker.done.acquire_many(all)).await;
        worker.stop().await?;
        Ok(before - self.waiting.load(Ordering::Relaxed))
    }

    async fn cycle(&self, request: &Request, end: Instant) -> Result<u64> {
        let worker = self.start_worker(request.callers).await?;
        let tasks = self.callers(request.callers, end, Some(&worker.done)).await;
        worker.stop().await?;
        tasks
    }

    async fn wake_up(&self, request: &Request) -> Result<Vec<i64>> {
        let mut worker = self.start_worker(1).await?;
        let mut nanos = Vec::with_capacity(request.tasks);
        for n in 0..request.tasks {
            let uneven = 0.5 + f64::from(u32::try_from(n * 7919 % 101)?) / 100.0;
            tokio::time::sleep(Duration::from_secs_f64(request.seconds * uneven)).await;
            add(&self.queue, self.ledger.body(), &retries(false, 1), &self.waiting).await?;
            let returned = Instant::now();
            let received = timeout(JOB_TIMEOUT, worker.received.recv()).await?;
            nanos.push(nanos_between(returned, received.ok_or("the worker has ended")?));
        }
        worker.stop().await?;
        Ok(nanos)
    }

    /// Starts a worker that runs up to `width` jobs at once.
    async fn start_worker(&self, width: usize) -> Result<RunningWorker> {
        let (sender, received) = mpsc::unbounded_channel();
        let done = Arc::new(Semaphore::new(0));
        let consumer = Consumer {
            ledger: self.ledger.clone(),
            waiting: self.waiting.clone(),
            done: done.clone(),
            received: sender,
        };
        let worker = Worker::builder(&self.queue, consumer)
            .max_concurrency(u16::try_from(width)?)
            .jobs([JobRunner::builder(KIND, run_job).build()])
            .build()
            .await?;
        Ok(RunningWorker { worker, done, received })
    }
}

impl RunningWorker {
    /// Stops the worker after it has completed the jobs that it has taken.
    async fn stop(self) -> Result<()> {
        Ok(self.worker.unregister(Some(JOB_TIMEOUT)).await?)
    }
}

/// The retries of a job without a backoff, or the default of other tasks.
///
/// A failure counts an attempt of all jobs in the file. With several callers, no limit that is small
/// lets each job fail once and succeed then.
fn retries(job: bool, callers: usize) -> Retries {
    if !job {
        return Retries::default();
    }
    Retries {
        max_retries: if callers == 1 { RETRIES } else { u32::MAX / 2 },
        backoff_initial_interval: Duration::ZERO,
        backoff_multiplier: 1.0,
        backoff_randomization: 0.0,
    }
}

async fn add(queue: &Queue, body: Vec<u8>, retries: &Retries, waiting: &AtomicU64) -> Result<()> {
    waiting.fetch_add(1, Ordering::Relaxed);
    let job = Job::builder(KIND).payload(body).retries(retries.clone());
    timeout(JOB_TIMEOUT, job.add_to(queue)).await??;
    Ok(())
}

/// Checks the body of a job and completes the job. A job of a phase of jobs fails first.
async fn run_job(job: RunningJob, consumer: Consumer) -> std::result::Result<(), effectum::Error> {
    let now = Instant::now();
    if consumer.ledger.is_for_jobs() {
        match consumer.ledger.check_job(&job.payload, None) {
            Verdict::Fail => return job.fail(FAILURE).await,
            Verdict::Ack => job.complete(RESULT).await?,
        }
    } else {
        consumer.ledger.check(&job.payload);
        job.complete(()).await?;
    }
    consumer.waiting.fetch_sub(1, Ordering::Relaxed);
    consumer.done.add_permits(1);
    // The receiver is dropped if the phase has failed.
    let _ = consumer.received.send(now);
    Ok(())
}

/// Nanoseconds from `from` to `to`; negative if `to` is before `from`.
fn nanos_between(from: Instant, to: Instant) -> i64 {
    let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    nanos(to.saturating_duration_since(from)) - nanos(from.saturating_duration_since(to))
}
