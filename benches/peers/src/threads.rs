//! Runs phases in threads, for peers whose calls are plain functions.

use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use crate::ledger::{Ledger, Verdict};
use crate::queue::{Counters, Outcome, Plan, Queue, Result, Shape, WakePlan, Work};

/// A task that is not delivered within this time is lost.
const TASK_TIMEOUT: Duration = Duration::from_secs(10);

/// An open queue whose calls are plain functions.
pub trait Verbs: Sync + Sized {
    type Caller: Worker;

    /// A handle or a connection for one thread.
    ///
    /// # Errors
    /// The peer refuses another handle or connection.
    fn caller(&self) -> Result<Self::Caller>;

    /// As [`Queue::counters`].
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// As [`Queue::close`].
    ///
    /// # Errors
    /// As [`Queue::close`].
    fn close(self) -> Result<()>;
}

/// The calls that one thread of a phase makes. A peer whose tasks do not borrow from the queue
/// implements [`Caller`] instead.
pub trait Worker: Send {
    fn put(&mut self, body: &[u8]) -> Result<()>;

    /// Takes the next task, passes its body to `check`, and acks the task. Waits for a task for up
    /// to `timeout`, in the way that the peer offers. Returns whether there was a task.
    fn take_and_ack(&mut self, timeout: Duration, check: &mut dyn FnMut(&[u8])) -> Result<bool>;

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()>;

    /// As `take_and_ack`, for up to `max` tasks without waiting. Returns the number of tasks.
    fn take_and_ack_many(&mut self, max: usize, check: &mut dyn FnMut(&[u8])) -> Result<usize>;

    /// Takes the next job, passes its body and its attempt to `check`, and does what `check` returns.
    /// Waits as `take_and_ack` does. Returns what was done; `None` if there was no job.
    ///
    /// # Errors
    /// A call failed, or the peer does no jobs.
    fn take_job(&mut self, timeout: Duration, check: &mut CheckJob<'_>) -> Result<Option<Verdict>> {
        let _ = (timeout, check);
        Err("this peer does no jobs".into())
    }
}

/// Checks the body of a job. The attempt is given if the queue reports it.
pub type CheckJob<'a> = dyn FnMut(&[u8], Option<u32>) -> Verdict + 'a;

/// The calls of one thread. Each call returns when the peer has answered.
pub trait Caller: Send {
    /// A taken task: its body, and what an ack needs.
    type Task: AsRef<[u8]>;

    fn put(&mut self, body: &[u8]) -> Result<()>;

    /// Takes the next task, if one is ready.
    fn take(&mut self) -> Result<Option<Self::Task>>;

    /// Takes the next task. Waits for it for up to `timeout`, in the way that the peer offers.
    fn wait(&mut self, timeout: Duration) -> Result<Option<Self::Task>>;

    fn ack(&mut self, task: Self::Task) -> Result<()>;

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        bodies.iter().try_for_each(|body| self.put(body))
    }

    /// Takes up to `max` tasks that are ready; may return none.
    fn take_many(&mut self, max: usize) -> Result<Vec<Self::Task>> {
        let mut tasks = Vec::new();
        while tasks.len() < max {
            match self.take()? {
                Some(task) => tasks.push(task),
                None => break,
            }
        }
        Ok(tasks)
    }

    fn ack_many(&mut self, tasks: Vec<Self::Task>) -> Result<()> {
        tasks.into_iter().try_for_each(|task| self.ack(task))
    }

    /// Which attempt of a job this is, from 1, as the queue has counted it.
    fn attempt(&self, task: &Self::Task) -> Option<u32> {
        let _ = task;
        None
    }

    /// Reports that an attempt of a job has failed. The job is ready again at once.
    fn fail(&mut self, task: Self::Task) -> Result<()> {
        let _ = task;
        Err("this peer does no jobs".into())
    }

    /// Acks a job with a result that is kept.
    fn ack_with_result(&mut self, task: Self::Task) -> Result<()> {
        let _ = task;
        Err("this peer does no jobs".into())
    }
}

