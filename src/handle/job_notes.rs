//! Notes for the worker of a job, about the calls that the handler makes on the claim.

use crate::base::sync::Mutex;
use crate::core::verb::Verb;
use crate::{Error, Result};
#[cfg(feature = "redb")]
use crate::{EventKind, Failure, TaskState};

/// The notes of the calls of one job.
#[derive(Default)]
pub(crate) struct JobNotes {
    /// Why the store could not carry out the last call: the job is not to blame.
    refusal: Mutex<Option<Error>>,
    /// How a transaction of the application has ended the claim.
    #[cfg(feature = "redb")]
    ended: Mutex<Option<EndedInTransaction>>,
}

/// The end of a claim that is in the file, together with the rows of the application.
#[cfg(feature = "redb")]
#[derive(Clone, Debug)]
pub(crate) struct EndedInTransaction {
    /// The kind of the outcome.
    pub(crate) kind: EventKind,
    /// The state of the task then.
    pub(crate) state: TaskState,
    pub(crate) failure: Option<Failure>,
}

impl JobNotes {
    /// Notes whether the store could carry out a call. A later change that succeeds takes that back: the
    /// handler has gone on.
    pub(crate) fn note<V: Verb>(&self, answer: &Result<V::Answer>) {
        match answer {
            Ok(_) if V::KIND.changes() => self.clear(),
            Err(error) if is_of_store(error) => *self.refusal.lock() = Some(error.clone()),
            _ => {}
        }
    }

    pub(crate) fn clear(&self) {
        *self.refusal.lock() = None;
    }

    pub(crate) fn refusal(&self) -> Option<Error> {
        self.refusal.lock().clone()
    }

    #[cfg(feature = "redb")]
    pub(crate) fn note_ended(&self, ended: EndedInTransaction) {
        *self.ended.lock() = Some(ended);
    }

    #[cfg(feature = "redb")]
    pub(crate) fn ended_in_transaction(&self) -> Option<EndedInTransaction> {
        self.ended.lock().clone()
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
