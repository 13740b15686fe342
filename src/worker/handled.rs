//! How handlers end, as the functions around them see it.

use super::how::How;
use super::job::{Job, JobCore};
use crate::{Failure, IntoOutcome, Mode};

/// How a handler has ended, before the worker ends its job: for the functions
/// [around](super::Worker::around) the handlers.
#[derive(Debug)]
#[must_use = "the worker ends the job with what the function returns"]
pub struct Handled {
    pub(super) how: How,
    /// The attempt does not count, or its end is decided, whatever the handler has returned.
    is_settled: bool,
}

impl Handled {
    /// The end of a job as if its handler had returned this value: for a function that does not run the
    /// handler, or that replaces what the handler has returned.
    pub fn of<T, M: Mode>(job: &Job<T, M>, value: impl IntoOutcome) -> Handled {
        Handled::by(How::returned(value, job.core().groups()), job.core())
    }

    pub(super) fn by(how: How, job: &JobCore) -> Handled {
        Handled { how, is_settled: job.is_settled() }
    }

    /// Whether the handler has done the task, with or without a result.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.how {
            How::Done => true,
            How::Outcome(outcome) => outcome.is_done(),
            _ => false,
        }
    }

    /// The failure of the attempt, or the reason for the burial of the task. `None` for other ends, and for an
    /// attempt that does not count because the job sleeps, waits or stops, or because the store could not serve it.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match &self.how {
            How::Outcome(outcome) => outcome.failure(),
            How::Failed(failure) if !self.is_settled => Some(failure),
            How::Panicked(failure) | How::Undecodable(failure) => Some(failure),
            How::Failed(_) | How::Done | How::DiskFull(_) | How::Dropped => None,
        }
    }
}
