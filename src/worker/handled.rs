//! How handlers end.

use super::groups::Groups;
use super::job::disk_full;
use crate::handle::outcome::HandlerError;
use crate::{Error, Failure, IntoOutcome, Outcome};

/// How a handler has ended. It is moved several times for each job, so it is small.
#[derive(Debug)]
pub enum Handled {
    Done,
    Outcome(Box<Outcome>),
    Failed(Failure),
    /// As `Failed`, because the disk is full.
    DiskFull(Box<Error>),
    Panicked(String),
    /// The handler was not called.
    Undecodable(Error),
    /// The future of the handler was dropped before it had ended.
    Dropped,
}

impl Handled {
    /// What a handler has returned. The worker names the group of an error: this runs user code.
    pub(super) fn returned(outcome: impl IntoOutcome, groups: &Groups) -> Handled {
        match outcome.into_outcome() {
            Ok(outcome) if outcome.is_plain_ack() => Handled::Done,
            Ok(outcome) => Handled::Outcome(Box::new(outcome)),
            Err(error) => match error.into_failure() {
                Ok(failure) => Handled::Failed(failure),
                Err(HandlerError { type_name, error }) => match disk_full(&*error) {
                    Some(full) => Handled::DiskFull(Box::new(full)),
                    None => Handled::Failed(groups.failure_of(type_name, &*error)),
                },
            },
        }
    }
}
