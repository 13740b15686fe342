//! Calls of a job that its store cannot carry out now: the job is not to blame.

use crate::base::sync::Mutex;
use crate::core::verb::Verb;
use crate::{Error, Result};

/// Why the store could not carry out the last call of a handler on its claim.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Option<Error>>);

impl Refusals {
    /// Notes whether the store could carry out a call. A later change that succeeds takes that back: the
    /// handler has gone on.
    pub(crate) fn note<V: Verb>(&self, answer: &Result<V::Answer>) {
        match answer {
            Ok(_) if V::KIND.changes() => self.clear(),
            Err(error) if is_of_store(error) => *self.0.lock() = Some(error.clone()),
            _ => {}
        }
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = None;
    }

    pub(crate) fn last(&self) -> Option<Error> {
        self.0.lock().clone()
    }
}

/// Whether the state of the store or of the connection causes the error, whatever the call.
pub(crate) fn is_of_store(error: &Error) -> bool {
    matches!(
        error,
        Error::DiskFull { .. }
            | Error::Unavailable { .. }
            | Error::OutcomeUnknown { .. }
            | Error::Overloaded
            | Error::NotConnected { .. }
    )
}
