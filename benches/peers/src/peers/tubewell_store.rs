//! tubewell: four drivers, each durability, tickets, and jobs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tubewell::{
    Claim, Counting, Durability, FIFO, FIFOTTL, Failure, Keep, Put, Store, Ticket, Tube,
    TubeOptions, UTUBE, UTUBETTL,
};

use crate::ledger::Ledger;
use crate::queue::{
    ATTEMPTS, About, Class, Counters, FAILURE, Losses, Outcome, Peer, Plan, Queue, RESULT,
    RESULTS_KEPT, Result, Setting, Shape, WakePlan, Work,
};
use crate::threads::{self, Caller, Verbs};

/// Number of sub-queues, for drivers that have them.
const SUB_QUEUES: u64 = 1000;
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Flush,
    /// As `Flush`, with takes of jobs that are flushed, too. Jobs only.
    FlushedTakes,
    Written,
    Relaxed,
    Temporary,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [
        (Mode::Flush, FIFO),
        (Mode::FlushedTakes, FIFO),
        (Mode::Flush, FIFOTTL),
        (Mode::Flush, UTUBE),
        (Mode::Flush, UTUBETTL),
        (Mode::Written, FIFO),
        (Mode::Relaxed, FIFO),
        (Mode::Temporary, FIFO),
    ]
    .into_iter()
    .map(|(mode, driver)| Box::new(Tubewell { mode, driver }) as Box<dyn Peer>)
}

struct Tubewell {
    mode: Mode,
    driver: &'static str,
}

impl Peer for Tubewell {
    fn about(&self) -> About {
        let unflushed = "unflushed changes, up to 50 ms";
        let (name, class, loses) = match self.mode {
            Mode::Flush => (self.driver, Class::Durable, Losses::nothing()),
            Mode::FlushedTakes => ("fifo-counts-flushed", Class::Durable, Losses::nothing()),
            Mode::Written => {
                ("written", Class::ProcessSafe, Losses::new("nothing", unflushed, unflushed))
            }
            Mode::Relaxed => {
                ("relaxed", Class::Weaker, Losses::new(unflushed, unflushed, unflushed))
            }
            Mode::Temporary => {
                ("temporary", Class::Memory, Losses::new("all tasks", "all tasks", "all tasks"))
            }
        };
        let note = match (self.mode, self.driver) {
            (Mode::FlushedTakes, _) => "jobs only, with count_takes(Counting::Flushed)",
            (Mode::Flush | Mode::Written | Mode::Relaxed, FIFO) => {
                "the takes of jobs are counted with a write (Counting::Written, the default)"
            }
            _ => "",
        };
        About {
            name: format!("tubewell/{name}"),
            version: "this source".into(),
            class,
            loses,
            callers: "threads; one thread for tickets".into(),
            waits: "condition variable".into(),
            note: note.into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        match (self.mode, self.driver, shape) {
            (Mode::Flush, FIFO, Shape::Callers(n)) => [1, 16, 64].contains(&n),
            (Mode::Flush, FIFO, Shape::Tickets(n)) => [1, 64, 256, 1024].contains(&n),
            (Mode::Flush | Mode::Written, FIFO, Shape::Batches(n)) => n == 1000,
            (Mode::Flush, _, Shape::Callers(n)) => n == 1 || n == 64,
            (Mode::Written | Mode::Relaxed | Mode::Temporary, _, Shape::Callers(n)) => {
                [1, 16, 64].contains(&n)
            }
            (Mode::FlushedTakes, _, _) => false,
            (_, FIFO, Shape::WakeUp) => true,
            _ => false,
        }
    }

    fn does_jobs(&self, shape: Shape) -> bool {
        self.driver == FIFO && matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let durability = match self.mode {
            Mode::Written => Durability::write(),
            Mode::Relaxed => Durability::relaxed(),
            Mode::Flush | Mode::FlushedTakes | Mode::Temporary => Durability::Flush,
        };
        let store = Store::options().durability(durability).open(dir.join("queue.tubewell"))?;
        let mut options = TubeOptions::new().temporary(self.mode == Mode::Temporary);
        if setting.jobs {
            let keep = Keep::new().count(u64::from(RESULTS_KEPT));
            options = options.max_attempts(ATTEMPTS).keep_done(keep);
        }
        if self.mode == Mode::FlushedTakes {
            options = options.count_takes(Counting::Flushed);
        }
        let tube = store.create_tube("work", options.driver(self.driver))?;
        let tasks = Tasks { driver: self.driver };
        Ok(Box::new(Open { store, tube, tasks, callers: AtomicU64::new(0) }))
    }
}

struct Open {
    store: Store,
    tube: Tube,
    tasks: Tasks,
    callers: AtomicU64,
}

impl Queue for Open {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        match plan.shape {
            Shape::Tickets(tickets) => {
                run_with_tickets(&self.tube, self.tasks, tickets, plan, ledger)
            }
            _ => threads::run(self, plan, ledger),
        }
    }

    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        threads::wake_up(self, plan, ledger)
    }

    fn drain(&self, _: Shape, limit: Duration, ledger: &Ledger) -> Result<()> {
        let plan = Plan { work: Work::TakeAck, shape: Shape::Batches(1000), limit };
        threads::run(self, &plan, ledger).map(drop)
    }

    fn counters(&self) -> Option<Counters> {
        let counters = self.store.admin().counters().unwrap();
        Some(Counters { flushes: counters.flushes, bytes_written: counters.bytes_written })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

impl Verbs for Open {
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        let number = self.callers.fetch_add(1, Ordering::Relaxed);
        Ok(Handle { tube: self.tube.clone(), tasks: self.tasks, number: number * 7919 })
    }

    fn close(self) -> Result<()> {
        Ok(self.store.close()?)
    }
}

