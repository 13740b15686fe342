//! A lane: the loop of one thread, or of one of the futures, of a worker. It takes a task, runs its
//! handler, and ends the job.
//!
//! Threads and futures run the same loop. On a thread the calls to the store block, and only the
//! waits are futures.

use std::borrow::Cow;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::around::{Caught, Next, begin};
use super::ends::end_job;
use super::gather::run_batch;
use super::how::How;
use super::job::{JobCore, ReleaseOnDrop};
use super::order::TakeOrder;
use super::permits::Reserved;
use super::pool::{Lane, Pool};
use super::report::Report;
use super::source::{Handler, JobHandler, Registered};
use super::spawned;
use super::stop::Taking;
use super::timeout::until_timeout;
use super::trace::Process;
use crate::base::park::yield_once;
use crate::base::signal::SignalWait;
use crate::base::user_code::panic_to_error;
use crate::core::TubeHead;
use crate::handle::take::{TakeFrom, take};
use crate::{Error, Result};

/// Runs until the worker stops, its limit is reached, or it is idle and ends then.
pub(super) async fn run(pool: Arc<Pool>, index: usize) {
    let ended = LaneGuard { pool: &pool, index };
    let Some(lane) = pool.lanes.get(index) else { return };
    let mut order = pool.take_order();
    while let Some(permit) = pool.permits.reserve() {
        let Some((job, taking)) = next(&pool, lane, &mut order).await else { break };
        run_job(&pool, lane, (job, permit), taking).await;
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
        Ok(found.and_then(|claim| pool.job_of(claim)))
    };
    let found = at_once()?;
    if found.is_some() {
        return Ok(found);
    }
    if pool.idle.is_none() {
        return take_or_wait(pool, tubes, None).await;
    }
    // A parent may have ended whose children are not all free, or are free by a change that is not flushed yet.
    let left = pool.tasks_left()?;
    if left.blocked > 0 {
        pool.handle.catch_up(&mut |_| ControlFlow::Continue(()))?;
    } else if left.ready > 0 {
        pool.handle.flush()?;
    }
    let found = at_once()?;
    if found.is_some() {
        return Ok(found);
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
            Poll::Ready(taken.map(|claim| claim.and_then(|claim| pool.job_of(claim))))
        }
    })
    .await
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

/// Runs the job, or the batch that it opens; or adds it to the batch that gathers.
async fn run_job(
    pool: &Pool,
    lane: &Lane,
    (job, permit): (Arc<JobCore>, Reserved<'_>),
    taking: Taking<'_>,
) {
    let Some(registered) = pool.tubes.get(job.place()) else { return };
    pool.note_tube(job.place());
    match registered.handler(job.claim().body()) {
        Ok(Handler::Batch(batch)) => {
            run_batch(pool, lane, (registered, &**batch), (job, permit), taking).await;
        }
        Ok(Handler::Job(handler)) => {
            drop(permit);
            run_single(pool, lane, (registered, Ok(handler)), job, taking).await;
        }
        Err(unhandled) => {
            drop(permit);
            run_single(pool, lane, (registered, Err(unhandled)), job, taking).await;
        }
    }
}

async fn run_single(
    pool: &Pool,
    lane: &Lane,
    (registered, handler): (&Registered, std::result::Result<&JobHandler, How>),
    job: Arc<JobCore>,
    taking: Taking<'_>,
) {
    let jobs = [job];
    if !lane.begin(&jobs, &pool.stop) {
        return pool.give_back(jobs);
    }
    let [job] = &jobs;
    job.begin(None);
    drop(taking);
    // Dropping the lane drops the handler, and releases the task.
    let release = ReleaseOnDrop(&jobs);
    // A claim that has ended already shows at the end of the job.
    let _ = pool.hold(job).await;
    let handled = match handler {
        Err(unhandled) => unhandled,
        Ok(JobHandler::Blocking(handler)) => {
            let span = Process::of_job(job);
            let handled = span.run(|| Next::new(job, &pool.around, &**handler).how());
            span.ended(job, &handled);
            handled
        }
        Ok(JobHandler::Async(handler)) => {
            let span = Process::of_job(job);
            let handled =
                match span.run(|| panic_to_error(|| begin(job, &pool.around_async, handler))) {
                    Ok(future) => {
                        let limit = registered.limit;
                        let future = until_timeout([job.clone()], limit, Caught(Some(future)));
                        spawned::handle(pool, lane, span.around(future)).await
                    }
                    Err(why) => How::panicked(why),
                };
            let handled = job.chosen_or(handled);
            span.ended(job, &handled);
            handled
        }
    };
    if end_job(pool, lane, job, job.chosen_or(handled)).await {
        pool.pause.reset();
    }
    drop(release);
}
