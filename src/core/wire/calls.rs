//! The encoding of calls. A call names tubes by their numbers, and holds what it needs.

use tubewell_drivers::PUT_MANY_TASKS;

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::{borrowing_enum, wire_enum, wire_struct};
use super::parts::{Borrowing, Parts};
use crate::core::call::{
    Call, EdgeVerb, HistoryVerb, HolderVerb, ListVerb, ScheduleVerb, StepVerb, TubeRef, Verb,
    WaitVerb,
};
use crate::core::claims::ProgressReport;
use crate::core::state::{About, ClaimKey, Holder, WatchKey};

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
    0 => Check,
    1 => Tube(tube, verb),
    2 => Claim(key, verb),
    3 => ResumeClaim(session, token),
    4 => OwnerOfClaim(key),
    5 => AckClaims(keys),
    6 => DropClaim { id, epoch, forgive },
    7 => CreateTube(request),
    8 => FindTube(name),
    9 => DropTube(name),
    10 => Tubes,
    11 => SetLimit(name, most),
    12 => Limits,
    14 => Find { id, after },
    15 => Tagged { tag, after, limit },
    16 => TagCounts { after },
    17 => AllStatistics,
    18 => NextId,
    19 => BeginSession(session, label),
    20 => ResumeSession(session),
    21 => DescribeSession(session, about),
    22 => Owners,
    23 => EndSession(session),
    24 => DropSessionHandle(session),
}}

borrowing_enum! { Verb {
    0 => Check,
    // 3 was the end of a wait, which is no call now. Those that are not here are types.
    6 => PutAndWait { session, request, timeout },
    7 => Wait(verb),
    8 => CancelWatch(key),
    // 9 was a take of several tasks, which is a request now. Numbers are not used again.
    10 => Claim { session, id },
    12 => OwnerOf(id),
    13 => Held(holder, id, verb),
    20 => Edges(verb),
    30 => History(verb),
    31 => Steps(id),
    33 => List(verb),
    36 => Schedules(verb),
    38 => Outcome(id),
    39 => Groups,
    44 => PausedSubQueues,
    45 => Days { from, to },
    46 => FailedOn { from, to, next },
    48 => Info,
    49 => Statistics,
    50 => IsTimed,
    51 => StepsAfter { id, after },
}}

borrowing_enum! { HolderVerb {
    1 => Release { delay },
    2 => Touch { more },
    3 => Renew { hold },
    4 => Progress(report),
    5 => Park { hold },
    6 => Checkpoint(body),
    7 => Bury(failure),
    8 => Fail { delay, failure },
    9 => Snooze { delay },
    10 => Log(text),
    11 => Finish(request),
    12 => Step(verb),
    13 => EndSignal,
    14 => Describe,
    15 => Limit { most },
}}

borrowing_enum! { ProgressReport {
    0 => Count { done, total },
    1 => Text(text),
}}

borrowing_enum! { StepVerb {
    0 => Read { name },
    1 => Write { name, value },
    2 => Spawn { name, into },
    3 => Sleep { name, time },
    4 => Join { name, of, ids },
    5 => List,
    6 => ListAfter { after },
}}

wire_enum! { EdgeVerb {
    2 => Parents(id),
    3 => Children(id),
}}

wire_enum! { HistoryVerb {
    0 => Read(id),
}}

borrowing_enum! { ListVerb {
    0 => State { state, after, limit },
    1 => Group { group, after, limit },
    2 => Where { wanted, after, limit },
    3 => Bodies { wanted, after, limit },
    4 => Ready(count),
}}

borrowing_enum! { ScheduleVerb {
    3 => List { after, limit },
}}

// The moment of `Ready` is one of the running time of the store: the side that has the clock sets it.
wire_enum! { WaitVerb {
    0 => Done { session, id, timeout },
    1 => Drained { session, timeout },
    2 => Ready { session, until },
}}

wire_enum! { WatchKey {
    0 => Task(id, arrival),
    1 => Tube(tube, arrival),
    2 => Ready(tube, arrival),
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
