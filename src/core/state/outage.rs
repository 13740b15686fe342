//! The failure of the storage: its cause, and when the storage is retried.

use crate::Error;

/// A failed storage. Nothing is written until it has been reopened.
#[derive(Debug)]
pub(crate) struct Outage {
    pub(in crate::core) why: String,
    /// The next retry. `None` after a defect, which a retry cannot repair.
    pub(in crate::core) retry: Option<Retry>,
}

/// The next attempt to reopen the storage.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Retry {
    /// The moment, on running time.
    pub(in crate::core) at: u64,
    /// The delay before the attempt after that, in microseconds.
    pub(in crate::core) delay: u64,
}

/// The retry delay after the first failed attempt, in microseconds. It doubles with each attempt.
pub(in crate::core) const FIRST_RETRY_DELAY: u64 = 20_000;
/// The longest retry delay, in microseconds.
pub(in crate::core) const MAX_RETRY_DELAY: u64 = 10_000_000;

impl Outage {
    pub(in crate::core) fn error(&self) -> Error {
        let why = self.why.clone();
        if self.retry.is_some() { Error::Unavailable { why } } else { Error::Stopped { why } }
    }
}
