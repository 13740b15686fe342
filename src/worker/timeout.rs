//! The limit of time of jobs. A handler that is a future is dropped when its time has elapsed, whatever has become of
//! its claim until then, so that its place is free. A handler on a thread can only be told: its job is counted when it
//! returns.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::handled::How;
use super::job::JobCore;
use crate::Error;
use crate::base::signal::{Signal, raised};
use crate::handle::take::elapse;

/// How much sooner than the limit the claim may end, on the clock of its job: with a limit of the tube, the claim
/// begins with the take. A handler that returns because of that end has run for as long as it may.
const EARLY: Duration = Duration::from_secs(1);

/// Whether a job whose claim has ended was dropped by its limit, or has run for as long as it may, or nearly.
pub(super) fn has_timed_out(job: &JobCore, limit: Option<Duration>) -> bool {
    job.is_timed_out()
        || limit.is_some_and(|limit| job.ran().saturating_add(EARLY.min(limit / 4)) >= limit)
}

/// Runs a handler until it ends, or until its time has elapsed. The handler is dropped then.
///
/// The end of the claim is waited for from now on, and not from the first poll, which may come late.
pub(super) fn until_timeout(
    job: Arc<JobCore>,
    limit: Option<Duration>,
    handler: impl Future<Output = How>,
) -> impl Future<Output = How> {
    let limited = limit.map(|limit| (limit, job.claim_end()));
    async move {
        match limited {
            Some((limit, ended)) => until_elapsed(&job, limit, ended, handler).await,
            None => handler.await,
        }
    }
}

async fn until_elapsed(
    job: &JobCore,
    limit: Duration,
    ended: Option<Arc<Signal>>,
    handler: impl Future<Output = How>,
) -> How {
    let (mut handler, mut elapsed) = (pin!(handler), pin!(time_elapses(job, limit, ended)));
    poll_fn(|context| match handler.as_mut().poll(context) {
        Poll::Ready(handled) => Poll::Ready(handled),
        Poll::Pending => elapsed.as_mut().poll(context).map(|()| How::Dropped),
    })
    .await
}

/// The claim, whose end raises the signal, measures the time of its job. Where it has ended before, the rest of the
/// time goes on.
async fn time_elapses(job: &JobCore, limit: Duration, ended: Option<Arc<Signal>>) {
    if let Some(ended) = &ended {
        raised(ended).await;
    }
    loop {
        let rest = limit.saturating_sub(job.ran());
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
