//! The state that the threads or futures of a worker share. Each of them is a lane, which has one job, or one batch of
//! jobs, at a time.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tubewell_drivers::NEVER;

use super::around::{Around, AroundAsync};
use super::ending::Ending;
use super::groups::Groups;
use super::idle::Idle;
use super::job::JobCore;
use super::order::{NO_TUBE, Order, TakeOrder};
use super::pause::{Begun, Pause};
use super::permits::Permits;
use super::report::{Left, Report, Tally};
use super::retries::Retries;
use super::source::Registered;
use crate::base::park::TimeLimit;
use crate::base::signal::Signal;
use crate::base::sync::thread::{self, ThreadId};
use crate::base::sync::{Condvar, Mutex};
use crate::base::user_code::catch_panic;
use crate::handle::session::Session;
use crate::handle::store_handle::StoreHandle;
use crate::{Claim, Error, Result, TaskCounts};

/// The function that a worker reports to.
pub(super) type Watch = Box<dyn Fn(&Report) + Send + Sync>;

/// The function that runs a future, for instance on a runtime.
pub(super) type Spawn = Box<dyn Fn(SpawnedFuture) + Send + Sync>;

/// A future as [`spawn_with`](super::Worker::spawn_with) hands it out.
pub(super) type SpawnedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A worker that was started.
pub(super) struct Pool {
    pub(super) handle: StoreHandle,
    pub(super) session: Session,
    pub(super) tubes: Vec<Registered>,
    pub(super) order: Order,
    /// The place of the tube that gave the last task.
    pub(super) last_tube: AtomicUsize,
    pub(super) max_runtime: Option<Duration>,
    pub(super) retries: Retries,
    pub(super) groups: Arc<Groups>,
    pub(super) around: Vec<Around>,
    pub(super) around_async: Arc<[AroundAsync]>,
    pub(super) watch: Option<Watch>,
    pub(super) permits: Permits,
    pub(super) stop: Arc<Signal>,
    pub(super) pause: Arc<Pause>,
    /// Set if the worker ends when it is idle.
    pub(super) idle: Option<Idle>,
    /// The lanes are threads, so that their calls may block.
    pub(super) is_blocking: bool,
    pub(super) spawn: Option<Spawn>,
    pub(super) lanes: Vec<Lane>,
    /// Jobs that have not begun before a stop. Their tasks are given back once no lane takes any more: a take that
    /// still waits would get them.
    pub(super) given_back: Mutex<Vec<Arc<JobCore>>>,
    /// Raised when a stop has run out of time: no end of a job is repeated any more.
    pub(super) out_of_time: Arc<Signal>,
    pub(super) ended: Mutex<Ending>,
    pub(super) lane_ended: Condvar,
}

/// The parts of a pool.
pub(super) struct Parts {
    pub(super) handle: StoreHandle,
    pub(super) session: Session,
    pub(super) tubes: Vec<Registered>,
    pub(super) order: Order,
    pub(super) max_runtime: Option<Duration>,
    pub(super) retries: Retries,
    pub(super) groups: Arc<Groups>,
    pub(super) around: Vec<Around>,
    pub(super) around_async: Arc<[AroundAsync]>,
    pub(super) watch: Option<Watch>,
    pub(super) limit: Option<u64>,
    pub(super) stop: Arc<Signal>,
    pub(super) ends_when_idle: bool,
    pub(super) is_blocking: bool,
    pub(super) spawn: Option<Spawn>,
    pub(super) concurrency: usize,
}

/// One thread, or one of the futures, of a worker.
#[derive(Default)]
pub(super) struct Lane {
    state: Mutex<LaneState>,
    /// Set by a thread.
    thread: OnceLock<ThreadId>,
    /// The thread that polls the handler now, if the handler was handed out.
    pub(super) handler_thread: Arc<Mutex<Option<ThreadId>>>,
    /// It may get a task that no stop knows of yet.
    pub(super) is_taking: AtomicBool,
}

#[derive(Default)]
struct LaneState {
    /// The job that runs, or the batch.
    jobs: VecDeque<Arc<JobCore>>,
    tally: Tally,
}

