//! The ends of jobs, and of the claims on their tasks.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::how::How;
use super::job::{Interrupt, JobCore};
use super::pool::{Lane, Pool};
use super::report::{Ended, Report, Tally};
use crate::base::park::yield_once;
use crate::base::signal::SignalWait;
use crate::core::verb::{Begin, OfClaim};
#[cfg(feature = "redb")]
use crate::handle::job_notes::EndedInTransaction;
use crate::handle::job_notes::is_of_store;
use crate::handle::outcome::EndCall;
use crate::handle::store_handle::StoreHandle;
use crate::{Error, EventKind, Failure, Outcome, Receipt, Result, TaskState};

/// For how long a task is snoozed whose job the store could not serve.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);

/// What becomes of the claim of a job.
pub(super) enum End {
    Call(EndCall),
    /// The claim is left as it is.
    Keep,
    /// The claim has ended: the task waits for other ones.
    Blocked,
}

/// A job that ends.
pub(super) struct JobEnd<'a> {
    pub(super) job: &'a Arc<JobCore>,
    pub(super) end: End,
    ended: Ended,
}

/// What has become of the end of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Concluded {
    Stored,
    /// Its claim had ended before.
    Lost,
    NotStored,
}

/// Ends a job whose handler has ended like this. Returns whether the store works.
pub(super) async fn end_job(pool: &Pool, lane: &Lane, job: &Arc<JobCore>, handled: How) -> bool {
    job.begin_end();
    if has_ended_in_transaction(pool, lane, job) {
        return true;
    }
    if let How::Dropped = handled {
        job.was_dropped();
    }
    let refusal = refusal(job, &handled);
    let mut ending = match &refusal {
        None => JobEnd::new(job, job.interrupted(), handled),
        Some(_) => JobEnd::unserved(job),
    };
    let stored = settle(pool, &mut ending).await;
    match conclude(pool, lane, ending, stored).await {
        Concluded::Stored => refusal.is_none_or(|error| goes_on(pool, job.is_timed(), error)),
        Concluded::Lost => true,
        Concluded::NotStored => false,
    }
}

