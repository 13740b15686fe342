//! The limit of time of jobs. A handler that is a future is dropped when the claim has ended because the time has
//! elapsed, so that its place is free. A handler on a thread can only be told: its job is counted when it returns.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::handled::How;
use super::job::JobCore;
use crate::base::signal::SignalWait;

/// How much sooner than the limit the claim may end, on the clock of its job: with a limit of the tube, the claim
/// begins with the take.
const EARLY: Duration = Duration::from_secs(1);

/// Whether a job whose claim has ended has run for as long as it may, or nearly.
pub(super) fn has_timed_out(job: &JobCore, limit: Option<Duration>) -> bool {
    limit.is_some_and(|limit| job.ran().saturating_add(EARLY.min(limit / 4)) >= limit)
}

/// Runs a handler until it ends, or until its time has elapsed. The handler is dropped then.
///
/// The end of the claim is waited for from now on, and not from the first poll, which may come late.
pub(super) fn until_timeout(
    job: Arc<JobCore>,
    limit: Option<Duration>,
    handler: impl Future<Output = How>,
) -> impl Future<Output = How> {
    let ended = limit.and_then(|_| job.claim_end());
    async move {
        match ended {
            Some(ended) => until_ended(&job, limit, SignalWait::new(&ended), handler).await,
            None => handler.await,
        }
    }
}

async fn until_ended(
    job: &JobCore,
    limit: Option<Duration>,
    ended: SignalWait,
    handler: impl Future<Output = How>,
) -> How {
    let mut handler = pin!(handler);
    let mut ended = Some(ended);
    poll_fn(|context| {
        if let Poll::Ready(handled) = handler.as_mut().poll(context) {
            return Poll::Ready(handled);
        }
        let Some(wait) = &mut ended else { return Poll::Pending };
        if wait.poll(context.waker()).is_pending() {
            return Poll::Pending;
        }
        // That of a task that was deleted is for the handler to see, as without a limit.
        ended = None;
        if has_timed_out(job, limit) { Poll::Ready(How::Dropped) } else { Poll::Pending }
    })
    .await
}
