//! What it means that a commit failed, and whether trying again can help.

use crate::Error;

/// A batch that was not committed, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitError {
    /// What the engine said.
    pub(crate) why: String,
    /// The batch may be in the file, wholly; otherwise it certainly is not.
    pub(crate) unknown: bool,
    /// The medium refused something: once it works again the engine can be reopened. Otherwise the
    /// file is damaged, or the engine has a defect.
    pub(crate) may_pass: bool,
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Error {
        if error.may_pass { Error::Io { what: error.why } } else { Error::corrupt(error.why) }
    }
}

/// What made the store stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// The storage refused something. That may pass.
    Storage,
    /// Damage, or a defect of ours: nothing that time heals.
    Defect,
}

impl From<&CommitError> for FailureCause {
    fn from(error: &CommitError) -> FailureCause {
        if error.may_pass { FailureCause::Storage } else { FailureCause::Defect }
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
