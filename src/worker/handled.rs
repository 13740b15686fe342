//! How handlers end.

use super::groups::Groups;
use super::job::{Job, JobCore, disk_full};
use crate::handle::claim::UNDECODABLE;
use crate::handle::outcome::HandlerError;
use crate::{Error, Failure, IntoOutcome, Mode, Outcome};

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

/// How a handler has ended. It is moved several times for each job, so it is small.
#[derive(Debug)]
pub(super) enum How {
    Done,
    Outcome(Box<Outcome>),
    Failed(Failure),
    /// As `Failed`, because the disk is full.
    DiskFull(Box<Error>),
    Panicked(Failure),
    /// No handler was called.
    Undecodable(Failure),
    /// The future of the handler was dropped before it had ended.
    Dropped,
}

impl How {
    pub(super) fn panicked(why: String) -> How {
        How::Panicked(Failure::new("panic", why))
    }

    /// The body is not a value of the type of the handler.
    pub(super) fn undecodable(error: &Error) -> How {
        How::Undecodable(Failure::new(UNDECODABLE, error.to_string()))
    }

    /// The worker has no handler for the kind of the body.
    pub(super) fn of_unknown_kind(kind: Option<&str>) -> How {
        How::Undecodable(match kind {
            Some(kind) => Failure::new(
                "unknown kind",
                format!("the worker has no handler for the kind {kind:?}"),
            ),
            None => Failure::new(
                UNDECODABLE,
                "the body has no kind: it is not an object with one member",
            ),
        })
    }

    /// What a handler has returned. The worker names the group of an error: this runs user code.
    pub(super) fn returned(outcome: impl IntoOutcome, groups: &Groups) -> How {
        match outcome.into_outcome() {
            Ok(outcome) if outcome.is_plain_ack() => How::Done,
            Ok(outcome) => How::Outcome(Box::new(outcome)),
            Err(error) => match error.into_failure() {
                Ok(failure) => How::Failed(failure),
                Err(HandlerError { type_name, error }) => match disk_full(&*error) {
                    Some(full) => How::DiskFull(Box::new(full)),
                    None => How::Failed(groups.failure_of(type_name, &*error)),
                },
            },
        }
    }
}
