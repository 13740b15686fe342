//! The state that the threads or futures of a worker share. Each of them is a lane, which has one job at a
//! time.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::around::{Around, AroundAsync};
use super::ending::Ending;
use super::groups::Groups;
use super::idle::Idle;
use super::job::JobCore;
use super::order::{NO_TUBE, Order, TakeOrder};
use super::pause::{Begun, Pause};
use super::report::{Left, Report, Tally};
use super::retries::Retries;
use super::source::Registered;
use crate::base::signal::Signal;
use crate::base::sync::thread::{self, ThreadId};
use crate::base::sync::{Condvar, Mutex};
use crate::base::user_code::catch_panic;
use crate::handle::session::Session;
use crate::handle::store_handle::StoreHandle;
use crate::{Claim, Error, Result};

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
    /// How many further jobs may begin; `None` without a limit.
    permits: Option<AtomicU64>,
    pub(super) stop: Arc<Signal>,
    pub(super) pause: Arc<Pause>,
    /// Set if the worker ends when it is idle.
    pub(super) idle: Option<Idle>,
    /// The lanes are threads, so that their calls may block.
    pub(super) is_blocking: bool,
    pub(super) spawn: Option<Spawn>,
    pub(super) lanes: Vec<Lane>,
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
    job: Option<Arc<JobCore>>,
    tally: Tally,
    /// A stop does not wait for it any longer.
    is_left: bool,
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
            permits: parts.limit.map(AtomicU64::new),
            pause: Pause::new(&parts.stop),
            stop: parts.stop,
            idle: parts.ends_when_idle.then(|| Idle::new(parts.concurrency)),
            is_blocking: parts.is_blocking,
            spawn: parts.spawn,
            lanes: (0..parts.concurrency).map(|_| Lane::default()).collect(),
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

    /// Whether a further job may begin. The caller begins one, or ends.
    pub(super) fn take_permit(&self) -> bool {
        let Some(permits) = &self.permits else { return true };
        let take = |left: u64| left.checked_sub(1);
        permits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    /// Whether a tube has tasks that wait for others.
    pub(super) fn has_blocked_tasks(&self) -> Result<bool> {
        for registered in &self.tubes {
            if !registered.is_dropped() && registered.tube.statistics()?.tasks.blocked > 0 {
                return Ok(true);
            }
        }
        Ok(false)
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
        let job = |lane: &Lane| lane.state.lock().job.clone();
        self.lanes.iter().filter_map(job).map(|job| left(&job)).collect()
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

    /// Begins a job, unless the worker stops. A stop sees a job that has begun.
    pub(super) fn begin(&self, job: &Arc<JobCore>, stop: &Signal) -> bool {
        let mut state = self.state.lock();
        if stop.is_raised() {
            return false;
        }
        state.job = Some(job.clone());
        true
    }

    /// Ends the job, and counts it. Returns false if a stop has left it: it is counted already.
    pub(super) fn end(&self, count: impl FnOnce(&mut Tally)) -> bool {
        let mut state = self.state.lock();
        state.job = None;
        if state.is_left {
            return false;
        }
        count(&mut state.tally);
        true
    }

    /// The worker does not wait for the job that runs: its attempt does not count once it is released, and it is
    /// counted as left. Returns whether there is one.
    pub(super) fn forgive_job(&self) -> bool {
        let mut state = self.state.lock();
        let Some(job) = state.job.take() else { return false };
        job.forgive();
        (state.is_left, state.tally.left) = (true, state.tally.left + 1);
        true
    }

    /// Snoozes the task of the job that runs, and counts the job as left. `None` if there is none,
    /// or if its end is decided already. Blocks for at most `time`.
    pub(super) fn leave_job(&self, time: Duration) -> Result<Option<Left>> {
        // Locked throughout, so that the lane cannot end the job meanwhile and count it as lost.
        let mut state = self.state.lock();
        let Some(job) = state.job.clone().filter(|_| !state.is_left) else { return Ok(None) };
        match job.claim().held.snooze_within(time) {
            Ok(()) => job.keep(),
            // A thread that works on a lost task is left too.
            Err(Error::NotTaken { .. } | Error::SessionEnded) if !job.is_decided() => {}
            Err(Error::NotTaken { .. } | Error::SessionEnded) => return Ok(None),
            Err(error) => return Err(error),
        }
        (state.is_left, state.tally.left) = (true, state.tally.left + 1);
        Ok(Some(left(&job)))
    }
}

fn left(job: &JobCore) -> Left {
    Left { tube: job.tube(), id: job.claim().id(), ran: job.ran() }
}
