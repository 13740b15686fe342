//! A storage that fails: why nothing is written, and when it is tried again.

use crate::Error;

/// Why nothing is written.
#[derive(Debug)]
pub(crate) struct Outage {
    pub(in crate::core) why: String,
    /// When to try again; never, if that is of no use.
    pub(in crate::core) retry: Option<Retry>,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Retry {
    /// On running time.
    pub(in crate::core) at: u64,
    /// How long to wait if that fails too.
    pub(in crate::core) pause: u64,
}

pub(in crate::core) const FIRST_PAUSE: u64 = 20_000;
pub(in crate::core) const LONGEST_PAUSE: u64 = 10_000_000;

impl Outage {
    pub(in crate::core) fn error(&self) -> Error {
        let why = self.why.clone();
        if self.retry.is_some() { Error::Unavailable { why } } else { Error::Stopped { why } }
    }
}
