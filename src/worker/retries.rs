//! What a worker does about failed attempts that nothing limits: a handler that always fails must not be called
//! thousands of times a second, and for ever.

use std::time::Duration;

use super::job::JobCore;
use super::pool::Pool;
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
    pub(super) async fn apply(&self, pool: &Pool, job: &JobCore, call: &mut EndCall) {
        let claim = job.claim();
        if !call.is_failure() || claim.attempts_left().is_some() {
            return;
        }
        if claim.attempt() >= self.max_attempts {
            return call.bury_failed();
        }
        let Some(registered) = pool.tubes.get(job.place()).filter(|it| it.is_timed) else { return };
        let info = registered.info(pool.is_blocking).await;
        if info.is_ok_and(|info| info.backoff == Backoff::none()) {
            call.delay_failed(self.backoff.delay(claim.id(), claim.attempt()));
        }
    }
}