impl<'a> JobEnd<'a> {
    /// The end of a job whose handler has ended like this.
    pub(super) fn new(job: &'a Arc<JobCore>, interrupt: Interrupt, handled: How) -> JobEnd<'a> {
        let (mut ended, end) = decide(&job.claim().held.handle, interrupt, handled);
        let end = end.unwrap_or_else(|error| refused(&mut ended, &error));
        JobEnd { job, end, ended }
    }

    /// The end of a job that the store could not serve.
    pub(super) fn unserved(job: &'a Arc<JobCore>) -> JobEnd<'a> {
        let delay = if job.is_timed() { AFTER_REFUSAL } else { Duration::ZERO };
        JobEnd { job, end: End::Call(EndCall::snooze(delay)), ended: Ended::Snoozed }
    }

    /// Applies the delay and the limit of attempts that the worker has for the task.
    pub(super) async fn limit_attempts(&mut self, pool: &Pool) {
        if let (Some(registered), End::Call(call)) =
            (pool.tubes.get(self.job.place()), &mut self.end)
        {
            pool.retries.apply(registered, pool.is_blocking, self.job, call).await;
        }
    }

    /// Takes the delay that a tube without delays does not have. `None` if there is none to wait for:
    /// the task has had its last attempt, for instance.
    pub(super) fn take_delay(&mut self) -> Option<Duration> {
        let End::Call(call) = &mut self.end else { return None };
        if self.job.is_timed() {
            return None;
        }
        let is_last = !call.forgives() && self.job.claim().attempts_left() == Some(0);
        let delay = call.take_delay().filter(|delay| !delay.is_zero() && !is_last)?;
        if call.forgives() {
            self.job.forgive();
        }
        Some(delay)
    }
}

/// Reports and counts the end of a job. If the store has refused it, the attempt fails.
pub(super) async fn conclude(
    pool: &Pool,
    lane: &Lane,
    mut ending: JobEnd<'_>,
    mut stored: Result<TaskState>,
) -> Concluded {
    if let Err(error) = &stored
        && is_refusal(error)
    {
        ending.end = refused(&mut ending.ended, error);
        stored = settle(pool, &mut ending).await;
    }
    let JobEnd { job, end, ended } = ending;
    match stored {
        Ok(state) => {
            job.keep();
            if lane.end(job, |tally| tally.count(ended)) {
                pool.report(|| ended_report(job, ended, state, end.into_failure()));
            }
            Concluded::Stored
        }
        Err(Error::NotTaken { .. } | Error::SessionEnded) => {
            end_lost(pool, lane, job).await;
            Concluded::Lost
        }
        Err(error) => {
            job.release();
            job.keep();
            if lane.end(job, |tally| tally.not_stored += 1) {
                let (tube, id) = (job.tube(), job.claim().id());
                pool.report(|| Report::NotStored { tube, id, end: ended, error });
            }
            Concluded::NotStored
        }
    }
}

/// Reports why the store could not serve a job. Returns whether the worker goes on at once: otherwise it pauses, as
/// the task is ready again.
pub(super) fn goes_on(pool: &Pool, is_timed: bool, error: Error) -> bool {
    if is_timed {
        pool.report(|| Report::Error(error));
    } else {
        pool.begin_pause(error, &pool.stop);
    }
    is_timed
}

/// Counts and reports a job whose handler has ended the claim in a transaction. The worker ignores what the handler
/// has returned.
#[cfg(feature = "redb")]
pub(super) fn has_ended_in_transaction(pool: &Pool, lane: &Lane, job: &Arc<JobCore>) -> bool {
    let Some(EndedInTransaction { kind, state, failure }) = job.ended_in_transaction() else {
        return false;
    };
    let end = Ended::of(kind);
    job.keep();
    if lane.end(job, |tally| tally.count(end)) {
        pool.report(|| ended_report(job, end, state, failure));
    }
    true
}

/// Only a transaction of the application can do so.
#[cfg(not(feature = "redb"))]
pub(super) fn has_ended_in_transaction(_: &Pool, _: &Lane, _: &Arc<JobCore>) -> bool {
    false
}

impl Ended {
    /// How a job has ended that ends with this call.
    fn by(call: &EndCall) -> Ended {
        match call {
            EndCall::Ack(_) => Ended::Done,
            EndCall::Release(_) => Ended::Released,
            EndCall::Snooze(_) => Ended::Snoozed,
            EndCall::End(task) => Ended::of(task.request.end.kind()),
        }
    }

    /// How a job has ended whose end has this kind.
    fn of(kind: EventKind) -> Ended {
        match kind {
            EventKind::Advance => Ended::Advanced,
            EventKind::Release => Ended::Released,
            EventKind::Snooze => Ended::Snoozed,
            EventKind::Fail => Ended::Failed,
            EventKind::Bury => Ended::Buried,
            done => {
                debug_assert_eq!(done, EventKind::Ack, "it ends a claim");
                Ended::Done
            }
        }
    }
}

impl End {
    fn into_failure(self) -> Option<Failure> {
        match self {
            End::Call(call) => call.into_failure(),
            End::Keep | End::Blocked => None,
        }
    }
}

/// Ends the claim, with the delay and the limit of attempts that the worker has for the task.
async fn settle(pool: &Pool, ending: &mut JobEnd<'_>) -> Result<TaskState> {
    ending.limit_attempts(pool).await;
    if let Some(delay) = ending.take_delay() {
        hold_for(pool, ending.job, delay).await;
    }
    store_or_repeat(pool, ending.job, &ending.end).await
}

/// Keeps the claim for a time, because its tube has no delays, so that no take gets the task before. A
/// stop of the worker or the end of the task ends that early.
pub(super) async fn hold_for(pool: &Pool, job: &JobCore, delay: Duration) {
    let Some(registered) = pool.tubes.get(job.place()) else { return };
    let mut stop = SignalWait::new(&pool.stop);
    let mut ended = registered.tube.to_async().wait_done(job.claim().id(), delay);
    poll_fn(|context| match stop.poll(context.waker()) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => Pin::new(&mut ended).poll(context).map(drop),
    })
    .await;
}

/// The error of the store that a handler has failed with, if that is none of the job: the attempt
/// does not count.
pub(super) fn refusal(job: &JobCore, handled: &How) -> Option<Error> {
    match handled {
        _ if job.interrupted() != Interrupt::None => None,
        How::DiskFull(error) => Some((**error).clone()),
        How::Failed(_) => job.refusal(),
        _ => None,
    }
}

/// The call that ends the claim of a job whose handler has ended like this.
fn decide(handle: &StoreHandle, interrupt: Interrupt, handled: How) -> (Ended, Result<End>) {
    let outcome = match (interrupt, handled) {
        (Interrupt::Parked, _) => return (Ended::Detached, Ok(End::Keep)),
        (Interrupt::Blocked, _) => return (Ended::Suspended, Ok(End::Blocked)),
        (Interrupt::Asleep(left), How::Failed(_) | How::DiskFull(_)) => {
            return (Ended::Suspended, Ok(End::Call(EndCall::snooze(left))));
        }
        (Interrupt::Stopping, How::Failed(_) | How::Dropped)
        | (Interrupt::Lost, How::Failed(_))
        | (_, How::DiskFull(_)) => Outcome::snooze(Duration::ZERO),
        (_, How::Done) => Outcome::done(),
        (_, How::Outcome(outcome)) => *outcome,
        (_, How::Failed(failure)) => Outcome::fail(failure),
        (_, How::Panicked(failure)) => {
            let call = EndCall::fail(failure);
            return (Ended::Panicked, Ok(End::Call(call)));
        }
        (_, How::Undecodable(failure)) => {
            let call = EndCall::bury(failure);
            return (Ended::Undecodable, Ok(End::Call(call)));
        }
        (_, How::Dropped) => Outcome::release(),
    };
    match outcome.into_call(handle) {
        Ok(Some(call)) => (Ended::by(&call), Ok(End::Call(call))),
        Ok(None) => (Ended::Detached, Ok(End::Keep)),
        Err(error) => (Ended::Failed, Err(error)),
    }
}

/// The attempt fails because the store has refused what the handler wanted. If the task was only
/// released, it would be worked on again and again.
fn refused(ended: &mut Ended, error: &Error) -> End {
    *ended = Ended::Failed;
    End::Call(EndCall::fail(Failure::new("refused", error.to_string())))
}

/// Whether the error is caused by the outcome that the handler has returned, and not by the state
/// of the claim or the store.
pub(super) fn is_refusal(error: &Error) -> bool {
    !matches!(
        error,
        Error::NotTaken { .. }
            | Error::SessionEnded
            | Error::Closed
            | Error::OutcomeUnknown { .. }
            | Error::Unavailable { .. }
            | Error::Stopped { .. }
            | Error::DiskFull { .. }
            | Error::Overloaded
            | Error::NotConnected { .. }
            | Error::Refused { .. }
            | Error::Corrupt { .. }
            | Error::Io { .. }
            | Error::InTransaction
            | Error::Forked { .. }
    )
}

/// Ends the claim, and repeats that after a pause while the store cannot do it: the claim is held
/// meanwhile. Once the worker stops, the time for that is limited.
pub(super) async fn store_or_repeat(pool: &Pool, job: &JobCore, end: &End) -> Result<TaskState> {
    store_after(pool, job, end, Repeats::default()).await
}

/// As `store_or_repeat`, after other calls that may have ended the claim.
pub(super) async fn store_after(
    pool: &Pool,
    job: &JobCore,
    end: &End,
    mut repeats: Repeats,
) -> Result<TaskState> {
    loop {
        match store(pool, job, end).await {
            Err(error) => repeats.pause(pool, job.claim().held.is_remote(), error).await?,
            stored => return stored,
        }
    }
}

/// The repetitions of a call that ends claims.
#[derive(Clone, Default)]
pub(super) struct Repeats {
    /// The first call of which it is unknown whether it was made.
    unknown: Option<Error>,
}

impl Repeats {
    /// Pauses after an error, before the call is repeated. Returns the error if it is not. The claims may be ones
    /// through a connection.
    pub(super) async fn pause(&mut self, pool: &Pool, is_remote: bool, error: Error) -> Result<()> {
        if !can_repeat(is_remote, &error) {
            return Err(self.last(error));
        }
        if let Error::OutcomeUnknown { .. } = &error {
            self.unknown.get_or_insert_with(|| error.clone());
        }
        // The stop ends the pause, so that the end is repeated then.
        let early = if pool.stop.is_raised() { &pool.out_of_time } else { &pool.stop };
        if pool.out_of_time.is_raised() || !pool.begin_pause(error.clone(), early) {
            return Err(self.unknown.clone().unwrap_or(error));
        }
        pool.pause.wait(early).await;
        if !pool.is_blocking {
            yield_once().await;
        }
        Ok(())
    }

