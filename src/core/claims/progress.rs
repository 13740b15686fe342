//! Progress: what the holder of a claim reports. It is kept in memory with the claim.

use crate::core::state::{ClaimKey, Core, Decided};
use crate::core::verb::{Decide, Limits, verb};
use crate::values::task::Progress;
use crate::{Error, Result};

/// The longest text of a report, in bytes.
const TEXT_MAX: usize = 1024;

/// The shortest time between two events of the reports on one claim, in microseconds.
const EVENT_INTERVAL: u64 = 100_000;

verb! {
    /// How far the work on a task is.
    4 OfClaim Memory: ReportProgress { done: u64, total: u64 } -> () {
        const AT_ONCE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }
    }
}

verb! {
    /// What the work on a task is at.
    32 OfClaim Memory: ReportText { text: Box<str> } -> () {
        const AT_ONCE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }

        fn check(&self, _: Limits) -> Result<()> {
            if self.text.len() <= TEXT_MAX {
                return Ok(());
            }
            Err(Error::invalid(format!(
                "a text of progress may have {TEXT_MAX} bytes; this one has {}",
                self.text.len()
            )))
        }
    }
}

impl Decide for ReportProgress {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<()>> {
        let ReportProgress { done, total } = *self;
        core.report(key, |last| (last.done, last.total) = (done, total)).map(Decided::now)
    }
}

impl Decide for ReportText {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<()>> {
        core.report(key, |last| last.text = Some((*self.text).into())).map(Decided::now)
    }
}

impl Core {
    /// Notes what the holder of a task reports. Changes memory only. An event follows if the last
    /// one was long enough ago, and else before the claim ends, if that is the last report.
    fn report(&mut self, key: ClaimKey, note: impl FnOnce(&mut Progress)) -> Result<()> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let now = self.now.running;
        let Some(claim) = self.claims.get_mut(id) else { return Err(Error::NotTaken { id }) };
        let reported = claim.progress.get_or_insert_default();
        note(&mut reported.last);
        reported.is_pending = reported.event_at.is_some_and(|at| now - at < EVENT_INTERVAL);
        if !reported.is_pending {
            reported.event_at = Some(now);
            let progress = reported.last.clone();
            self.queue_progress(number, id, progress);
        }
        Ok(())
    }

    /// Queues the event of the last report, if it has none. The caller ends the claim.
    #[inline]
    pub(super) fn queue_pending_progress(&mut self, id: u64) {
        let Some(claim) = self.claims.get_mut(id) else { return };
        let Some(reported) = &mut claim.progress else { return };
        if std::mem::take(&mut reported.is_pending) {
            let (number, progress) = (claim.tube, reported.last.clone());
            self.queue_progress(number, id, progress);
        }
    }

    /// What the holder of a task has reported.
    pub(in crate::core) fn progress_of(&self, id: u64) -> Option<Progress> {
        Some(self.claims.get(id)?.progress.as_ref()?.last.clone())
    }
}
