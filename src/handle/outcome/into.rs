//! The values that end a task, and that a handler may return.

use std::any::type_name;
use std::error::Error as StdError;

use super::Outcome;
use crate::Failure;

/// A value that ends a task: `()`, which is [`Outcome::done`], an [`Outcome`], or a `Result` of either.
///
/// [`Claim::end`](crate::Claim::end) takes it, and a handler of a [worker](crate::worker) returns it. An
/// `Err` fails the attempt, as [`Claim::fail`](crate::Claim::fail) does: the limit of attempts and the
/// backoff of the tube, or of the worker, decide what becomes of the task. The error is anything that becomes a
/// `Box<dyn Error + Send + Sync>`: every error type, `anyhow::Error`, `String`. The failure group
/// is that of [`Failure::of`], which tells types and variants apart; a worker can give it another one
/// ([`Worker::failure_group`](crate::Worker::failure_group)). The message is its text with those
/// of its sources, cut at 10,000 bytes. A [`Failure`] stays as it is.
///
/// An `Err` of a handler does not fail the attempt if the store could not carry out the last call of the
/// [`Job`](crate::Job), for instance a step, because its disk is full, its storage has failed or its
/// owner cannot be reached; nor if the error or one of its sources is
/// [`DiskFull`](crate::Error::DiskFull). The task is snoozed for 5 seconds, so that the attempt does
/// not count. In a tube without delays it is ready again immediately, and the worker pauses.
///
/// The trait is sealed.
pub trait IntoOutcome: sealed::IntoOutcome {}

impl IntoOutcome for () {}
impl IntoOutcome for Outcome {}
impl<R: IntoOutcome, E: Into<Box<dyn StdError + Send + Sync>>> IntoOutcome for Result<R, E> {}

/// An error that fails an attempt.
#[derive(Debug)]
pub struct HandlerError {
    pub(crate) type_name: &'static str,
    pub(crate) error: Box<dyn StdError + Send + Sync>,
}

impl HandlerError {
    /// The failure, if it is one already.
    pub(crate) fn into_failure(self) -> Result<Failure, HandlerError> {
        let HandlerError { type_name, error } = self;
        match error.downcast::<Failure>() {
            Ok(failure) => Ok(*failure),
            Err(error) => Err(HandlerError { type_name, error }),
        }
    }
}

mod sealed {
    pub trait IntoOutcome {
        fn into_outcome(self) -> Result<super::Outcome, super::HandlerError>;
    }
}

impl sealed::IntoOutcome for () {
    fn into_outcome(self) -> Result<Outcome, HandlerError> {
        Ok(Outcome::done())
    }
}

impl sealed::IntoOutcome for Outcome {
    fn into_outcome(self) -> Result<Outcome, HandlerError> {
        Ok(self)
    }
}

impl<R: IntoOutcome, E: Into<Box<dyn StdError + Send + Sync>>> sealed::IntoOutcome
    for Result<R, E>
{
    fn into_outcome(self) -> Result<Outcome, HandlerError> {
        match self {
            Ok(outcome) => outcome.into_outcome(),
            Err(error) => Err(HandlerError { type_name: type_name::<E>(), error: error.into() }),
        }
    }
}