    /// The error of an end that is not repeated. A call before it may have ended the claim.
    pub(super) fn last(&self, error: Error) -> Error {
        match error {
            Error::NotTaken { .. }
            | Error::SessionEnded
            | Error::Closed
            | Error::Refused { .. } => self.unknown.clone().unwrap_or(error),
            error => error,
        }
    }
}

/// Whether the same call may succeed later, and does no harm if it was carried out already. The claim
/// may be one through a connection.
pub(super) fn can_repeat(is_remote: bool, error: &Error) -> bool {
    match error {
        // The connection broke, and the session of the claim may be resumed. In one process, the
        // store has decided the call and applies it later.
        Error::OutcomeUnknown { .. } => is_remote,
        Error::Forked { .. } => false,
        error => is_of_store(error),
    }
}

/// Ends the claim. Returns the state of the task.
async fn store(pool: &Pool, job: &JobCore, end: &End) -> Result<TaskState> {
    match end {
        End::Call(EndCall::Ack(ack)) => make(pool, job, ack).await,
        End::Call(EndCall::Release(release)) => make(pool, job, release).await,
        End::Call(EndCall::Snooze(snooze)) => make(pool, job, snooze).await,
        End::Call(EndCall::End(end)) => make(pool, job, &**end).await,
        End::Keep => Ok(TaskState::Taken),
        End::Blocked => Ok(TaskState::Blocked),
    }
}

async fn make<V>(pool: &Pool, job: &JobCore, verb: &V) -> Result<TaskState>
where
    V: Begin<On = OfClaim, Answer = Receipt>,
{
    let claim = job.claim();
    let receipt =
        if pool.is_blocking { claim.held.make(verb)? } else { claim.held.make_async(verb).await? };
    Ok(receipt.state)
}

fn ended_report(job: &JobCore, end: Ended, state: TaskState, failure: Option<Failure>) -> Report {
    let (tube, id, attempt) = (job.tube(), job.claim().id(), job.claim().attempt());
    Report::Ended { tube, id, attempt, end, state, failure, ran: job.ran() }
}

/// Ends a job whose claim has ended before. The worker ignores what the handler has returned.
pub(super) async fn end_lost(pool: &Pool, lane: &Lane, job: &Arc<JobCore>) {
    job.keep();
    let has_timed_out = match pool.tubes.get(job.place()) {
        Some(registered) => registered.limit_now(job, pool.is_blocking).await.has_elapsed(job),
        None => false,
    };
    let count = |tally: &mut Tally| {
        *(if has_timed_out { &mut tally.timed_out } else { &mut tally.lost }) += 1;
    };
    if lane.end(job, count) {
        let (tube, id, attempt) = (job.tube(), job.claim().id(), job.claim().attempt());
        let ran = job.ran();
        pool.report(|| {
            if has_timed_out {
                Report::TimedOut { tube, id, attempt, ran }
            } else {
                Report::Lost { tube, id, attempt, ran }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No end is refused with `Overloaded` today: calls of claims wait for space.
    #[test]
    fn ends_are_repeated_after_errors_of_the_store_only() {
        let unknown = Error::OutcomeUnknown { why: "x".into() };
        for (error, here, remote) in [
            (Error::DiskFull { path: "x".into() }, true, true),
            (Error::Overloaded, true, true),
            (unknown, false, true),
            (Error::NotTaken { id: 1 }, false, false),
            (Error::Closed, false, false),
            (Error::Refused { why: "x".into() }, false, false),
            (Error::invalid("x"), false, false),
        ] {
            assert_eq!((can_repeat(false, &error), can_repeat(true, &error)), (here, remote));
            assert!(!(is_refusal(&error) && here), "{error}: the attempt would fail");
        }
    }
}