impl Pool {
    pub(super) fn new(parts: Parts) -> Pool {
        Pool {
            handle: parts.handle,
            session: parts.session,
            tubes: parts.tubes,
            order: parts.order,
            last_tube: AtomicUsize::new(NO_TUBE),
            max_runtime: parts.max_runtime,
            retries: parts.retries,
            groups: parts.groups,
            around: parts.around,
            around_async: parts.around_async,
            watch: parts.watch,
            permits: Permits::new(parts.limit),
            pause: Pause::new(&parts.stop),
            stop: parts.stop,
            idle: parts.ends_when_idle.then(|| Idle::new(parts.concurrency)),
            is_blocking: parts.is_blocking,
            spawn: parts.spawn,
            lanes: (0..parts.concurrency).map(|_| Lane::default()).collect(),
            given_back: Mutex::default(),
            out_of_time: Arc::default(),
            ended: Mutex::new(Ending::new(parts.concurrency)),
            lane_ended: Condvar::new(),
        }
    }

    pub(super) fn take_order(&self) -> TakeOrder {
        let heads = self.tubes.iter().map(|registered| registered.tube.head().clone());
        TakeOrder::new(self.order, heads.collect())
    }

    /// The place of the tube of a claim.
    pub(super) fn place_of(&self, claim: &Claim) -> Option<usize> {
        self.tubes.iter().position(|registered| registered.tube.number() == claim.held.grant.tube)
    }

    /// Notes which tube gave the last task. Only round robin asks for it, and threads that write to
    /// the same place slow each other down.
    pub(super) fn note_tube(&self, place: usize) {
        if self.order == Order::RoundRobin {
            self.last_tube.store(place, Ordering::Relaxed);
        }
    }

    /// The job of a claim, which is large, so it is not moved after this. `None` if the claim is of no tube of the
    /// worker: its task is given back.
    pub(super) fn job_of(&self, claim: Claim) -> Option<Arc<JobCore>> {
        let Some(place) = self.place_of(&claim) else {
            claim.give_back();
            return None;
        };
        let is_timed = self.tubes.get(place).is_some_and(|registered| registered.is_timed);
        let (stop, groups) = (self.stop.clone(), self.groups.clone());
        Some(Arc::new(JobCore::new(claim, place, stop, groups, is_timed)))
    }

    /// Holds a task for as long as its job may run.
    pub(super) async fn hold(&self, job: &JobCore) -> Result<()> {
        let held = &job.claim().held;
        match self.max_runtime {
            Some(most) if self.is_blocking => held.limit(most),
            Some(most) => held.limit_async(most).await,
            None => self.hold_endlessly(job).await,
        }
    }

    /// Holds a task without a limit of the worker.
    pub(super) async fn hold_endlessly(&self, job: &JobCore) -> Result<()> {
        let claim = job.claim();
        if claim.held.grant.header.ttr == NEVER {
            return Ok(());
        }
        if self.is_blocking {
            return claim.renew(Duration::MAX);
        }
        claim.held.renew_async(Duration::MAX).await
    }

    /// The tasks of all tubes that are ready, or wait for others.
    pub(super) fn tasks_left(&self) -> Result<TaskCounts> {
        let mut left = TaskCounts::default();
        for registered in self.tubes.iter().filter(|registered| !registered.is_dropped()) {
            let counts = registered.tube.statistics()?.tasks;
            left.ready += counts.ready;
            left.blocked += counts.blocked;
        }
        Ok(left)
    }

    /// How long the rates and the cooldowns of the tubes may keep their ready tasks from being taken.
    pub(super) fn longest_gap(&self) -> Result<Duration> {
        let mut longest = Duration::ZERO;
        for registered in self.tubes.iter().filter(|registered| !registered.is_dropped()) {
            let info = registered.tube.info()?;
            let rates = [info.rate, info.sub_queue_rate].into_iter().flatten();
            let gaps = rates.map(|rate| rate.period()).chain(info.sub_queue_cooldown);
            if let Some(gap) = gaps.max()
                && !info.paused
                && registered.tube.statistics()?.tasks.ready > 0
            {
                longest = longest.max(gap);
            }
        }
        Ok(longest)
    }

    pub(super) fn report(&self, report: impl FnOnce() -> Report) {
        if let Some(watch) = &self.watch {
            catch_panic(|| watch(&report()));
        }
    }

    /// Begins a pause, unless there is one, and reports why. `early` ends it before its time. Returns
    /// false if the worker stops and has paused for long enough.
    pub(super) fn begin_pause(&self, error: Error, early: &Arc<Signal>) -> bool {
        let length = match self.pause.begin() {
            Begun::Now(length) => length,
            Begun::Before => return true,
            Begun::TooLate => return false,
        };
        self.report(|| Report::Error(error));
        if self.is_blocking {
            self.pause.pass(length, early);
        } else {
            self.pause.pass_on_thread(length, early);
        }
        true
    }

