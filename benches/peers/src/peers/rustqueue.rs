//! rustqueue on its three redb storages: one commit per call, one commit for several calls, or
//! memory with snapshots.

use std::path::Path;
use std::time::{Duration, Instant};

use rustqueue::storage::{BufferedRedbConfig, HybridConfig};
use rustqueue::{BackoffStrategy, JobId, JobOptions, RustQueue};
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::ledger::Ledger;
use crate::queue::{
    ATTEMPTS, About, Class, FAILURE, Losses, Outcome, Peer, Plan, Queue, RESULT, Result, Setting,
    Shape, WakePlan,
};
use crate::threads::{self, Caller, Verbs, nanos_between, uneven};

const QUEUE: &str = "bench";
/// The poll interval of its `run_worker`.
const POLL: Duration = Duration::from_millis(500);
/// The poll interval of callers of jobs. Another caller is about to fail a job, which is then ready.
const JOB_POLL: Duration = Duration::from_millis(1);
/// A call that takes longer has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
enum Storage {
    Immediate,
    Buffered,
    Hybrid,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Storage::Immediate, Storage::Buffered, Storage::Hybrid]
        .into_iter()
        .map(|storage| Box::new(Rustqueue(storage)) as Box<dyn Peer>)
}

struct Rustqueue(Storage);

impl Peer for Rustqueue {
    fn about(&self) -> About {
        let (name, class, loses, note) = match self.0 {
            Storage::Immediate => {
                let note = "Put, pull and ack are each a commit.";
                ("immediate", Class::Durable, Losses::nothing(), note)
            }
            Storage::Buffered => {
                let note = "Put and ack wait for a commit every 10 ms or 100 operations; a pull is \
                            a separate commit.";
                ("buffered", Class::Durable, Losses::nothing(), note)
            }
            Storage::Hybrid => {
                let lost = "all changes since the last snapshot (1 s or 5000 changes) and all \
                            waiting tasks, which are not loaded on open";
                let note = "It may deadlock if its callers run on a runtime of two workers, because \
                            its snapshot holds a lock across an await. Here callers are threads \
                            outside the runtime.";
                ("hybrid", Class::Weaker, Losses::new(lost, "the same", "the same"), note)
            }
        };
        About {
            name: format!("rustqueue/{name}"),
            version: "0.3.0".into(),
            class,
            loses,
            callers: "threads that block on its futures, outside its tokio runtime".into(),
            waits: "polls every 500 ms, as its run_worker does".into(),
            note: format!(
                "pull(1), ack, remove_on_complete; bodies are JSON strings. {note} Jobs: max_attempts, \
                 a fixed backoff of 0, fail is a read and a commit; all results are kept, since it \
                 removes them by age only; a caller that finds no job polls every ms."
            ),
        }
    }

    fn does_jobs(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build()?;
        let entered = runtime.enter();
        let file = dir.join("rustqueue.redb");
        let queue = match self.0 {
            Storage::Immediate => RustQueue::redb(file)?,
            Storage::Buffered => {
                RustQueue::redb(file)?.with_write_coalescing(BufferedRedbConfig::default())
            }
            Storage::Hybrid => RustQueue::hybrid(file)?.with_hybrid_config(HybridConfig::default()),
        }
        .build()?;
        drop(entered);
        Ok(Box::new(Open { queue, runtime, jobs: setting.jobs }))
    }
}

struct Open {
    queue: RustQueue,
    runtime: Runtime,
    jobs: bool,
}

