//! A lane: the loop of one thread, or of one of the futures, of a worker. It takes a task, runs its
//! handler, and ends the job.
//!
//! Threads and futures run the same loop. On a thread the calls to the store block, and only the
//! waits are futures.

use std::borrow::Cow;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tubewell_drivers::NEVER;

use super::around::{Caught, Next, begin};
use super::ends::end_job;
use super::handled::How;
use super::job::JobCore;
use super::order::TakeOrder;
use super::pool::{Lane, Pool};
use super::report::Report;
use super::source::Handler;
use super::spawned;
use super::stop::Taking;
use super::timeout::until_timeout;
use crate::base::park::yield_once;
use crate::base::signal::SignalWait;
use crate::base::user_code::panic_to_error;
use crate::core::TubeHead;
use crate::handle::take::{TakeFrom, take};
use crate::{Claim, Error, Result};

/// Runs until the worker stops, its limit is reached, or it is idle and ends then.
pub(super) async fn run(pool: Arc<Pool>, index: usize) {
    let ended = LaneGuard { pool: &pool, index };
    let Some(lane) = pool.lanes.get(index) else { return };
    let mut order = pool.take_order();
    while pool.take_permit() {
        let Some((job, taking)) = next(&pool, lane, &mut order).await else { break };
        run_job(&pool, lane, job, taking).await;
        if !pool.is_blocking {
            yield_once().await;
        }
        if let Some(idle) = &pool.idle {
            idle.job_ended();
        }
    }
    drop(ended);
}

/// Counts the lane as ended, also if its future is dropped.
struct LaneGuard<'a> {
    pool: &'a Pool,
    index: usize,
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.pool.lane_has_ended(self.index);
    }
}

/// Takes the next task. `None` if the lane ends.
async fn next<'a>(
    pool: &'a Pool,
    lane: &'a Lane,
    order: &mut TakeOrder,
) -> Option<(Arc<JobCore>, Taking<'a>)> {
    while !pool.stop.is_raised() {
        pool.pause.wait(&pool.stop).await;
        let jobs = pool.idle.as_ref().map(|idle| (idle, idle.jobs()));
        let taking = pool.begin_take(lane);
        if pool.stop.is_raised() {
            break;
        }
        match take_one(pool, order.next(&pool.last_tube)).await {
            Ok(Some(job)) => return Some((job, taking)),
            Ok(None) => {
                drop(taking);
                if let Some((idle, jobs)) = jobs
                    && !idle.wait(jobs, &pool.stop).await
                {
                    break;
                }
            }
            Err(error) => {
                drop(taking);
                take_failed(pool, order, error);
            }
        }
    }
    None
}

