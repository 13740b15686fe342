//! What is known of each call before it is carried out: the one table of all of them.
//!
//! Each call is named, so that a new one does not compile before it has its line.

use super::{Call, EdgeVerb, HistoryVerb, HolderVerb, ScheduleVerb, StepVerb, Verb};
use crate::core::state::PutRequest;

/// What a call does, and so whether it needs space in its write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads what is visible, and waits for nothing.
    Look,
    /// It changes nothing that its caller can see: a task that it takes is released if it does not
    /// arrive. It needs no space, and may wait for the flush of what it reads.
    Read,
    /// It changes memory, and removes or adds a few rows at most. It needs no space: a process that
    /// goes must not wait.
    Memory,
    /// It adds rows, and waits while its write buffer is full.
    Edit,
    /// It changes nothing, and waits for space as an edit does.
    Space,
}

impl Kind {
    /// Whether it changes something that its caller can see.
    pub(crate) const fn changes(self) -> bool {
        matches!(self, Kind::Memory | Kind::Edit)
    }

    /// Whether it waits while its write buffer is full.
    pub(crate) const fn needs_space(self) -> bool {
        matches!(self, Kind::Edit | Kind::Space)
    }

    /// Whether its answer may depend on a commit, which a caller inside a transaction must not wait for.
    pub(crate) const fn may_wait(self) -> bool {
        !matches!(self, Kind::Look | Kind::Memory)
    }

    /// The write buffer that must have space before it is carried out.
    pub(crate) fn space_in(self, buffer: usize) -> Option<usize> {
        self.needs_space().then_some(buffer)
    }
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) kind: Kind,
    /// Whether a refusal waits for the change that may have caused it, which is not yet visible.
    pub(crate) refusal_waits: bool,
}

const READ: Properties = Properties { kind: Kind::Read, refusal_waits: false };
const MEMORY: Properties = Properties { kind: Kind::Memory, refusal_waits: false };
const EDIT: Properties = Properties { kind: Kind::Edit, refusal_waits: false };

impl Properties {
    const fn once_visible(self) -> Properties {
        Properties { kind: self.kind, refusal_waits: true }
    }
}

impl Call<'_> {
    /// Whether it changes something that its caller can see.
    pub(crate) fn changes(&self) -> bool {
        self.properties().kind.changes()
    }

    /// Whether it waits while its write buffer is full.
    pub(crate) fn needs_space(&self) -> bool {
        self.properties().kind.needs_space()
    }

    /// The write buffer that must have space before it is carried out.
    pub(crate) fn space_in(&self, buffer: usize) -> Option<usize> {
        self.properties().kind.space_in(buffer)
    }

    /// Whether a refusal waits for the change that may have caused it.
    pub(crate) fn refusal_waits(&self) -> bool {
        self.properties().refusal_waits
    }

    pub(crate) fn properties(&self) -> Properties {
        match self {
            Call::Tube(_, verb) => verb.properties(),
            Call::Claim(_, verb) => verb.properties(),
            Call::OwnerOfClaim(_) => READ,
            Call::ResumeClaim(..) | Call::DropClaim { .. } => MEMORY,
            Call::AckClaims(_) => EDIT,
        }
    }
}

impl Verb<'_> {
    fn properties(&self) -> Properties {
        match self {
            Verb::Held(_, _, verb) => verb.properties(),
            Verb::Edges(verb) => match verb {
                EdgeVerb::Add { .. } | EdgeVerb::Remove { .. } => EDIT.once_visible(),
            },
            Verb::Schedules(verb) => match verb {
                ScheduleVerb::Set { .. }
                | ScheduleVerb::Change { .. }
                | ScheduleVerb::Remove(_) => EDIT.once_visible(),
            },
            Verb::History(verb) => match verb {
                HistoryVerb::Log { .. } => EDIT.once_visible(),
            },
            Verb::Revoke(_) | Verb::ReleaseAll { .. } => MEMORY,
            Verb::PutMany(requests) => {
                EDIT.once_visible_if(requests.iter().any(PutRequest::has_key))
            }
            Verb::Requeue(_)
            | Verb::Update { .. }
            | Verb::EditTags { .. }
            | Verb::Move { .. }
            | Verb::Bury(_)
            | Verb::KickTask(_)
            | Verb::Cancel(_)
            | Verb::Delete(_)
            | Verb::DeleteIf { .. }
            | Verb::Resolve { .. }
            | Verb::Forget(_) => EDIT.once_visible(),
            Verb::AckMany(..)
            | Verb::Kick { .. }
            | Verb::MoveSome { .. }
            | Verb::DeleteMany(_)
            | Verb::DeleteWhere { .. }
            | Verb::KickWhere { .. }
            | Verb::Truncate
            | Verb::Pause { .. }
            | Verb::PauseUntil { .. }
            | Verb::PauseSubQueue { .. }
            | Verb::Alter(_) => EDIT,
        }
    }
}
