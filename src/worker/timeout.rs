//! The limit of time of jobs. A handler that is a future is dropped when its time has elapsed, whatever has become of
//! its claim until then, so that its place is free. A handler on a thread can only be told: its job is counted when it
//! returns.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::how::How;
use super::job::JobCore;
use crate::Error;
use crate::base::signal::{Signal, raised};
use crate::handle::take::elapse;

/// How much sooner than the limit the claim may end, on the clock of its job, which has not begun with the claim. A
/// handler that returns because of that end has run for as long as it may.
const EARLY: Duration = Duration::from_secs(1);

/// How long a job may run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RunLimit {
    /// From the begin of the job.
    pub(super) of_worker: Option<Duration>,
    /// From the take, which a batch that gathers is long after. That of the task overrides that of the tube.
    pub(super) of_tube: Option<Duration>,
}

impl RunLimit {
    /// The limit of this job.
    pub(super) fn of(self, job: &JobCore) -> RunLimit {
        let of_tube = job.own_limit().or(self.of_tube);
        RunLimit { of_tube: of_tube.filter(|limit| *limit != Duration::MAX), ..self }
    }

    fn is_limited(self) -> bool {
        self.of_worker.is_some() || self.of_tube.is_some()
    }

    /// How long the job may still run.
    fn rest(self, job: &JobCore) -> Duration {
        let of_worker = self.of_worker.map(|limit| limit.saturating_sub(job.ran()));
        let of_tube = self.of_tube.map(|limit| limit.saturating_sub(job.held()));
        of_worker.into_iter().chain(of_tube).min().unwrap_or(Duration::MAX)
    }

    /// Whether a job whose claim has ended was dropped by its limit, or has run for as long as it may, or nearly.
    pub(super) fn has_elapsed(self, job: &JobCore) -> bool {
        if job.is_timed_out() {
            return true;
        }
        let is_over = |limit: Option<Duration>, time: Duration| {
            limit.is_some_and(|limit| time.saturating_add(EARLY.min(limit / 4)) >= limit)
        };
        is_over(self.of_worker, job.ran()) || is_over(self.of_tube, job.held())
    }
}

/// Runs the handler of a job, or of the jobs of a batch, until it ends, or until its time has elapsed. The handler
/// is dropped then.
///
/// The handler of a batch is dropped when the time of all its jobs has elapsed. The end of the last claim is waited for
/// from now on, and not from the first poll, which may come late.
pub(super) fn until_timeout(
    jobs: impl AsRef<[Arc<JobCore>]> + Send + 'static,
    limit: RunLimit,
    handler: impl Future<Output = How>,
) -> impl Future<Output = How> {
    let is_limited = jobs.as_ref().iter().all(|job| limit.of(job).is_limited());
    let last = jobs.as_ref().last().filter(|_| is_limited);
    let ended = last.map(|job| job.claim_end());
    async move {
        match ended {
            Some(ended) => until_elapsed(jobs.as_ref(), limit, ended, handler).await,
            None => handler.await,
        }
    }
}

async fn until_elapsed(
    jobs: &[Arc<JobCore>],
    limit: RunLimit,
    ended: Option<Arc<Signal>>,
    handler: impl Future<Output = How>,
) -> How {
    let (mut handler, mut elapsed) = (pin!(handler), pin!(times_elapse(jobs, limit, ended)));
    poll_fn(|context| match handler.as_mut().poll(context) {
        Poll::Ready(handled) => Poll::Ready(handled),
        Poll::Pending => elapsed.as_mut().poll(context).map(|()| How::Dropped),
    })
    .await
}

/// The signal is that of the claim on the last job, which is the youngest one.
async fn times_elapse(jobs: &[Arc<JobCore>], limit: RunLimit, ended: Option<Arc<Signal>>) {
    let Some((last, others)) = jobs.split_last() else { return };
    time_elapses(last, limit.of(last), ended).await;
    for job in others.iter().rev() {
        time_elapses(job, limit.of(job), job.claim_end()).await;
    }
}

/// The claim, whose end raises the signal, measures the time of its job. Where it has ended before, the rest of the
/// time goes on.
async fn time_elapses(job: &JobCore, limit: RunLimit, ended: Option<Arc<Signal>>) {
    if let Some(ended) = &ended {
        raised(ended).await;
    }
    loop {
        let rest = limit.rest(job);
        if rest.is_zero() {
            break;
        }
        // Boxed, since few jobs come here.
        match Box::pin(elapse(&job.claim().held.handle, rest)).await {
            Ok(()) => break,
            Err(Error::NotConnected { .. }) => {}
            // The store is closed, and so there is no clock.
            Err(_) => pending().await,
        }
    }
    job.time_out();
}