/// Takes a task of one of these tubes. `None` if there is none and the worker ends when it is idle,
/// or if it stops.
async fn take_one(pool: &Pool, tubes: &[TubeHead]) -> Result<Option<Arc<JobCore>>> {
    if !pool.is_blocking {
        return take_or_wait(pool, tubes, None).await;
    }
    let (session, guard) = (pool.session.id(), || Some(pool.session.guard().clone()));
    let at_once = || -> Result<Option<Arc<JobCore>>> {
        let found = take(&pool.handle, tubes, session, guard(), Some(Duration::ZERO))?;
        Ok(found.and_then(|claim| job_of(pool, claim)))
    };
    let found = at_once()?;
    if found.is_some() {
        return Ok(found);
    }
    if pool.idle.is_none() {
        return take_or_wait(pool, tubes, None).await;
    }
    if pool.has_blocked_tasks()? {
        // A parent may have ended whose children are not all free yet.
        pool.handle.catch_up(&mut |_| ())?;
        let found = at_once()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    match pool.longest_gap()? {
        Duration::ZERO => Ok(None),
        gap => take_or_wait(pool, tubes, Some(gap)).await,
    }
}

/// Takes a task of one of these tubes, or waits for one. `None` if the time has elapsed, or if the
/// worker stops.
async fn take_or_wait(
    pool: &Pool,
    tubes: &[TubeHead],
    timeout: Option<Duration>,
) -> Result<Option<Arc<JobCore>>> {
    let mut stop = SignalWait::new(&pool.stop);
    let (session, guard) = (pool.session.id(), Some(pool.session.guard().clone()));
    let tubes = Ok(Cow::Borrowed(tubes));
    let mut take = TakeFrom::new(&pool.handle, tubes, session, guard, timeout);
    // Dropping the take releases a task that was assigned to it meanwhile. One that finds a task
    // immediately does not wait for a stop; `Lane::begin` sees that.
    poll_fn(|context| match take.poll_take(context) {
        Poll::Pending => stop.poll(context.waker()).map(|()| Ok(None)),
        Poll::Ready(taken) => {
            Poll::Ready(taken.map(|claim| claim.and_then(|claim| job_of(pool, claim))))
        }
    })
    .await
}

/// The job of a claim, which is large, so it is not moved after this.
fn job_of(pool: &Pool, claim: Claim) -> Option<Arc<JobCore>> {
    let Some(place) = pool.place_of(&claim) else {
        claim.give_back();
        return None;
    };
    let is_timed = pool.tubes.get(place).is_some_and(|registered| registered.is_timed);
    let (stop, groups) = (pool.stop.clone(), pool.groups.clone());
    Some(Arc::new(JobCore::new(claim, place, stop, groups, is_timed)))
}

/// A take has failed: the worker ends, goes on without a tube that was dropped, or pauses.
fn take_failed(pool: &Pool, order: &mut TakeOrder, error: Error) {
    match &error {
        Error::Closed => pool.stop.raise(),
        Error::SessionEnded
        | Error::Stopped { .. }
        | Error::Refused { .. }
        | Error::Forked { .. } => pool.fail(error),
        Error::TubeDropped { name } => {
            let name = name.clone();
            if !order.remove(&name) {
                pool.fail(error);
            } else if pool.is_first_to_find_dropped(&name) {
                pool.report(|| Report::Error(error));
            }
        }
        _ => {
            pool.begin_pause(error, &pool.stop);
        }
    }
}

async fn run_job(pool: &Pool, lane: &Lane, job: Arc<JobCore>, taking: Taking<'_>) {
    let Some(registered) = pool.tubes.get(job.place()) else { return job.give_back() };
    if !lane.begin(&job, &pool.stop) {
        return job.give_back();
    }
    drop(taking);
    // Dropping the lane drops the handler, and releases the task.
    let release = ReleaseOnDrop(&job);
    pool.note_tube(job.place());
    hold(pool, &job).await;
    let handled = match registered.handler(job.claim().body()) {
        Err(unhandled) => unhandled,
        Ok(Handler::Blocking(handler)) => Next::new(&job, &pool.around, &**handler).how(),
        Ok(Handler::Async(handler)) => {
            match panic_to_error(|| begin(&job, &pool.around_async, handler)) {
                Ok(future) => {
                    let future = until_timeout(job.clone(), registered.limit, Caught(Some(future)));
                    handle_async(pool, lane, future).await
                }
                Err(why) => How::panicked(why),
            }
        }
    };
    if end_job(pool, lane, &job, handled).await {
        pool.pause.reset();
    }
    drop(release);
}

/// Holds a task for as long as its job may run.
async fn hold(pool: &Pool, job: &JobCore) {
    let has_deadline = job.claim().held.grant.header.ttr != NEVER;
    // A claim that has ended already shows at the end of the job.
    let claim = job.claim();
    let _ = match pool.max_runtime {
        Some(most) if pool.is_blocking => claim.held.limit(most),
        Some(most) => claim.held.limit_async(most).await,
        None if !has_deadline => return,
        None if pool.is_blocking => claim.renew(Duration::MAX),
        None => claim.held.renew_async(Duration::MAX).await,
    };
}

/// Runs the future of a handler here, or where the caller wants it.
async fn handle_async(
    pool: &Pool,
    lane: &Lane,
    future: impl Future<Output = How> + Send + 'static,
) -> How {
    match &pool.spawn {
        None => future.await,
        Some(spawn) => spawned::run(spawn, lane.handler_thread.clone(), future).await,
    }
}

struct ReleaseOnDrop<'a>(&'a Arc<JobCore>);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.release();
        self.0.keep();
    }
}
