//! The encoding of what calls ask for.

use tubewell_drivers::{Body, PUT_MANY_TASKS, RecurRule};

use super::basic::{Wire, put_bytes};
use super::input::{Input, Malformed};
use super::macros::{wire_enum, wire_struct};
use crate::core::state::{
    About, ClaimEnd, ClaimKey, EndRequest, History, PutInto, PutRequest, ScheduleRequest, TaskEnd,
    UpdateRequest,
};
use crate::values::put::After;
use crate::values::schedule::Restored;
use crate::values::token::ClaimToken;
use crate::{Failure, OnKey, OnParent};

wire_struct! { PutRequest {
    priority, ttl, ttr, delay, not_before, sub, max_attempts, max_runtime, key, on_key, tags, body, after, id, takes,
    restored_as, history, idempotency_key, unique_for, traceparent,
} at most PUT_MANY_TASKS }
wire_struct! { History {
    forgiven, buried_with, failure, spawned_by, result, entries, steps, put_at, ended_at,
}}
wire_struct! { After { parents, keys, on_parent } }
wire_enum! { OnKey { 0 => Reject, 1 => Keep, 2 => Replace } }
wire_enum! { OnParent { 0 => Wait, 1 => Release, 2 => Bury } }

wire_struct! { EndRequest { end, puts } }
wire_struct! { ClaimEnd { request, keeps_claim } at most PUT_MANY_TASKS }
wire_enum! { TaskEnd {
    0 => Ack { result },
    1 => Advance(into),
    2 => Release { delay },
    3 => Snooze { delay },
    4 => Fail { delay, failure },
    5 => Bury(failure),
    6 => AdvanceUnchanged { tube, name },
} }
wire_struct! { PutInto { tube, name, request } at most PUT_MANY_TASKS }
wire_struct! { UpdateRequest { priority, delay, not_before, body, tags } }
wire_struct! { ScheduleRequest {
    rule, starting, times, missed, within, skips_overlap, put, restored,
}}
wire_struct! { Restored { id, runs, skipped } }
wire_enum! { RecurRule { 0 => Every(interval), 1 => Cron { expression, zone } } }

wire_struct! { ClaimToken { tube, id, epoch } }

/// Its checksum is that of its bytes.
impl Wire for Body {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(self, out);
    }

    fn get(input: &mut Input<'_>) -> Result<Body, Malformed> {
        Vec::get(input).map(Body::new)
    }
}

impl Wire for Failure {
    fn put(&self, out: &mut Vec<u8>) {
        self.shared_group().put(out);
        put_bytes(self.message().as_bytes(), out);
    }

    fn get(input: &mut Input<'_>) -> Result<Failure, Malformed> {
        let (group, message) = (String::get(input)?, String::get(input)?);
        Ok(Failure::new(group, message))
    }
}

wire_struct! { ClaimKey { tube, id, session, epoch } at most PUT_MANY_TASKS }
wire_struct! { About { kind, metadata } }
