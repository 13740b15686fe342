//! The encoding of tasks, and of what else answers name.

use tubewell_drivers::{Position, Shelf};

use super::basic::{Wire, put_bytes};
use super::input::{Input, Malformed};
use super::macros::{wire_enum, wire_struct};
#[cfg(test)]
use super::tests::{Random, Sample};
use crate::values::ending::{FailureGroup, FailureKind, LastFailure};
use crate::values::history::HistoryEntry;
use crate::values::listing::{Page, TagCount};
use crate::values::owner::{Owner, OwnerInfo};
use crate::values::parent_counts::ParentCounts;
use crate::values::schedule::Recurrence;
use crate::values::spawned_by::SpawnedBy;
use crate::values::step::{Step, StepKind};
use crate::values::task::{Cursor, CursorOf, Progress, Task, TaskInfo};
use crate::{Ending, EventKind, Missed, Overlap, Receipt, ScheduleInfo, SessionId, TaskState};

wire_enum! { TaskState {
    0 => Ready,
    1 => Taken,
    2 => Delayed,
    3 => Blocked,
    4 => Buried,
    5 => Recurring,
    6 => Done,
}}

impl Wire for SessionId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    fn get(input: &mut Input<'_>) -> Result<SessionId, Malformed> {
        input.array().map(SessionId::from_bytes)
    }
}

wire_struct! { Receipt { id, state, commit } }
impl Wire for Task {
    fn put(&self, out: &mut Vec<u8>) {
        self.info.put(out);
        put_bytes(&self.body, out);
        self.result.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Task, Malformed> {
        let info = Wire::get(input)?;
        let body = input.bytes()?;
        let result = Wire::get(input)?;
        Ok(Task::of(info, body).with_result(result))
    }
}
wire_struct! { TaskInfo {
    id, tube, state, priority, sub_queue, key, tags, takes, attempts, max_attempts, attempts_left,
    open_parents, failure, group, size, ttl_left, ttr, max_runtime, due_in, reclaimed_in, not_before, progress,
    spawned_by, has_steps, put_at, ended_at, traceparent,
}}
wire_struct! { Progress { done, total, text } }
wire_struct! { SpawnedBy { schedule, run, moment } }
wire_struct! { LastFailure { kind, group, message, attempt, owner, ago } }
wire_enum! { FailureKind {
    0 => Reported,
    1 => Call,
    2 => Expired,
    3 => Lost,
    4 => Released,
    5 => Parent,
}}
wire_struct! { FailureGroup { name, count } }
wire_enum! { Ending {
    0 => Done { result },
    1 => Buried { failure },
    2 => Deleted,
    3 => Expired,
    4 => Gone,
}}

impl<T: Wire> Wire for Page<T> {
    fn put(&self, out: &mut Vec<u8>) {
        let Page { items, next, damaged } = self;
        items.put(out);
        next.put(out);
        damaged.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Page<T>, Malformed> {
        Ok(Page { items: Wire::get(input)?, next: Wire::get(input)?, damaged: Wire::get(input)? })
    }
}

#[cfg(test)]
impl<T: Sample> Sample for Page<T> {
    fn sample(random: &mut Random) -> Page<T> {
        let (items, next) = (Sample::sample(random), Sample::sample(random));
        Page { items, next, damaged: Sample::sample(random) }
    }
}

wire_struct! { ParentCounts { total, done, failed, open, taken, buried } }
wire_struct! { TagCount { tag, tasks } }
wire_struct! { Cursor { position, of, tube } }
wire_enum! { CursorOf { 0 => Group(name), 1 => Tag(name), 2 => Soonest } }
wire_struct! { Position { shelf, order, id, sub } }
wire_enum! { Shelf {
    1 => Ready,
    2 => Delayed,
    3 => Buried,
    4 => Blocked,
    5 => Done,
    6 => Recurring,
}}

wire_struct! { Owner { session, label, held, expires_in, is_parked } }
wire_struct! { OwnerInfo {
    session, label, kind, metadata, since, last_seen, running, overdue, parked,
}}

wire_struct! { ScheduleInfo {
    id, tube, key, recurrence, next, due_in, runs, skipped, last, times, missed, within, overlap, priority,
    ttl, ttr, delay, sub_queue, max_attempts, max_runtime, tags, size, stopped,
}}
wire_enum! { Recurrence { 0 => Every(interval), 1 => Cron { expression, zone } } }
wire_enum! { Missed { 0 => Latest(runs), 1 => All, 2 => Skip } }
wire_enum! { Overlap { 0 => Allow, 1 => Skip } }

wire_struct! { Step { name, kind, value } }
wire_enum! { StepKind { 0 => Value, 1 => Spawned, 2 => Sleep, 3 => Join } }

wire_struct! { HistoryEntry { number, at, what, state, owner, text, tube } }
wire_enum! { EventKind {
    0 => Put,
    1 => Replace,
    2 => Take,
    3 => Ack,
    4 => Release,
    5 => Revoke,
    6 => Touch,
    7 => Checkpoint,
    8 => Progress,
    9 => Fail,
    10 => Snooze,
    11 => Lost,
    12 => Bury,
    13 => Kick,
    14 => Delete,
    15 => Ttl,
    16 => Ttr,
    17 => Delay,
    18 => Block,
    19 => Unblock,
    20 => Resolve,
    21 => Forget,
    22 => Schedule,
    23 => Spawn,
    24 => Advance,
    25 => Move,
    26 => Update,
    27 => Log,
    28 => Step,
}}