impl<C: Caller> Worker for C {
    fn put(&mut self, body: &[u8]) -> Result<()> {
        Caller::put(self, body)
    }

    fn take_and_ack(&mut self, timeout: Duration, check: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut task = self.take()?;
        if task.is_none() && !timeout.is_zero() {
            task = self.wait(timeout)?;
        }
        let Some(task) = task else { return Ok(false) };
        check(task.as_ref());
        self.ack(task)?;
        Ok(true)
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        Caller::put_many(self, bodies)
    }

    fn take_and_ack_many(&mut self, max: usize, check: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let tasks = self.take_many(max)?;
        for task in &tasks {
            check(task.as_ref());
        }
        let count = tasks.len();
        if count > 0 {
            self.ack_many(tasks)?;
        }
        Ok(count)
    }

    fn take_job(&mut self, timeout: Duration, check: &mut CheckJob<'_>) -> Result<Option<Verdict>> {
        let task = match self.take()? {
            Some(task) => Some(task),
            None => self.wait(timeout)?,
        };
        let Some(task) = task else { return Ok(None) };
        let verdict = check(task.as_ref(), self.attempt(&task));
        match verdict {
            Verdict::Fail => self.fail(task)?,
            Verdict::Ack => self.ack_with_result(task)?,
        }
        Ok(Some(verdict))
    }
}

/// A queue whose phases run in threads.
pub struct Threaded<V>(pub V);

impl<V: Verbs> Queue for Threaded<V> {
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
        run(&self.0, plan, ledger)
    }

    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
        wake_up(&self.0, plan, ledger)
    }

    fn counters(&self) -> Option<Counters> {
        self.0.counters()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

/// Runs a phase with one thread per caller of the plan. Each ticket is a thread, too.
///
/// # Errors
/// As [`Queue::run`].
pub fn run<V: Verbs>(verbs: &V, plan: &Plan, ledger: &Ledger) -> Result<Outcome> {
    let (threads, batch) = match plan.shape {
        Shape::Callers(threads) | Shape::Tickets(threads) => (threads, None),
        Shape::Batches(size) => (1, Some(size)),
        Shape::WakeUp => (1, None),
    };
    let callers = (0..threads).map(|_| verbs.caller()).collect::<Result<Vec<_>>>()?;
    let start_line = Barrier::new(threads);
    let ends: Vec<Result<(u64, Instant, Instant)>> = std::thread::scope(|scope| {
        let start_line = &start_line;
        let handles: Vec<_> = callers
            .into_iter()
            .map(|mut caller| {
                scope.spawn(move || {
                    start_line.wait();
                    let start = Instant::now();
                    let tasks = match batch {
                        None if plan.work == Work::Job => jobs(&mut caller, plan, ledger),
                        None => singles(&mut caller, plan, ledger),
                        Some(size) => batches(&mut caller, plan, size, ledger),
                    }?;
                    Ok((tasks, start, Instant::now()))
                })
            })
            .collect();
        let panicked = |_| Err("a caller panicked".into());
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(panicked)).collect()
    });
    let ends = ends.into_iter().collect::<Result<Vec<_>>>()?;
    let first = ends.iter().map(|&(_, start, _)| start).min();
    let last = ends.iter().map(|&(_, _, end)| end).max();
    let elapsed = last.zip(first).map(|(last, first)| last - first).unwrap_or_default();
    Ok(Outcome { tasks: ends.iter().map(|&(tasks, _, _)| tasks).sum(), elapsed })
}

fn singles<W: Worker>(worker: &mut W, plan: &Plan, ledger: &Ledger) -> Result<u64> {
    let (start, mut tasks, mut body) = (Instant::now(), 0, Vec::new());
    let mut check = |body: &[u8]| ledger.check(body);
    while start.elapsed() < plan.limit {
        if plan.work != Work::TakeAck {
            ledger.fill(&mut body);
            worker.put(&body)?;
        }
        match plan.work {
            Work::Put => {}
            Work::TakeAck if worker.take_and_ack(Duration::ZERO, &mut check)? => {}
            Work::TakeAck => break,
            // Each thread has put a task before its take, so a task is there.
            Work::Cycle if worker.take_and_ack(TASK_TIMEOUT, &mut check)? => {}
            Work::Cycle => return Err("no task could be taken after a put".into()),
            Work::Job => return Err("jobs have a loop of their own".into()),
        }
        tasks += 1;
    }
    Ok(tasks)
}