    /// Whether no other lane has found out before that this tube was dropped.
    pub(super) fn is_first_to_find_dropped(&self, name: &str) -> bool {
        let registered = self.tubes.iter().find(|registered| registered.tube.name() == name);
        registered.is_some_and(|registered| !registered.is_dropped.swap(true, Ordering::SeqCst))
    }

    /// The worker ends with this error.
    pub(super) fn fail(&self, error: Error) {
        let mut ended = self.ended.lock();
        let is_first = ended.error.is_none();
        ended.error.get_or_insert_with(|| error.clone());
        drop(ended);
        if is_first {
            self.report(|| Report::Error(error));
        }
        self.stop.raise();
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for lane in &self.lanes {
            tally.add(&lane.state.lock().tally);
        }
        tally
    }

    pub(super) fn running(&self) -> Vec<Left> {
        let jobs = |lane: &Lane| lane.state.lock().jobs.clone();
        self.lanes.iter().flat_map(jobs).map(|job| left(&job)).collect()
    }

    /// How the worker has ended.
    pub(super) fn result(&self) -> Result<Tally> {
        let error = self.ended.lock().error.clone();
        error.map_or_else(|| Ok(self.tally()), Err)
    }
}

impl Lane {
    /// The lane runs on this thread.
    pub(super) fn begin_thread(&self) {
        let _ = self.thread.set(thread::current().id());
    }

    /// Whether this thread runs the lane or its handler.
    pub(super) fn is_this_thread(&self) -> bool {
        let this = thread::current().id();
        self.thread.get().is_some_and(|thread| *thread == this)
            || *self.handler_thread.lock() == Some(this)
    }

    /// Begins a job or a batch, unless the worker stops. A stop sees jobs that have begun.
    pub(super) fn begin(&self, jobs: &[Arc<JobCore>], stop: &Signal) -> bool {
        let mut state = self.state.lock();
        if stop.is_raised() {
            return false;
        }
        state.jobs.extend(jobs.iter().cloned());
        true
    }

    /// Ends a job, and counts it. Returns false if a stop has left it: it is counted already.
    pub(super) fn end(&self, job: &Arc<JobCore>, count: impl FnOnce(&mut Tally)) -> bool {
        let mut state = self.state.lock();
        // The jobs of a batch end in their order.
        if let Some(place) = state.jobs.iter().position(|other| Arc::ptr_eq(other, job)) {
            state.jobs.remove(place);
        }
        if job.is_left() {
            return false;
        }
        count(&mut state.tally);
        true
    }

    /// The worker does not wait for the jobs that run: their attempts do not count once they are released, and they
    /// are counted as left. Returns whether there are any.
    pub(super) fn forgive_jobs(&self) -> bool {
        let mut state = self.state.lock();
        let LaneState { jobs, tally } = &mut *state;
        let has_jobs = !jobs.is_empty();
        for job in jobs.drain(..) {
            job.forgive();
            job.leave_running();
            tally.left += 1;
        }
        has_jobs
    }

    /// Snoozes the tasks of the jobs that run, and counts the jobs as left; not those whose end is decided
    /// already. Blocks for at most `time`. Adds the jobs that were left to `all`.
    pub(super) fn leave_jobs(&self, time: &TimeLimit, all: &mut Vec<Left>) -> Result<()> {
        // Locked throughout, so that the lane cannot end a job meanwhile and count it as lost.
        let mut state = self.state.lock();
        let LaneState { jobs, tally } = &mut *state;
        let mut outcome = Ok(());
        // All are sent before the first answer is waited for.
        let sent =
            jobs.iter().filter(|job| !job.is_left()).map(|job| (job, job.claim().held.snooze()));
        let sent: Vec<_> = sent.collect();
        for (job, snoozed) in sent {
            match snoozed.within(time.left().unwrap_or_default()) {
                Ok(()) => job.keep(),
                // A thread that works on a lost task is left too.
                Err(Error::NotTaken { .. } | Error::SessionEnded) if !job.is_decided() => {}
                Err(Error::NotTaken { .. } | Error::SessionEnded) => continue,
                Err(error) => {
                    outcome = Err(error);
                    continue;
                }
            }
            job.leave_running();
            tally.left += 1;
            all.push(left(job));
        }
        outcome
    }
}

fn left(job: &JobCore) -> Left {
    Left { tube: job.tube(), id: job.claim().id(), ran: job.ran() }
}
