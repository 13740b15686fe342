//! Calls of a job that its store cannot carry out now: the job is not to blame.

use std::error::Error as StdError;

use super::JobCore;
use crate::{Error, Result};

impl JobCore {
    /// Notes whether the store could carry out a call of the handler. A later call that succeeds
    /// takes that back: the handler has gone on.
    pub(super) fn note<T>(&self, answer: Result<T>) -> Result<T> {
        match &answer {
            Ok(_) => *self.refusal.lock() = None,
            Err(error) if is_of_store(error) => *self.refusal.lock() = Some(error.clone()),
            Err(_) => {}
        }
        answer
    }

    /// As `note`, for a step. An error of what the step runs says nothing about the store.
    pub(super) fn note_step<V, E: From<Error>>(
        &self,
        answer: Result<V, StepError<E>>,
    ) -> Result<V, E> {
        match answer {
            Ok(value) => self.note(Ok(value)).map_err(E::from),
            Err(StepError::Store(error)) => self.note(Err(error)).map_err(E::from),
            Err(StepError::Own(error)) => Err(error),
        }
    }

    /// Why the store could not carry out the last call of the handler.
    pub(in crate::worker) fn refusal(&self) -> Option<Error> {
        self.refusal.lock().clone()
    }
}

/// The error of a step: of the store, or of what the step runs.
pub(super) enum StepError<E> {
    Store(Error),
    Own(E),
}

impl<E> From<Error> for StepError<E> {
    fn from(error: Error) -> StepError<E> {
        StepError::Store(error)
    }
}

/// Whether the state of the store or of the connection causes the error, whatever the call.
pub(in crate::worker) fn is_of_store(error: &Error) -> bool {
    matches!(
        error,
        Error::DiskFull { .. }
            | Error::Unavailable { .. }
            | Error::OutcomeUnknown { .. }
            | Error::Overloaded
            | Error::NotConnected { .. }
    )
}

/// The full disk that has caused an error of a handler, for instance of a put. Other errors of a
/// store may be about one that never works.
pub(in crate::worker) fn disk_full(error: &(dyn StdError + 'static)) -> Option<Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error @ Error::DiskFull { .. }) = error.downcast_ref() {
            return Some(error.clone());
        }
        cause = error.source();
    }
    None
}
