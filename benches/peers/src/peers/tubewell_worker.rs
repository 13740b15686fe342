//! tubewell's worker: threads put tasks, and a worker with as many threads runs a handler for each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tubewell::worker::{Job, Report, Worker};
use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use crate::ledger::Ledger;
use crate::queue::{
    About, Class, Counters, Losses, Outcome, Peer, Plan, Queue, Result, Setting, Shape, WakePlan,
    Work,
};

/// A job that takes longer has failed.
const JOB_TIMEOUT: Duration = Duration::from_secs(15);
/// Tasks of one call that empties the queue.
const DRAINED: usize = 1000;

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Durability::Flush, Durability::write()]
        .into_iter()
        .map(|durability| Box::new(TubewellWorker(durability)) as Box<dyn Peer>)
}

struct TubewellWorker(Durability);

impl Peer for TubewellWorker {
    fn about(&self) -> About {
        let unflushed = "unflushed changes, up to 50 ms";
        let (name, class, loses) = match self.0 {
            Durability::Flush => ("worker", Class::Durable, Losses::nothing()),
            _ => {
                ("worker-written", Class::ProcessSafe, Losses::new("nothing", unflushed, unflushed))
            }
        };
        About {
            name: format!("tubewell/{name}"),
            version: "this source".into(),
            class,
            loses,
            callers: "threads put; one worker with as many threads as there are callers".into(),
            waits: "condition variable".into(),
            note: "The handler keeps the body, which is checked after the phase. In a cycle, a \
                   caller puts its next task after a job was acked."
                .into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        let store = Store::options().durability(self.0).open(dir.join("queue.tubewell"))?;
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
        Ok(Box::new(Open { store, tube }))
    }
}

struct Open {
    store: Store,
    tube: Tube,
}

impl Queue for Open {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        let start = Instant::now();
        let end = start + plan.limit;
        let put_and = |then: &(dyn Fn() -> Result<()> + Sync)| {
            self.callers(plan, || {
                let mut tasks = 0;
                while Instant::now() < end {
                    self.tube.put(ledger.body())?;
                    then()?;
                    tasks += 1;
                }
                Ok(tasks)
            })
        };
        let tasks = match plan.work {
            Work::Put => put_and(&|| Ok(()))?,
            Work::TakeAck => return self.take(plan, ledger),
            Work::Cycle => {
                let (bodies, done) = (Arc::<Bodies>::default(), Arc::<Permits>::default());
                let add = done.clone();
                let worker = self.worker(plan, bodies.clone(), None).watch(move |report| {
                    if matches!(report, Report::Ended { .. }) {
                        add.add();
                    }
                });
                let worker = worker.start()?;
                let tasks = put_and(&|| done.take())?;
                worker.stop(Duration::MAX)?;
                bodies.check(ledger);
                tasks
            }
            Work::Job => return Err("this peer does no jobs".into()),
        };
        Ok(Outcome { tasks, elapsed: start.elapsed() })
    }

    fn wake_up(&self, _: &WakePlan, _: &Ledger) -> Result<Vec<i64>> {
        Err("wake-ups are those of tubewell's other rows".into())
    }

    fn drain(&self, _: Shape, limit: Duration, ledger: &Ledger) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < limit {
            let claims = self.tube.take_many(DRAINED, Duration::ZERO)?;
            if claims.is_empty() {
                break;
            }
            claims.iter().for_each(|claim| ledger.check(claim.body()));
            for acked in tubewell::Claim::end_many(claims, |_| tubewell::Outcome::done())? {
                acked?;
            }
        }
        Ok(())
    }

    fn counters(&self) -> Option<Counters> {
        let counters = self.store.admin().counters().unwrap();
        Some(Counters { flushes: counters.flushes, bytes_written: counters.bytes_written })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

impl Open {
    /// A worker whose handler keeps the bodies, and stops the worker after `end`.
    fn worker(&self, plan: &Plan, bodies: Arc<Bodies>, end: Option<Instant>) -> Worker {
        let worker = Worker::new(&self.store).concurrency(plan.shape.width());
        let stopper = worker.stopper();
        worker.on(&self.tube, move |job: &Job| {
            bodies.0.lock().push(job.body().to_vec());
            if end.is_some_and(|end| Instant::now() >= end) {
                stopper.stop();
            }
        })
    }

    /// Runs a worker until no task is left or the phase ends.
    fn take(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        let (left, bodies) = (self.tube.statistics()?.tasks.ready, Arc::<Bodies>::default());
        let start = Instant::now();
        let worker = self.worker(plan, bodies.clone(), Some(start + plan.limit));
        let tasks = worker.limit(left).start()?.wait()?.done;
        let elapsed = start.elapsed();
        bodies.check(ledger);
        Ok(Outcome { tasks, elapsed })
    }

    /// Runs `call` in one thread per caller of the plan; returns the total number of tasks.
    fn callers(&self, plan: &Plan, call: impl Fn() -> Result<u64> + Sync) -> Result<u64> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..plan.shape.width()).map(|_| scope.spawn(&call)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("a caller panicked".into())))
                .sum()
        })
    }
}

/// The bodies that were taken and not checked yet.
#[derive(Default)]
struct Bodies(Mutex<Vec<Vec<u8>>>);

impl Bodies {
    fn check(&self, ledger: &Ledger) {
        self.0.lock().drain(..).for_each(|body| ledger.check(&body));
    }
}

/// Counts the jobs that were acked and that no caller has waited for yet.
#[derive(Default)]
struct Permits(Mutex<u64>, Condvar);

impl Permits {
    fn add(&self) {
        *self.0.lock() += 1;
        self.1.notify_one();
    }

    fn take(&self) -> Result<()> {
        let mut permits = self.0.lock();
        let none = self.1.wait_while_for(&mut permits, |permits| *permits == 0, JOB_TIMEOUT);
        if none.timed_out() {
            return Err("a job was not done".into());
        }
        *permits -= 1;
        Ok(())
    }
}
