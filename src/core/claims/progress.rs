//! Progress: what the holder of a claim reports. It is kept in memory with the claim.

use crate::core::state::{ClaimKey, Core};
use crate::task::Progress;
use crate::{Error, Result};

/// The longest text of a report, in bytes.
const TEXT_MAX: usize = 1024;

/// The shortest time between two events of the reports on one claim, in microseconds.
const EVENT_INTERVAL: u64 = 100_000;

/// A report of a holder.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgressReport<'a> {
    Count { done: u64, total: u64 },
    Text(&'a str),
}

impl Core {
    /// Notes what the holder of a task reports. Changes memory only. An event follows if the last
    /// one was long enough ago, and else before the claim ends, if that is the last report.
    pub(in crate::core) fn report_progress(
        &mut self,
        key: ClaimKey,
        report: ProgressReport<'_>,
    ) -> Result<()> {
        let ClaimKey { tube: number, id, .. } = key;
        if let ProgressReport::Text(text) = report
            && text.len() > TEXT_MAX
        {
            return Err(Error::invalid(format!(
                "a text of progress may have {TEXT_MAX} bytes; this one has {}",
                text.len()
            )));
        }
        self.check_claim(key)?;
        let now = self.now.running;
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Error::NotTaken { id }) };
        let reported = claim.progress.get_or_insert_default();
        match report {
            ProgressReport::Count { done, total } => {
                (reported.last.done, reported.last.total) = (done, total);
            }
            ProgressReport::Text(text) => reported.last.text = Some(text.into()),
        }
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
        let Some(claim) = self.claims.get_mut(&id) else { return };
        let Some(reported) = &mut claim.progress else { return };
        if std::mem::take(&mut reported.is_pending) {
            let (number, progress) = (claim.tube, reported.last.clone());
            self.queue_progress(number, id, progress);
        }
    }

    /// What the holder of a task has reported.
    pub(in crate::core) fn progress_of(&self, id: u64) -> Option<Progress> {
        Some(self.claims.get(&id)?.progress.as_ref()?.last.clone())
    }
}
