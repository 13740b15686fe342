//! Whether the store works: it may be closed, or its storage may have failed.

use crate::{Error, Result};

/// The retry delay after the first failed attempt, in microseconds. It doubles with each attempt.
const FIRST_RETRY_DELAY: u64 = 20_000;
/// The longest retry delay, in microseconds.
const MAX_RETRY_DELAY: u64 = 10_000_000;

/// Whether the store works.
#[derive(Debug, Default)]
pub(crate) struct Health {
    is_closed: bool,
    /// The failure of the storage because of which nothing is written.
    outage: Option<Outage>,
    /// Changes that are in progress while a driver is called. If it panics, they are incomplete.
    edits_in_progress: u32,
}

impl Health {
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether the storage has failed.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.outage.is_some()
    }

    /// Returns an error if the storage has failed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        self.outage.as_ref().map_or(Ok(()), |outage| Err(outage.error()))
    }

    /// The storage has failed. `is_defect`: no retry can repair it. Returns the error for those who wait.
    pub(in crate::core) fn fail(&mut self, why: &str, is_defect: bool, now: u64) -> Error {
        let outage = self.outage.get_or_insert_with(|| Outage {
            why: why.to_owned(),
            retry: Some(Retry { at: now, delay: FIRST_RETRY_DELAY }),
        });
        if is_defect && outage.retry.take().is_some() {
            why.clone_into(&mut outage.why);
        }
        outage.error()
    }

    /// Why the storage has failed.
    pub(in crate::core) fn why_failed(&self) -> Option<&str> {
        self.outage.as_ref().map(|outage| &*outage.why)
    }

    /// When to retry the storage, on running time.
    pub(in crate::core) fn retry_at(&self) -> Option<u64> {
        Some(self.outage.as_ref()?.retry?.at)
    }

    /// Schedules the next retry after one that failed.
    pub(in crate::core) fn retry_later(&mut self, why: &str, now: u64) {
        if let Some(outage) = &mut self.outage
            && let Some(retry) = &mut outage.retry
        {
            why.clone_into(&mut outage.why);
            retry.at = now.saturating_add(retry.delay);
            retry.delay = retry.delay.saturating_mul(2).min(MAX_RETRY_DELAY);
        }
    }

    /// The storage works again.
    pub(in crate::core) fn recover(&mut self) {
        self.outage = None;
    }

    /// A change begins, during which a driver is called.
    pub(in crate::core) fn begin_change(&mut self) {
        self.edits_in_progress += 1;
    }

    pub(in crate::core) fn end_change(&mut self) {
        self.edits_in_progress -= 1;
    }

    /// Whether a panic now leaves a change incomplete.
    pub(in crate::core) fn is_changing(&self) -> bool {
        self.edits_in_progress > 0
    }
}

/// A failed storage. Nothing is written until it has been reopened.
#[derive(Debug)]
struct Outage {
    why: String,
    /// The next retry. `None` after a defect, which a retry cannot repair.
    retry: Option<Retry>,
}

/// The next attempt to reopen the storage.
#[derive(Clone, Copy, Debug)]
struct Retry {
    /// The moment, on running time.
    at: u64,
    /// The delay before the attempt after that, in microseconds.
    delay: u64,
}

impl Outage {
    fn error(&self) -> Error {
        let why = self.why.clone();
        if self.retry.is_some() { Error::Unavailable { why } } else { Error::Stopped { why } }
    }
}
