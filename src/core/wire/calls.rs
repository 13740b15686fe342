//! The encoding of calls. A call names tubes by their numbers, and holds what it needs.

use tubewell_drivers::PUT_MANY_TASKS;

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::{borrowing_enum, wire_enum, wire_struct};
use super::parts::{Borrowing, Parts};
use crate::core::call::{
    Call, EdgeVerb, HistoryVerb, ListVerb, ScheduleVerb, TubeRef, Verb, WaitVerb,
};
use crate::core::state::{About, ClaimKey, Holder, TagEdit, WatchKey};

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
    // 2 is a verb of a claim. Those that are not here are types.
    3 => ResumeClaim(session, token),
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
    4 => PutMany(requests),
    5 => Requeue(request),
    6 => PutAndWait { session, request, timeout },
    7 => Wait(verb),
    8 => CancelWatch(key),
    // 9 was a take of several tasks, which is a request now. Numbers are not used again.
    10 => Claim { session, id },
    11 => Revoke(id),
    12 => OwnerOf(id),
    14 => AckMany(holder, ids),
    15 => Bury(id),
    16 => KickTask(id),
    17 => Kick { count },
    18 => Move { id, to },
    19 => MoveSome { to, after, below },
    20 => Edges(verb),
    21 => Delete(id),
    23 => Update { id, request },
    24 => EditTags { id, edit },
    25 => Cancel(id),
    26 => DeleteIf { id, states },
    27 => DeleteMany(ids),
    28 => DeleteWhere { select, after, limit },
    29 => KickWhere { select, after, limit },
    30 => History(verb),
    31 => Steps(id),
    33 => List(verb),
    34 => ReleaseAll { limit, forgive },
    35 => Resolve { id, result },
    36 => Schedules(verb),
    37 => Forget(id),
    38 => Outcome(id),
    39 => Groups,
    40 => Truncate,
    41 => Pause { time },
    42 => PauseUntil { moment },
    43 => PauseSubQueue { name, time },
    44 => PausedSubQueues,
    45 => Days { from, to },
    46 => FailedOn { from, to, next },
    47 => Alter(options),
    48 => Info,
    49 => Statistics,
    50 => IsTimed,
    51 => StepsAfter { id, after },
}}

borrowing_enum! { EdgeVerb {
    0 => Add { id, of, parents },
    1 => Remove { id, parents },
    2 => Parents(id),
    3 => Children(id),
}}

borrowing_enum! { HistoryVerb {
    0 => Read(id),
    1 => Log { id, text },
}}

borrowing_enum! { ListVerb {
    0 => State { state, after, limit },
    1 => Group { group, after, limit },
    2 => Where { wanted, after, limit },
    3 => Bodies { wanted, after, limit },
    4 => Ready(count),
}}

borrowing_enum! { ScheduleVerb {
    0 => Set { key, request },
    1 => Change { key, request },
    2 => Remove(key),
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

borrowing_enum! { TagEdit {
    0 => Add(tags),
    1 => Remove(tags),
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
