//! The ends of the jobs of a batch, with one call.

use std::sync::Arc;
use std::time::Duration;

use super::ends::{
    Concluded, End, JobEnd, Repeats, can_repeat, conclude, goes_on, has_ended_in_transaction,
    hold_for, is_refusal, refusal, store_after, store_or_repeat,
};
use super::how::How;
use super::job::{Interrupt, JobCore};
use super::pool::{Lane, Pool};
use crate::base::micros::duration;
use crate::core::list::EndClaims;
use crate::core::{ClaimEnd, ClaimKey};
use crate::handle::call;
use crate::handle::trace::CallSpan;
use crate::{Error, Receipt, Result, TaskState};

/// Ends the jobs of a batch whose handler has ended like this. Returns whether the store works.
pub(super) async fn end_batch(
    pool: &Pool,
    lane: &Lane,
    jobs: &[Arc<JobCore>],
    handled: How,
) -> bool {
    for job in jobs {
        job.begin_end();
        if let How::Dropped = handled {
            job.was_dropped();
        }
    }
    let shared = Shared::new(jobs, handled);
    let (mut ends, mut held, mut refusal) = (Vec::new(), Vec::new(), None);
    for job in jobs {
        if has_ended_in_transaction(pool, lane, job) {
            continue;
        }
        let mut ending = shared.end_of(job, &mut refusal);
        ending.limit_attempts(pool).await;
        match ending.take_delay() {
            Some(delay) => held.push((delay, ending)),
            None => ends.push(ending),
        }
    }
    let stored = store_all(pool, &ends).await;
    let mut works = true;
    for (ending, stored) in ends.into_iter().zip(stored) {
        works &= conclude(pool, lane, ending, stored).await != Concluded::NotStored;
    }
    works &= end_held(pool, lane, held).await;
    match (refusal, jobs.first()) {
        (Some(error), Some(job)) => goes_on(pool, job.is_timed(), error) && works,
        _ => works,
    }
}

/// How the handler of a batch has ended, for the jobs that have chosen no end.
struct Shared {
    handled: How,
    /// The store could not carry out a call of a job.
    refusal: Option<Error>,
    /// A job has seen that it should return, so that an error fails no attempt.
    is_interrupted: bool,
}

impl Shared {
    fn new(jobs: &[Arc<JobCore>], handled: How) -> Shared {
        let is_interrupted = jobs.iter().any(|job| job.interrupted() != Interrupt::None);
        let mut served = jobs.iter().filter(|_| !is_interrupted);
        let refusal = served.find_map(|job| refusal(job, &handled));
        Shared { handled, refusal, is_interrupted }
    }

    /// Notes why the store could not serve the job, if it could not.
    fn end_of<'a>(&self, job: &'a Arc<JobCore>, refused: &mut Option<Error>) -> JobEnd<'a> {
        let chosen = job.take_chosen();
        let refusal = match &chosen {
            Some(how) => refusal(job, how),
            None => self.refusal.clone(),
        };
        if let Some(error) = refusal {
            refused.get_or_insert(error);
            return JobEnd::unserved(job);
        }
        let interrupt = match job.interrupted() {
            Interrupt::None if chosen.is_none() && self.is_interrupted => Interrupt::Stopping,
            interrupt => interrupt,
        };
        JobEnd::new(job, interrupt, chosen.unwrap_or_else(|| self.handled.clone()))
    }
}

/// Ends the jobs whose tube has not the delays that they ask for, each after its delay. Returns whether the store
/// works.
async fn end_held(pool: &Pool, lane: &Lane, mut held: Vec<(Duration, JobEnd<'_>)>) -> bool {
    held.sort_by_key(|(delay, _)| *delay);
    let (begun, mut works) = (pool.handle.running(), true);
    for (delay, ending) in held {
        let waited = duration(pool.handle.running().saturating_sub(begun));
        hold_for(pool, ending.job, delay.saturating_sub(waited)).await;
        let stored = store_or_repeat(pool, ending.job, &ending.end).await;
        works &= conclude(pool, lane, ending, stored).await != Concluded::NotStored;
    }
    works
}

/// Ends the claims with one call. Returns the states of the tasks.
async fn store_all(pool: &Pool, ends: &[JobEnd<'_>]) -> Vec<Result<TaskState>> {
    let (mut keys, mut calls) = (Vec::new(), Vec::new());
    for ending in ends {
        if let End::Call(call) = &ending.end {
            keys.push(ending.job.claim().held.key());
            calls.push(ClaimEnd { request: call.to_request(), keeps_claim: true });
        }
    }
    let mut repeats = Repeats::default();
    let answers = make_or_repeat(pool, ends, &keys, EndClaims { ends: calls }, &mut repeats).await;
    let mut answers = answers.map(Vec::into_iter);
    let mut stored = Vec::with_capacity(ends.len());
    for JobEnd { job, end, .. } in ends {
        let answer = match (end, &mut answers) {
            (End::Keep | End::Blocked, _) => None,
            // One end is to blame that the call was refused: each is called alone.
            (End::Call(_), Err(error)) => Some(Err(error.clone())).filter(|_| !is_refusal(error)),
            (End::Call(_), Ok(answers)) => answers.next().filter(|answer| {
                let is_remote = job.claim().held.is_remote();
                !matches!(answer, Err(error) if can_repeat(is_remote, error))
            }),
        };
        stored.push(match answer {
            Some(answer) => {
                answer.map(|receipt| receipt.state).map_err(|error| repeats.last(error))
            }
            None => store_after(pool, job, end, repeats.clone()).await,
        });
    }
    stored
}

/// Makes the call, and repeats it after a pause while the store cannot carry it out.
async fn make_or_repeat(
    pool: &Pool,
    ends: &[JobEnd<'_>],
    keys: &[ClaimKey],
    verb: EndClaims,
    repeats: &mut Repeats,
) -> Result<Vec<Result<Receipt>>> {
    let Some(first) = ends.first().filter(|_| !keys.is_empty()) else { return Ok(Vec::new()) };
    let held = &first.job.claim().held;
    loop {
        let made = {
            let span = CallSpan::of_claims(&held.grant, &verb, keys.len());
            let made = if pool.is_blocking {
                held.handle.make(held.grant.buffer, keys, &verb)
            } else {
                call::make(&held.handle, held.grant.buffer, keys, &verb).await
            };
            span.answered::<EndClaims>(&made);
            made
        };
        match made {
            Ok(answers) => return Ok(answers),
            Err(error) => repeats.pause(pool, held.is_remote(), error).await?,
        }
    }
}