/// Makes tasks that use the features of a driver.
#[derive(Clone, Copy)]
struct Tasks {
    driver: &'static str,
}

impl Tasks {
    fn of(self, body: &[u8], number: u64) -> Put<&[u8]> {
        let put = Put::new(body);
        match self.driver {
            FIFOTTL => put.ttl(HOUR).priority(3),
            UTUBE => put.sub_queue(format!("sub{}", number % SUB_QUEUES)),
            UTUBETTL => put.sub_queue(format!("sub{}", number % SUB_QUEUES)).ttl(HOUR),
            _ => put,
        }
    }
}

/// A tube that one thread uses.
pub struct Handle {
    tube: Tube,
    tasks: Tasks,
    number: u64,
}

pub struct Task(Claim);

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        self.0.body()
    }
}

impl Handle {
    /// Of a tube with the driver `fifo`.
    pub fn of_fifo(tube: Tube) -> Handle {
        Handle { tube, tasks: Tasks { driver: FIFO }, number: 0 }
    }

    fn task<'a>(&mut self, body: &'a [u8]) -> Put<&'a [u8]> {
        self.number += 1;
        self.tasks.of(body, self.number)
    }
}

impl Caller for Handle {
    type Task = Task;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let task = self.task(body);
        self.tube.put(task)?;
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Task>> {
        Ok(self.tube.try_take()?.map(Task))
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Task>> {
        Ok(self.tube.take_timeout(timeout)?.map(Task))
    }

    fn ack(&mut self, task: Task) -> Result<()> {
        task.0.ack()?;
        Ok(())
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        let tasks: Vec<Put<&[u8]>> = bodies.iter().map(|body| self.task(body)).collect();
        self.tube.put_many(tasks)?;
        Ok(())
    }

    fn take_many(&mut self, max: usize) -> Result<Vec<Task>> {
        Ok(self.tube.take_many(max, Duration::ZERO)?.into_iter().map(Task).collect())
    }

    fn ack_many(&mut self, tasks: Vec<Task>) -> Result<()> {
        let answers = Claim::end_many(tasks.into_iter().map(|task| task.0).collect(), |_| {
            tubewell::Outcome::done()
        })?;
        answers.into_iter().try_for_each(|answer| answer.map(drop).map_err(Into::into))
    }

    fn attempt(&self, task: &Task) -> Option<u32> {
        Some(task.0.attempt())
    }

    fn fail(&mut self, task: Task) -> Result<()> {
        task.0.fail(Failure::new("bench", FAILURE))?;
        Ok(())
    }

    fn ack_with_result(&mut self, task: Task) -> Result<()> {
        task.0.end(tubewell::Outcome::result(RESULT))?;
        Ok(())
    }
}

enum Step {
    Put(Ticket<tubewell::Receipt>),
    Ack(Ticket<tubewell::Receipt>),
}

/// Runs a phase in one thread, which keeps `tickets` puts, acks or cycles in flight and waits for
/// the oldest one.
fn run_with_tickets(
    tube: &Tube,
    tasks: Tasks,
    tickets: usize,
    plan: &Plan,
    ledger: &Ledger,
) -> Result<Outcome> {
    let deferred = tube.to_async();
    let (mut in_flight, mut body) = (VecDeque::with_capacity(tickets), Vec::new());
    let (start, mut done, mut more) = (Instant::now(), 0, true);
    while more || !in_flight.is_empty() {
        more = more && start.elapsed() < plan.limit;
        while more && in_flight.len() < tickets {
            if plan.work == Work::TakeAck {
                match ack_next(tube, ledger)? {
                    Some(ticket) => in_flight.push_back(Step::Ack(ticket)),
                    None => more = false,
                }
            } else {
                ledger.fill(&mut body);
                in_flight.push_back(Step::Put(deferred.put(tasks.of(&body, ledger.put()))));
            }
        }
        match in_flight.pop_front() {
            Some(Step::Put(ticket)) => {
                ticket.wait()?;
                if plan.work == Work::Put {
                    done += 1;
                } else {
                    let ack = ack_next(tube, ledger)?;
                    in_flight
                        .push_back(Step::Ack(ack.ok_or("no task could be taken after a put")?));
                }
            }
            Some(Step::Ack(ticket)) => {
                ticket.wait()?;
                done += 1;
            }
            None => break,
        }
    }
    Ok(Outcome { tasks: done, elapsed: start.elapsed() })
}

/// Takes the next task and acks it, without waiting for the flush.
fn ack_next(tube: &Tube, ledger: &Ledger) -> Result<Option<Ticket<tubewell::Receipt>>> {
    let Some(claim) = tube.try_take()? else { return Ok(None) };
    ledger.check(claim.body());
    Ok(Some(claim.into_async().ack()))
}
