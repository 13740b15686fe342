//! What is known of each call before it is carried out: the one table of all of them.
//!
//! Each call is named, so that a new one does not compile before it has its line.

use super::{
    Call, EdgeVerb, HistoryVerb, HolderVerb, ListVerb, ScheduleVerb, StepVerb, Verb, WaitVerb,
};

/// What a call does, and so whether it needs space in its write buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It changes nothing that its caller can see: a task that it takes is released if it does not
    /// arrive. It needs no space.
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
const SPACE: Properties = Properties { kind: Kind::Space, refusal_waits: false };

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
            Call::Check => SPACE,
            Call::Tube(_, verb) => verb.properties(),
            Call::Claim(_, verb) => verb.properties(),
            Call::OwnerOfClaim(_)
            | Call::FindTube(_)
            | Call::Tubes
            | Call::Limits
            | Call::Find { .. }
            | Call::Tagged { .. }
            | Call::TagCounts { .. }
            | Call::AllStatistics
            | Call::NextId
            | Call::Owners => READ,
            Call::ResumeClaim(..)
            | Call::DropClaim { .. }
            | Call::BeginSession(..)
            | Call::ResumeSession(_)
            | Call::DescribeSession(..)
            | Call::EndSession(_)
            | Call::DropSessionHandle(_) => MEMORY,
            Call::AckClaims(_) | Call::CreateTube(_) | Call::DropTube(_) | Call::SetLimit(..) => {
                EDIT
            }
        }
    }
}

impl Verb<'_> {
    fn properties(&self) -> Properties {
        match self {
            Verb::Check => SPACE,
            Verb::Held(_, _, verb) => verb.properties(),
            Verb::Edges(verb) => match verb {
                EdgeVerb::Parents(_) | EdgeVerb::Children(_) => READ,
            },
            Verb::Schedules(verb) => match verb {
                ScheduleVerb::List { .. } => READ,
            },
            Verb::History(verb) => match verb {
                HistoryVerb::Read(_) => READ.once_visible(),
            },
            Verb::List(
                ListVerb::State { .. }
                | ListVerb::Group { .. }
                | ListVerb::Where { .. }
                | ListVerb::Bodies { .. }
                | ListVerb::Ready(_),
            )
            | Verb::Wait(
                WaitVerb::Done { .. } | WaitVerb::Drained { .. } | WaitVerb::Ready { .. },
            )
            | Verb::OwnerOf(_)
            | Verb::Groups
            | Verb::PausedSubQueues
            | Verb::Days { .. }
            | Verb::FailedOn { .. }
            | Verb::IsTimed
            | Verb::Info
            | Verb::Statistics => READ,
            Verb::Claim { .. } | Verb::Steps(_) | Verb::StepsAfter { .. } | Verb::Outcome(_) => {
                READ.once_visible()
            }
            Verb::CancelWatch(_) => MEMORY,
            Verb::PutAndWait { .. } => EDIT.once_visible(),
        }
    }
}

impl HolderVerb<'_> {
    fn properties(&self) -> Properties {
        match self {
            HolderVerb::EndSignal
            | HolderVerb::Describe
            | HolderVerb::Step(
                StepVerb::Read { .. } | StepVerb::List | StepVerb::ListAfter { .. },
            ) => READ,
            HolderVerb::Renew { .. }
            | HolderVerb::Limit { .. }
            | HolderVerb::Progress(_)
            | HolderVerb::Release { delay: 0 }
            | HolderVerb::Snooze { delay: 0 } => MEMORY,
            HolderVerb::Release { .. }
            | HolderVerb::Touch { .. }
            | HolderVerb::Park { .. }
            | HolderVerb::Checkpoint(_)
            | HolderVerb::Bury(_)
            | HolderVerb::Fail { .. }
            | HolderVerb::Snooze { .. }
            | HolderVerb::Log(_)
            | HolderVerb::Finish(_)
            | HolderVerb::Step(
                StepVerb::Write { .. }
                | StepVerb::Spawn { .. }
                | StepVerb::Sleep { .. }
                | StepVerb::Join { .. },
            ) => EDIT,
        }
    }
}
