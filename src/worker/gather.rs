//! The batch of a lane: it gathers the tasks of its tube until there are enough or the time has elapsed, and runs.

use std::sync::Arc;
use std::time::Duration;

use super::around::Caught;
use super::batch::{Batch, BatchHandler, Open};
use super::end_many::end_batch;
use super::ends::end_lost;
use super::how::How;
use super::job::{JobCore, ReleaseOnDrop};
use super::permits::Reserved;
use super::pool::{Lane, Pool};
use super::source::Registered;
use super::spawned;
use super::stop::Taking;
use super::timeout::until_timeout;
use super::trace::Process;
use crate::base::micros::within;
use crate::base::signal::unless_raised;
use crate::base::user_code::panic_to_error;
use crate::core::ByteBudget;
use crate::handle::take::elapse;
use crate::{Claim, Error, Result};

/// Opens a batch with this task, and runs it; or adds the task to the batch that gathers.
///
/// A stop waits until the lane has given back what it has gathered, as it does for a take: the batch has not begun.
pub(super) async fn run_batch(
    pool: &Pool,
    lane: &Lane,
    (registered, batch): (&Registered, &Batch),
    (job, permit): (Arc<JobCore>, Reserved<'_>),
    taking: Taking<'_>,
) {
    let first = job.clone();
    // A claim that has ended already shows at the begin of the batch.
    let _ = pool.hold_endlessly(&job).await;
    let opened = batch.add(job, &pool.given_back);
    // After the job has come into its batch, which may end with the last permit.
    drop(permit);
    let Some(open) = opened else { return };
    gather(pool, registered, batch.within, &open, &first).await;
    let jobs = open.close();
    drop(first);
    if !lane.begin(&jobs, &pool.stop) {
        return pool.give_back(jobs);
    }
    drop(taking);
    let begun = pool.handle.running();
    for job in &jobs {
        job.begin(Some(begun));
    }
    // Dropping the lane drops the handler, and releases the tasks.
    let release = ReleaseOnDrop(&jobs);
    let jobs = hold_all(pool, lane, &jobs).await;
    let handled = handle(pool, lane, (registered, batch), &jobs).await;
    if end_batch(pool, lane, &jobs, handled).await {
        pool.pause.reset();
    }
    drop(release);
}

/// Takes tasks until the batch is full, its time has elapsed, the worker stops or its limit is reached. While it waits, it
/// holds no permit: other lanes need them. Where only these have some left, their tasks come into the batch.
async fn gather(
    pool: &Pool,
    registered: &Registered,
    time: Duration,
    open: &Open<'_>,
    first: &JobCore,
) {
    while !pool.stop.is_raised() && !pool.permits.used_up.is_raised() && open.room() > 0 {
        let left = match within(time) {
            // A worker that ends when it is idle waits for nothing.
            _ if pool.idle.is_some() => Duration::ZERO,
            Some(time) => time.saturating_sub(first.held()),
            None => Duration::MAX,
        };
        let most = open.room().min(pool.permits.left());
        let taken = take_more(pool, registered, open, (most, left)).await;
        match taken {
            // Its time has elapsed, or it is full.
            Ok(claims) if claims.is_empty() => return,
            Ok(claims) => add_all(pool, registered, open, claims).await,
            Err(error) => return take_failed(pool, error),
        }
    }
}

/// Takes up to so many tasks, and waits for the first one for at most this time; without a task to take, for the others.
async fn take_more(
    pool: &Pool,
    registered: &Registered,
    open: &Open<'_>,
    (most, timeout): (usize, Duration),
) -> Result<Vec<Claim>> {
    let tube = pool.session.tube(&registered.tube)?;
    // Dropping the take releases the tasks that were assigned to it meanwhile.
    let take = async {
        if most == 0 {
            return elapse(&pool.handle, timeout).await.map(|()| Vec::new());
        }
        tube.take_within(most, ByteBudget::unlimited(), within(timeout)).await
    };
    let take = unless_raised(&pool.permits.used_up, unless_raised(open.full(), take));
    let taken = unless_raised(&pool.stop, take).await;
    taken.flatten().flatten().unwrap_or_else(|| Ok(Vec::new()))
}

/// Adds the tasks to the batch. Those without room or a permit are given back.
async fn add_all(pool: &Pool, registered: &Registered, open: &Open<'_>, claims: Vec<Claim>) {
    // From now on a drop forgives the attempts.
    let mut jobs: Vec<Arc<JobCore>> =
        claims.into_iter().filter_map(|claim| pool.job_of(claim)).collect();
    let permits = pool.permits.take(jobs.len());
    jobs.truncate(permits);
    let mut added = 0;
    for job in jobs {
        let _ = pool.hold_endlessly(&job).await;
        if let Err(unhandled) = registered.handler(job.claim().body()) {
            job.choose(unhandled);
        }
        added += usize::from(open.add(job));
    }
    pool.permits.give_back(permits - added);
}

/// A take has failed: the batch runs with what it has. What ends the worker, or drops the tube, is found again by the
/// next take.
fn take_failed(pool: &Pool, error: Error) {
    match error {
        Error::Closed
        | Error::SessionEnded
        | Error::Stopped { .. }
        | Error::Refused { .. }
        | Error::Forked { .. }
        | Error::TubeDropped { .. } => {}
        error => {
            pool.begin_pause(error, &pool.stop);
        }
    }
}

/// Holds the tasks for as long as the batch may run. A job whose claim has ended while the batch gathered ends as
/// lost, and no handler gets it.
async fn hold_all(pool: &Pool, lane: &Lane, jobs: &[Arc<JobCore>]) -> Vec<Arc<JobCore>> {
    let mut held = Vec::with_capacity(jobs.len());
    for job in jobs {
        if is_current(pool, job).await {
            held.push(job.clone());
        } else {
            end_lost(pool, lane, job).await;
        }
    }
    held
}

/// A claim that may stand is not lost.
async fn is_current(pool: &Pool, job: &JobCore) -> bool {
    if pool.max_runtime.is_some() {
        let held = pool.hold(job).await;
        return !matches!(held, Err(Error::NotTaken { .. } | Error::SessionEnded));
    }
    let claim = job.claim();
    let is_current =
        if pool.is_blocking { claim.is_current() } else { claim.held.is_current_async().await };
    is_current.unwrap_or(true)
}

/// Calls the handler.
async fn handle(
    pool: &Pool,
    lane: &Lane,
    (registered, batch): (&Registered, &Batch),
    jobs: &[Arc<JobCore>],
) -> How {
    let span = Process::of_batch(jobs);
    let handled = match &batch.handler {
        BatchHandler::Blocking(handler) => {
            span.run(|| panic_to_error(|| handler(jobs))).unwrap_or_else(How::panicked)
        }
        BatchHandler::Async(handler) => {
            match span.run(|| panic_to_error(|| handler(jobs.to_vec()))) {
                Ok(future) => {
                    let caught = Caught(Some(future));
                    let future = until_timeout(jobs.to_vec(), registered.limit, caught);
                    spawned::handle(pool, lane, span.around(future)).await
                }
                Err(why) => How::panicked(why),
            }
        }
    };
    span.ended_batch(jobs, &handled);
    handled
}
