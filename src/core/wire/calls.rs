//! The encoding of calls. A call names tubes by their numbers, and holds what it needs.

use tubewell_drivers::PUT_MANY_TASKS;

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::{borrowing_enum, wire_struct};
use super::parts::{Borrowing, Parts};
use crate::core::call::{
    Call, EdgeVerb, HistoryVerb, HolderVerb, ScheduleVerb, StepVerb, TubeRef, Verb,
};
use crate::core::claims::ProgressReport;
use crate::core::state::{About, ClaimKey, Holder, TagEdit};

pub(crate) fn encode_call(call: &Call<'_>, out: &mut Vec<u8>) {
    call.put_part(out);
}

/// Decodes a call, which borrows from the input and from `parts`. Parts are for one call only.
pub(crate) fn decode_call<'a>(
    input: &mut Input<'a>,
    parts: &'a Parts,
) -> Result<Call<'a>, Malformed> {
    Call::get_part(input, parts)
}

borrowing_enum! { Call {
    1 => Tube(tube, verb),
    // 2 is a verb of a claim. Those that are not here are types.
    3 => ResumeClaim(session, token),
    4 => OwnerOfClaim(key),
    5 => AckClaims(keys),
    6 => DropClaim { id, epoch, forgive },
}}

borrowing_enum! { Verb {
    // 3 was the end of a wait, which is no call now. Those that are not here are types.
    4 => PutMany(requests),
    5 => Requeue(request),
    // 9 was a take of several tasks, which is a request now. Numbers are not used again.
    11 => Revoke(id),
    13 => Held(holder, id, verb),
    20 => Edges(verb),
    30 => History(verb),
    34 => ReleaseAll { limit, forgive },
    35 => Resolve { id, result },
    36 => Schedules(verb),
    37 => Forget(id),
    40 => Truncate,
    41 => Pause { time },
    42 => PauseUntil { moment },
    43 => PauseSubQueue { name, time },
    47 => Alter(options),
}}

borrowing_enum! { EdgeVerb {
    0 => Add { id, of, parents },
    1 => Remove { id, parents },
}}

borrowing_enum! { HistoryVerb {
    1 => Log { id, text },
}}

borrowing_enum! { ScheduleVerb {
    0 => Set { key, request },
    1 => Change { key, request },
    2 => Remove(key),
}}

impl<'a> Borrowing<'a> for TubeRef<'a> {
    fn put_part(&self, out: &mut Vec<u8>) {
        let TubeRef { number, name } = self;
        number.put(out);
        name.put_part(out);
    }

    fn get_part(input: &mut Input<'a>, parts: &'a Parts) -> Result<TubeRef<'a>, Malformed> {
        Ok(TubeRef { number: u32::get(input)?, name: Borrowing::get_part(input, parts)? })
    }
}

wire_struct! { ClaimKey { tube, by, id } at most PUT_MANY_TASKS }
wire_struct! { Holder { session, epoch } }
wire_struct! { About { kind, metadata } }
