//! The checks that a handle makes before its call, for the calls of another process.
//!
//! What the core checks itself is not repeated here.

use crate::Result;
use crate::core::call::{Call, HolderVerb, StepVerb, Verb};
use crate::core::state::check_size;
use crate::owner::check_label;

/// Refuses a call that no handle of a store with this limit makes, with the error of the handle.
///
/// It does not check who may make the call: sessions, claims and waits of others are named by numbers
/// that a peer can guess.
pub(crate) fn check_call(call: &Call<'_>, max_body: usize) -> Result<()> {
    match call {
        Call::Tube(_, verb) => check_verb(verb, max_body),
        Call::Claim(_, verb) => check_held(verb, max_body),
        Call::BeginSession(_, label) => label.map_or(Ok(()), |label| check_label(label)),
        Call::Check
        | Call::ResumeClaim(..)
        | Call::OwnerOfClaim(_)
        | Call::AckClaims(_)
        | Call::DropClaim { .. }
        | Call::CreateTube(_)
        | Call::FindTube(_)
        | Call::DropTube(_)
        | Call::Tubes
        | Call::SetLimit(..)
        | Call::Limits
        | Call::Find { .. }
        | Call::Tagged { .. }
        | Call::TagCounts { .. }
        | Call::AllStatistics
        | Call::NextId
        | Call::ResumeSession(_)
        | Call::DescribeSession(..)
        | Call::Owners
        | Call::EndSession(_)
        | Call::DropSessionHandle(_) => Ok(()),
    }
}

fn check_verb(verb: &Verb<'_>, max_body: usize) -> Result<()> {
    match verb {
        Verb::PutAndWait { request, .. } => request.check(max_body),
        Verb::Held(_, _, verb) => check_held(verb, max_body),
        Verb::Check
        | Verb::Wait(_)
        | Verb::CancelWatch(_)
        | Verb::Claim { .. }
        | Verb::OwnerOf(_)
        | Verb::Edges(_)
        | Verb::Schedules(_)
        | Verb::History(_)
        | Verb::Steps(_)
        | Verb::StepsAfter { .. }
        | Verb::List(_)
        | Verb::Outcome(_)
        | Verb::Groups
        | Verb::PausedSubQueues
        | Verb::Days { .. }
        | Verb::FailedOn { .. }
        | Verb::IsTimed
        | Verb::Info
        | Verb::Statistics => Ok(()),
    }
}

fn check_held(verb: &HolderVerb<'_>, max_body: usize) -> Result<()> {
    match verb {
        HolderVerb::Checkpoint(body) => check_size("body", body, max_body),
        HolderVerb::Finish(request) => request.check(max_body),
        HolderVerb::Step(StepVerb::Write { value, .. }) => {
            check_size("value of the step", value, max_body)
        }
        HolderVerb::Step(StepVerb::Spawn { into, .. }) => into.request.check(max_body),
        HolderVerb::Release { .. }
        | HolderVerb::Touch { .. }
        | HolderVerb::Renew { .. }
        | HolderVerb::Limit { .. }
        | HolderVerb::Progress(_)
        | HolderVerb::Park { .. }
        | HolderVerb::Bury(_)
        | HolderVerb::Fail { .. }
        | HolderVerb::Snooze { .. }
        | HolderVerb::Log(_)
        | HolderVerb::Step(
            StepVerb::Read { .. }
            | StepVerb::Sleep { .. }
            | StepVerb::Join { .. }
            | StepVerb::List
            | StepVerb::ListAfter { .. },
        )
        | HolderVerb::EndSignal
        | HolderVerb::Describe => Ok(()),
    }
}

#[cfg(test)]
mod tests;
