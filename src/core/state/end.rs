//! The end of a task, checked and converted before the core is locked.

use std::sync::Arc;

use super::request::{PutRequest, check_size};
use crate::base::tube_no::TubeNo;
use crate::{EventKind, Failure, Result};

/// How its holder ends a task. Delays are in microseconds.
#[derive(Clone, Debug)]
pub(crate) enum TaskEnd {
    Ack {
        result: Option<Vec<u8>>,
    },
    /// The task goes on in another tube.
    Advance(Box<PutInto>),
    /// As `Advance`, with the body and the options that the task has.
    AdvanceUnchanged {
        tube: TubeNo,
        /// For errors.
        name: Arc<str>,
    },
    Release {
        delay: u64,
    },
    /// As `Release`. The attempt does not count.
    Snooze {
        delay: u64,
    },
    /// Without a delay, the backoff of the tube applies.
    Fail {
        delay: Option<u64>,
        failure: Failure,
    },
    Bury(Option<Failure>),
}

/// The end of a task, and the puts that are part of it.
#[derive(Clone, Debug)]
pub(crate) struct EndRequest {
    pub(crate) end: TaskEnd,
    pub(crate) puts: Vec<PutInto>,
}

/// The end of one of several claims.
#[derive(Clone, Debug)]
pub(crate) struct ClaimEnd {
    pub(crate) request: EndRequest,
    /// If the end is refused, the session keeps the claim. Otherwise its handle has gone.
    pub(crate) keeps_claim: bool,
}

/// A put, and its tube.
#[derive(Clone, Debug)]
pub(crate) struct PutInto {
    pub(crate) tube: TubeNo,
    /// For errors.
    pub(crate) name: Arc<str>,
    pub(crate) request: PutRequest,
}

impl TaskEnd {
    /// The event that reports it, unless the attempt was the last one.
    pub(crate) fn kind(&self) -> EventKind {
        match self {
            TaskEnd::Ack { .. } => EventKind::Ack,
            TaskEnd::Advance(_) | TaskEnd::AdvanceUnchanged { .. } => EventKind::Advance,
            TaskEnd::Release { .. } => EventKind::Release,
            TaskEnd::Snooze { .. } => EventKind::Snooze,
            TaskEnd::Fail { .. } => EventKind::Fail,
            TaskEnd::Bury(_) => EventKind::Bury,
        }
    }

    /// Why the attempt has failed, or the task is buried.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            TaskEnd::Fail { failure, .. } => Some(failure),
            TaskEnd::Bury(failure) => failure.as_ref(),
            _ => None,
        }
    }

    /// Whether the attempt does not count.
    pub(crate) fn forgives(&self) -> bool {
        matches!(self, TaskEnd::Snooze { .. })
    }

    /// The checks of a handle and of a peer.
    fn check(&self, max_body: usize) -> Result<()> {
        match self {
            TaskEnd::Ack { result: Some(result) } => check_size("result", result, max_body),
            TaskEnd::Advance(into) => into.request.check(max_body),
            TaskEnd::Fail { failure, .. } | TaskEnd::Bury(Some(failure)) => failure.check(),
            TaskEnd::Ack { result: None }
            | TaskEnd::AdvanceUnchanged { .. }
            | TaskEnd::Release { .. }
            | TaskEnd::Snooze { .. }
            | TaskEnd::Bury(None) => Ok(()),
        }
    }
}

impl EndRequest {
    /// Whether the task is done.
    pub(in crate::core) fn is_ack(&self) -> bool {
        matches!(self.end, TaskEnd::Ack { .. })
    }

    /// The end of a task, and nothing else.
    pub(crate) fn alone(end: TaskEnd) -> EndRequest {
        EndRequest { end, puts: Vec::new() }
    }

    /// The checks that need no lock.
    pub(crate) fn check(&self, max_body: usize) -> Result<()> {
        self.check_each(max_body)?;
        EndRequest::check_number("the end of a claim", [self])
    }

    /// As `check`, for one of several ends.
    pub(in crate::core) fn check_each(&self, max_body: usize) -> Result<()> {
        self.end.check(max_body)?;
        self.puts.iter().try_for_each(|into| into.request.check(max_body))
    }

    /// Refuses more tasks than one call puts.
    pub(in crate::core) fn check_number<'a>(
        verb: &'static str,
        ends: impl IntoIterator<Item = &'a EndRequest>,
    ) -> Result<()> {
        let targets = ends.into_iter().flat_map(EndRequest::targets);
        PutRequest::check_many(verb, targets.map(|into| &into.request))
    }

    /// The new tasks.
    pub(in crate::core) fn puts(&self) -> &[PutInto] {
        &self.puts
    }

    /// Where the task goes on. Of an `AdvanceUnchanged` the put is made when it is carried out.
    pub(in crate::core) fn next(&self) -> Option<&PutInto> {
        match &self.end {
            TaskEnd::Advance(into) => Some(into),
            _ => None,
        }
    }

    /// The new tasks, and the one that goes on.
    pub(in crate::core) fn targets(&self) -> impl Iterator<Item = &PutInto> + Clone {
        self.puts.iter().chain(self.next())
    }

    /// The result of a task that is acked.
    pub(in crate::core) fn result(&self) -> Option<&[u8]> {
        match &self.end {
            TaskEnd::Ack { result } => result.as_deref(),
            _ => None,
        }
    }

    /// Whether the task leaves its place in the tube.
    pub(in crate::core) fn leaves(&self) -> bool {
        self.is_ack() || self.next().is_some()
    }
}