impl Queue for Open {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        threads::run(self, plan, ledger)
    }

    /// Puts the tasks without waiting for acks, since a consumer polls only twice a second.
    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        let (mut producer, mut consumer) = (self.caller()?, self.caller()?);
        std::thread::scope(|scope| {
            let consumed = scope.spawn(move || -> Result<Vec<Instant>> {
                let mut received = Vec::with_capacity(plan.tasks);
                while received.len() < plan.tasks {
                    let task = consumer.wait(CALL_TIMEOUT)?.ok_or("a task was not delivered")?;
                    received.push(Instant::now());
                    ledger.check(task.as_ref());
                    consumer.ack(task)?;
                }
                Ok(received)
            });
            let mut returned = Vec::with_capacity(plan.tasks);
            for n in 0..plan.tasks {
                std::thread::sleep(uneven(plan.pause, n));
                producer.put(&ledger.body())?;
                returned.push(Instant::now());
            }
            let received = consumed.join().map_err(|_| "the consumer panicked")??;
            Ok(returned
                .into_iter()
                .zip(received)
                .map(|(put, taken)| nanos_between(put, taken))
                .collect())
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Verbs::close(*self)
    }
}

impl Verbs for Open {
    type Caller = Client;

    fn caller(&self) -> Result<Client> {
        let (queue, runtime) = (self.queue.clone(), self.runtime.handle().clone());
        Ok(Client { queue, runtime, jobs: self.jobs })
    }

    fn close(self) -> Result<()> {
        let entered = self.runtime.enter();
        drop(self.queue);
        drop(entered);
        self.runtime.shutdown_timeout(CALL_TIMEOUT);
        Ok(())
    }
}

struct Client {
    queue: RustQueue,
    runtime: Handle,
    jobs: bool,
}

struct Pulled {
    id: JobId,
    body: String,
    /// Attempts that have failed.
    failed: u32,
}

impl AsRef<[u8]> for Pulled {
    fn as_ref(&self) -> &[u8] {
        self.body.as_bytes()
    }
}

impl Client {
    fn options(&self) -> JobOptions {
        if !self.jobs {
            return JobOptions { remove_on_complete: Some(true), ..JobOptions::default() };
        }
        JobOptions {
            max_attempts: Some(ATTEMPTS),
            backoff: Some(BackoffStrategy::Fixed),
            backoff_delay_ms: Some(0),
            ..JobOptions::default()
        }
    }

    fn within<T, E: std::fmt::Display>(
        &self,
        call: impl Future<Output = std::result::Result<T, E>>,
    ) -> Result<T> {
        let answer =
            self.runtime.block_on(async { tokio::time::timeout(CALL_TIMEOUT, call).await });
        Ok(answer?.map_err(|error| error.to_string())?)
    }
}

impl Caller for Client {
    type Task = Pulled;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let data = Value::String(str::from_utf8(body)?.to_owned());
        let options = self.options();
        self.within(self.queue.push(QUEUE, "work", data, Some(options)))?;
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Pulled>> {
        let Some(job) = self.within(self.queue.pull(QUEUE, 1))?.pop() else { return Ok(None) };
        let Value::String(body) = job.data else {
            return Err("the body of a task was changed".into());
        };
        Ok(Some(Pulled { id: job.id, body, failed: job.attempt }))
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Pulled>> {
        let started = Instant::now();
        loop {
            if let Some(task) = self.take()? {
                return Ok(Some(task));
            }
            if started.elapsed() >= timeout {
                return Ok(None);
            }
            std::thread::sleep(if self.jobs { JOB_POLL } else { POLL });
        }
    }

    fn ack(&mut self, task: Pulled) -> Result<()> {
        self.within(self.queue.ack(task.id, None))
    }

    fn attempt(&self, task: &Pulled) -> Option<u32> {
        Some(task.failed + 1)
    }

    fn fail(&mut self, task: Pulled) -> Result<()> {
        let answer = self.within(self.queue.fail(task.id, FAILURE))?;
        if answer.will_retry && answer.next_attempt_at.is_none() {
            return Ok(());
        }
        Err("a failed job is not ready again".into())
    }

    fn ack_with_result(&mut self, task: Pulled) -> Result<()> {
        self.within(self.queue.ack(task.id, Some(Value::String(RESULT.to_owned()))))
    }
}
