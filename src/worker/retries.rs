//! The worker's own limit and delay for failed attempts that nothing else limits. Without them a worker would call a
//! handler that always fails thousands of times a second, for ever.

use std::time::Duration;

use super::job::JobCore;
use super::source::Registered;
use crate::Backoff;
use crate::handle::outcome::EndCall;

/// The attempts of tasks that have no limit of attempts, and whose tubes have none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retries {
    pub(super) backoff: Backoff,
    pub(super) max_attempts: u32,
}

impl Default for Retries {
    /// 25 attempts in 13 hours.
    fn default() -> Retries {
        let backoff = Backoff::exponential(Duration::from_secs(1));
        Retries { backoff: backoff.cap(Duration::from_secs(3600)), max_attempts: 25 }
    }
}

impl Retries {
    /// Changes the end of an attempt that has failed, if nothing limits the attempts of its task.
    /// `is_blocking`: the calls of the worker may block.
    pub(super) async fn apply(
        &self,
        registered: &Registered,
        is_blocking: bool,
        job: &JobCore,
        call: &mut EndCall,
    ) {
        let claim = job.claim();
        if !call.is_failure() || claim.attempts_left().is_some() {
            return;
        }
        if claim.attempt() >= self.max_attempts {
            return call.bury_failed();
        }
        if !registered.is_timed {
            return;
        }
        let info = registered.info(is_blocking).await;
        if info.is_ok_and(|info| info.backoff == Backoff::none()) {
            call.delay_failed(self.backoff.delay(claim.id(), claim.attempt()));
        }
    }
}
