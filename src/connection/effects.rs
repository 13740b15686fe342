//! Which requests change something at the owner, and which may be made twice.
//!
//! A request that changes something has an unknown outcome if it may have been sent and was not
//! answered.

use super::request::{Mode, Request};
use crate::core::{
    Call, EdgeVerb, HistoryVerb, HolderVerb, PutRequest, ScheduleVerb, StepVerb, Verb,
};

impl Request<'_> {
    /// Whether it may be made twice, if its connection breaks before the answer.
    pub(super) fn may_repeat(&self) -> bool {
        match self {
            Request::Call(mode, call) => !changes(call) || may_repeat(*mode, call),
            Request::Backup(_) => false,
            _ => true,
        }
    }

    /// Whether it changes something that its caller can see. A take does not: its tasks are released
    /// if they do not arrive.
    pub(super) fn changes(&self) -> bool {
        match self {
            Request::Call(_, call) => changes(call),
            Request::Backup(_) => true,
            Request::Take { .. }
            | Request::WaitReady { .. }
            | Request::ClaimEnd(_)
            | Request::Flush
            | Request::CatchUp
            | Request::Verify
            | Request::Counters
            | Request::Clock
            | Request::Heartbeat
            | Request::Events { .. } => false,
        }
    }
}

/// Whether a call that changes something may be made twice.
fn may_repeat(mode: Mode, call: &Call<'_>) -> bool {
    match call {
        // A connection that is made anew begins its sessions itself.
        Call::BeginSession(..) | Call::ResumeSession(_) | Call::DropSessionHandle(_) => false,
        Call::ResumeClaim(..) => true,
        Call::Tube(
            _,
            Verb::Put(request) | Verb::PutOrWait { request, .. } | Verb::PutAndWait { request, .. },
        ) => request.has_token(),
        Call::Tube(_, Verb::PutMany(puts)) => puts.iter().all(PutRequest::has_token),
        _ => mode == Mode::Ask,
    }
}

/// Each call is named, so that a new one is not taken for one that changes nothing.
pub(crate) fn changes(call: &Call<'_>) -> bool {
    match call {
        Call::Tube(_, verb) => verb_changes(verb),
        Call::Claim(_, verb) => holder_verb_changes(verb),
        Call::ResumeClaim(..)
        | Call::AckClaims(_)
        | Call::DropClaim { .. }
        | Call::CreateTube(_)
        | Call::DropTube(_)
        | Call::SetLimit(..)
        | Call::BeginSession(..)
        | Call::ResumeSession(_)
        | Call::DescribeSession(..)
        | Call::EndSession(_)
        | Call::DropSessionHandle(_) => true,
        Call::Check
        | Call::OwnerOfClaim(_)
        | Call::FindTube(_)
        | Call::Tubes
        | Call::Limits
        | Call::ByKey(_)
        | Call::Find { .. }
        | Call::Tagged { .. }
        | Call::TagCounts { .. }
        | Call::AllStatistics
        | Call::NextId
        | Call::Owners => false,
    }
}

fn verb_changes(verb: &Verb<'_>) -> bool {
    match verb {
        Verb::Held(_, _, verb) => holder_verb_changes(verb),
        Verb::Edges(verb) => matches!(verb, EdgeVerb::Add { .. } | EdgeVerb::Remove { .. }),
        Verb::Schedules(verb) => !matches!(verb, ScheduleVerb::List { .. }),
        Verb::History(verb) => matches!(verb, HistoryVerb::Log { .. }),
        Verb::Put(_)
        | Verb::PutOrWait { .. }
        | Verb::CancelPut { .. }
        | Verb::PutMany(_)
        | Verb::Requeue(_)
        | Verb::PutAndWait { .. }
        | Verb::CancelWatch(_)
        | Verb::Revoke(_)
        | Verb::AckMany(..)
        | Verb::Bury(_)
        | Verb::KickTask(_)
        | Verb::Kick { .. }
        | Verb::Move { .. }
        | Verb::MoveSome { .. }
        | Verb::Delete(_)
        | Verb::SetPriority { .. }
        | Verb::Update { .. }
        | Verb::EditTags { .. }
        | Verb::Cancel(_)
        | Verb::DeleteIf { .. }
        | Verb::DeleteMany(_)
        | Verb::DeleteWhere { .. }
        | Verb::KickWhere { .. }
        | Verb::ReleaseAll { .. }
        | Verb::Resolve { .. }
        | Verb::Forget(_)
        | Verb::Truncate
        | Verb::Pause { .. }
        | Verb::PauseUntil { .. }
        | Verb::PauseSubQueue { .. }
        | Verb::Alter(_) => true,
        Verb::Check
        | Verb::Wait(_)
        | Verb::Claim { .. }
        | Verb::OwnerOf(_)
        | Verb::Steps(_)
        | Verb::StepsAfter { .. }
        | Verb::Peek(_)
        | Verb::List(_)
        | Verb::Outcome(_)
        | Verb::Groups
        | Verb::PausedSubQueues
        | Verb::Days { .. }
        | Verb::FailedOn { .. }
        | Verb::IsTimed
        | Verb::Info
        | Verb::Statistics => false,
    }
}

fn holder_verb_changes(verb: &HolderVerb<'_>) -> bool {
    match verb {
        HolderVerb::EndSignal | HolderVerb::Describe => false,
        HolderVerb::Step(verb) => {
            !matches!(verb, StepVerb::Read { .. } | StepVerb::List | StepVerb::ListAfter { .. })
        }
        _ => true,
    }
}
