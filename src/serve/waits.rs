//! What a call of a peer waits for. It follows from the call alone, and not from what the peer says of it.

use crate::connection::Mode;
use crate::core::{Call, EdgeVerb, HistoryVerb, HolderVerb, PutRequest, ScheduleVerb, Verb};

/// Whether a call waits while its write buffer is full, as that of a handle of the owner does. A call that is not
/// named here does.
pub(super) fn waits_for_space(call: &Call<'_>) -> bool {
    match call {
        Call::Tube(_, verb) => verb_waits_for_space(verb),
        Call::Claim(_, verb) => holder_verb_waits_for_space(verb),
        // Each ends at most a claim. A process that goes must not wait.
        Call::DropClaim { .. }
        | Call::BeginSession(..)
        | Call::ResumeSession(_)
        | Call::EndSession(_)
        | Call::DropSessionHandle(_)
        | Call::DescribeSession(..)
        | Call::OwnerOfClaim(_)
        | Call::FindTube(_)
        | Call::Tubes
        | Call::Limits
        | Call::Tagged { .. }
        | Call::TagCounts { .. }
        | Call::AllStatistics
        | Call::NextId
        | Call::Owners => false,
        _ => true,
    }
}

fn verb_waits_for_space(verb: &Verb<'_>) -> bool {
    match verb {
        Verb::Held(_, _, verb) => holder_verb_waits_for_space(verb),
        Verb::Edges(verb) => !matches!(verb, EdgeVerb::Parents(_) | EdgeVerb::Children(_)),
        Verb::Schedules(verb) => !matches!(verb, ScheduleVerb::List { .. }),
        Verb::Wait(_)
        | Verb::OwnerOf(_)
        | Verb::List(_)
        | Verb::ReleaseAll { .. }
        | Verb::Groups
        | Verb::PausedSubQueues
        | Verb::Days { .. }
        | Verb::FailedOn { .. }
        | Verb::IsTimed
        | Verb::Info
        | Verb::Statistics => false,
        _ => true,
    }
}

fn holder_verb_waits_for_space(verb: &HolderVerb<'_>) -> bool {
    !matches!(
        verb,
        HolderVerb::Renew { .. }
            | HolderVerb::Progress(_)
            | HolderVerb::Describe
            | HolderVerb::Snooze { delay: 0 }
    )
}

/// Whether a refusal waits for the change that may have caused it, as that of a handle of the owner does. That of a
/// deferred call does not.
pub(super) fn refusal_waits(mode: Mode, call: &Call<'_>) -> bool {
    if matches!(mode, Mode::Deferred | Mode::DeferredOrRefused) {
        return false;
    }
    match call {
        Call::ByKey(_) => true,
        Call::Tube(_, verb) => match verb {
            Verb::Put(request) => request.has_key(),
            Verb::PutMany(requests) => requests.iter().any(PutRequest::has_key),
            Verb::Edges(verb) => matches!(verb, EdgeVerb::Add { .. } | EdgeVerb::Remove { .. }),
            Verb::Schedules(verb) => !matches!(verb, ScheduleVerb::List { .. }),
            Verb::History(HistoryVerb::Read(_) | HistoryVerb::Log { .. })
            | Verb::Requeue(_)
            | Verb::SetPriority { .. }
            | Verb::Update { .. }
            | Verb::EditTags { .. }
            | Verb::Move { .. }
            | Verb::Bury(_)
            | Verb::KickTask(_)
            | Verb::Cancel(_)
            | Verb::Delete(_)
            | Verb::DeleteIf { .. }
            | Verb::Resolve { .. }
            | Verb::Forget(_)
            | Verb::Outcome(_)
            | Verb::Steps(_)
            | Verb::Peek(_) => true,
            _ => false,
        },
        _ => false,
    }
}