/// Puts a job and takes a job twice, repeatedly. Both takes return any job, which is failed or acked
/// as its own deliveries require. Each job is delivered twice, so each take finds a job, or another
/// caller is about to fail one. Returns the number of jobs acked.
fn jobs<W: Worker>(worker: &mut W, plan: &Plan, ledger: &Ledger) -> Result<u64> {
    let (start, mut done, mut body) = (Instant::now(), 0, Vec::new());
    while start.elapsed() < plan.limit {
        ledger.fill(&mut body);
        worker.put(&body)?;
        for _ in 0..2 {
            let mut check = |body: &[u8], attempt| ledger.check_job(body, attempt);
            match worker.take_job(TASK_TIMEOUT, &mut check)? {
                Some(Verdict::Fail) => {}
                Some(Verdict::Ack) => done += 1,
                None => return Err("no job could be taken after a put".into()),
            }
        }
    }
    Ok(done)
}

fn batches<W: Worker>(worker: &mut W, plan: &Plan, size: usize, ledger: &Ledger) -> Result<u64> {
    let (start, mut tasks, mut bodies) = (Instant::now(), 0, vec![Vec::new(); size]);
    while start.elapsed() < plan.limit {
        if plan.work != Work::TakeAck {
            for body in &mut bodies {
                ledger.fill(body);
            }
            worker.put_many(&bodies)?;
        }
        if plan.work == Work::Put {
            tasks += size as u64;
            continue;
        }
        match worker.take_and_ack_many(size, &mut |body| ledger.check(body))? {
            0 => break,
            count => tasks += count as u64,
        }
    }
    Ok(tasks)
}

/// Puts each task a while after the ack of the previous one, so that the consumer is waiting for
/// it.
///
/// # Errors
/// As [`Queue::wake_up`].
pub fn wake_up<V: Verbs>(verbs: &V, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>> {
    let (mut producer, mut consumer) = (verbs.caller()?, verbs.caller()?);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let consumed = scope.spawn(move || -> Result<()> {
            for _ in 0..plan.tasks {
                let mut received = None;
                let taken = consumer.take_and_ack(TASK_TIMEOUT, &mut |body| {
                    received = Some(Instant::now());
                    ledger.check(body);
                })?;
                sender.send(received.filter(|_| taken).ok_or("a task was not delivered")?)?;
            }
            Ok(())
        });
        let mut produce = || -> Result<Vec<i64>> {
            let mut nanos = Vec::with_capacity(plan.tasks);
            for n in 0..plan.tasks {
                std::thread::sleep(uneven(plan.pause, n));
                producer.put(&ledger.body())?;
                let returned = Instant::now();
                nanos.push(nanos_between(returned, receiver.recv_timeout(2 * TASK_TIMEOUT)?));
            }
            Ok(nanos)
        };
        let produced = produce();
        let consumed = consumed.join().unwrap_or_else(|_| Err("the consumer panicked".into()));
        consumed.and(produced)
    })
}

/// The n-th of a series of uneven times from 0.5 to 1.5 times the mean, so that no timer can
/// synchronize with them.
pub fn uneven(mean: Duration, n: usize) -> Duration {
    mean / 2 + mean * u32::try_from(n * 7919 % 101).unwrap_or_default() / 100
}

/// Nanoseconds from `from` to `to`; negative if `to` is before `from`.
pub fn nanos_between(from: Instant, to: Instant) -> i64 {
    let nanos = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    nanos(to.saturating_duration_since(from)) - nanos(from.saturating_duration_since(to))
}
