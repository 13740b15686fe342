//! The checks that a handle makes before its call, for the calls of another process.
//!
//! What the core checks itself is not repeated here.

use crate::Result;
use crate::core::call::{Call, ScheduleVerb, Verb};
use crate::core::state::{PutRequest, TagEdit, check_distinct_tags, check_key, check_size};

/// Refuses a call that no handle of a store with this limit makes, with the error of the handle.
///
/// It does not check who may make the call: sessions, claims and waits of others are named by numbers
/// that a peer can guess.
pub(crate) fn check_call(call: &Call<'_>, max_body: usize) -> Result<()> {
    match call {
        Call::Tube(_, verb) => check_verb(verb, max_body),
        Call::Claim(_, verb) => check_held(verb, max_body),
        Call::ResumeClaim(..)
        | Call::OwnerOfClaim(_)
        | Call::AckClaims(_)
        | Call::DropClaim { .. } => Ok(()),
    }
}

fn check_verb(verb: &Verb<'_>, max_body: usize) -> Result<()> {
    match verb {
        Verb::PutMany(requests) => PutRequest::check_all(requests, max_body),
        Verb::Requeue(request) => request.check_requeue(max_body),
        Verb::Update { request, .. } => request.check(max_body),
        Verb::EditTags { edit: TagEdit::Add(tags) | TagEdit::Remove(tags), .. } => {
            check_distinct_tags(tags)
        }
        Verb::DeleteWhere { select, .. } => select.check_delete(),
        Verb::KickWhere { select, .. } => select.check_for_kick(),
        Verb::Resolve { result, .. } => check_result(*result, max_body),
        Verb::Schedules(verb) => check_schedule(verb, max_body),
        Verb::Revoke(_)
        | Verb::AckMany(..)
        | Verb::Bury(_)
        | Verb::KickTask(_)
        | Verb::Kick { .. }
        | Verb::Move { .. }
        | Verb::MoveSome { .. }
        | Verb::Edges(_)
        | Verb::Schedules(_)
        | Verb::History(_)
        | Verb::ReleaseAll { .. }
        | Verb::Forget(_)
        | Verb::Truncate
        | Verb::Pause { .. }
        | Verb::PauseUntil { .. }
        | Verb::PauseSubQueue { .. }
        | Verb::Alter(_) => Ok(()),
    }
}

fn check_schedule(verb: &ScheduleVerb<'_>, max_body: usize) -> Result<()> {
    match verb {
        ScheduleVerb::Set { key, request } => request.check_new(key, max_body),
        ScheduleVerb::Change { key, request } => {
            check_key(key)?;
            request.check(max_body)
        }
        ScheduleVerb::Remove(key) => check_key(key),
    }
}

fn check_result(result: Option<&[u8]>, max_body: usize) -> Result<()> {
    result.map_or(Ok(()), |result| check_size("result", result, max_body))
}

#[cfg(test)]
mod tests;
