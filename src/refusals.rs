//! Calls of a job that its store cannot carry out now: the job is not to blame.

use crate::sync::Mutex;
use crate::{Error, Result};

/// Why the store could not carry out the last call of a handler on its claim.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Option<Error>>);

impl Refusals {
    /// Notes whether the store could carry out a call. A later call that succeeds takes that back: the
    /// handler has gone on.
    pub(crate) fn note<R>(&self, answer: &Result<R>) {
        match answer {
            Ok(_) => *self.0.lock() = None,
            Err(error) if is_of_store(error) => *self.0.lock() = Some(error.clone()),
            Err(_) => {}
        }
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
