//! Why a commit failed, and whether trying again can help.

use crate::Error;

/// A commit that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitError {
    /// The error of the engine or of the medium.
    pub(crate) why: String,
    /// If true, the whole commit may be in the file; if false, nothing of it is.
    pub(crate) outcome_unknown: bool,
    /// A call of the medium failed: the engine can be reopened once the medium works again. If
    /// false, the file is damaged or the engine has a defect.
    pub(crate) is_transient: bool,
}

impl CommitError {
    /// The store was closed before the commit.
    pub(crate) fn closed() -> CommitError {
        let why = "the store was closed".into();
        CommitError { why, outcome_unknown: false, is_transient: false }
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Error {
        if error.is_transient { Error::Io { what: error.why } } else { Error::corrupt(error.why) }
    }
}

/// Why the store cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// The storage failed. Retrying may succeed.
    Storage,
    /// The file is damaged, or tubewell has a defect. Retrying is of no use.
    Defect,
}

impl From<&CommitError> for FailureCause {
    fn from(error: &CommitError) -> FailureCause {
        if error.is_transient { FailureCause::Storage } else { FailureCause::Defect }
    }
}

impl From<&Error> for FailureCause {
    fn from(error: &Error) -> FailureCause {
        match error {
            Error::Io { .. } | Error::Unavailable { .. } => FailureCause::Storage,
            _ => FailureCause::Defect,
        }
    }
}
