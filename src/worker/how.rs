//! How handlers end, as their worker sees it.

use std::pin::Pin;

use super::full_disk::disk_full;
use super::groups::Groups;
use crate::handle::claim::UNDECODABLE;
use crate::handle::outcome::HandlerError;
use crate::{Error, Failure, IntoOutcome, Outcome};

/// A handler that runs, with its type taken away.
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = How> + Send>>;

/// How a handler has ended. It is moved several times for each job, so it is small.
#[derive(Clone, Debug)]
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
