//! What calls return, as text. A type has a list of the fields that are shown: those that a later release
//! adds are not in the recorded conversations of earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::expert::{
    CallCounts, ClockReport, Date, Day, EventDetails, FailureGroup, FailureKind, HistoryEntry,
    LastFailure, ParentCounts, PausedSubQueue, Recurrence, SpawnedBy, Step, StepKind, Summary,
    TagCount,
};
use tubewell::{
    Backoff, Claim, Counting, Cursor, Durability, Ending, Error, Event, EventKind, Keep, Limit,
    Missed, Overlap, Owner, OwnerInfo, Page, Progress, Rate, Receipt, ScheduleInfo, Statistics,
    Task, TaskCounts, TaskInfo, TaskState, TubeInfo,
};

pub trait Shown {
    fn shown(&self) -> String;
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn shown(&self) -> String {
                format!("{self:?}")
            }
        }
    )*};
}

plain! {
    (), bool, u32, u64, usize, str, String, Duration, Error, TaskState, EventKind, FailureKind, StepKind, Recurrence, Missed,
    Overlap, Counting, Durability, Backoff, Keep, Rate, Date
}

/// Fields with their names, without those that are empty.
fn fields(fields: &[(&str, String)]) -> String {
    let is_empty = |shown: &str| matches!(shown, "none" | "0" | "0ns" | "false" | "[]");
    let kept = fields.iter().filter(|(_, shown)| !is_empty(shown));
    let kept: Vec<String> = kept.map(|(name, shown)| format!("{name} {shown}")).collect();
    format!("({})", kept.join(", "))
}

macro_rules! fields {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Shown for $type {
            fn shown(&self) -> String {
                fields(&[$((stringify!($field), self.$field.shown())),*])
            }
        }
    )*};
}

fields! {
    Receipt { id, state, commit }
    Task { info, body, result }
    TaskInfo {
        id, tube, state, priority, sub_queue, key, tags, takes, attempts, max_attempts, attempts_left, open_parents,
        failure, group, size, ttl_left, ttr, max_runtime, due_in, reclaimed_in, not_before, progress, spawned_by,
        has_steps, put_at, ended_at, traceparent,
    }
    Progress { done, total, text }
    SpawnedBy { schedule, run, moment }
    LastFailure { kind, group, message, attempt, owner, ago }
    FailureGroup { name, count }
    ParentCounts { total, done, failed, open, taken, buried }
    TagCount { tag, tasks }
    Owner { label, held, expires_in, is_parked }
    OwnerInfo { label, kind, metadata, since, last_seen, running, overdue, parked }
    ScheduleInfo {
        id, tube, key, recurrence, next, due_in, runs, skipped, last, times, missed, within, overlap, priority, ttl,
        ttr, delay, sub_queue, max_attempts, max_runtime, tags, size, stopped,
    }
    Step { name, kind, value }
    HistoryEntry { number, at, what, state, owner, text, tube }
    Event { tube, id, kind, state, key, owner, cause, progress, details, missed, seq }
    EventDetails { priority, tags, failure, body }
    Statistics { tasks, calls }
    TaskCounts { ready, taken, delayed, blocked, buried, total, done, kept, recurring, overdue }
    CallCounts {
        put, take, ack, release, fail, snooze, lost, bury, kick, delete, touch, checkpoint, ttl, ttr, delay,
        block, unblock, resolve, forget, schedule, spawn, advance, moved, arrive, update, log, step,
    }
    TubeInfo {
        name, driver, usable, temporary, durability, capacity, ttl, ttr, priority, max_runtime, max_attempts,
        count_takes, backoff, reclaim_delay, keep_done, keep_buried, max_taken, sub_queue_limit,
        shared_limits, sub_queue_rate, sub_queue_cooldown, rate, history, metrics, paused, resumes_in, waiting,
        waiting_puts,
    }
    Limit { name, most, taken }
    PausedSubQueue { name, resumes_in }
    ClockReport { timeline, wall, untrusted, set_back }
    Day { date, puts, takes, acks, failed, failures, lost, retried, wait, run }
    Summary { count, mean, std, max }
}

impl Shown for Claim {
    fn shown(&self) -> String {
        let tags: Vec<&str> = self.tags().collect();
        format!(
            "(task {} of {}, data {}, takes {}, priority {}, sub_queue {:?}, key {:?}, tags {tags:?}, attempt {}, \
             left {:?})",
            self.id(),
            self.tube(),
            self.body().shown(),
            self.takes(),
            self.priority(),
            self.sub_queue(),
            self.key(),
            self.attempt(),
            self.attempts_left(),
        )
    }
}

impl Shown for Ending {
    fn shown(&self) -> String {
        match self {
            Ending::Done { result } => format!("done with {}", result.shown()),
            Ending::Buried { failure } => format!("buried with {}", failure.shown()),
            ending => format!("{ending:?}"),
        }
    }
}

impl Shown for Cursor {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Shown for SystemTime {
    fn shown(&self) -> String {
        self.duration_since(UNIX_EPOCH).unwrap().shown()
    }
}

impl Shown for [u8] {
    fn shown(&self) -> String {
        String::from_utf8_lossy(self).shown()
    }
}

impl Shown for Vec<u8> {
    fn shown(&self) -> String {
        self.as_slice().shown()
    }
}

impl Shown for Arc<str> {
    fn shown(&self) -> String {
        (**self).shown()
    }
}

impl Shown for Arc<EventDetails> {
    fn shown(&self) -> String {
        EventDetails::shown(self)
    }
}

impl<T: Shown + ?Sized> Shown for &T {
    fn shown(&self) -> String {
        (**self).shown()
    }
}

impl<T: Shown> Shown for Option<T> {
    fn shown(&self) -> String {
        self.as_ref().map_or("none".into(), T::shown)
    }
}

macro_rules! lists {
    ($($type:ty),*) => {$(
        impl Shown for Vec<$type> {
            fn shown(&self) -> String {
                let items: Vec<String> = self.iter().map(Shown::shown).collect();
                format!("[{}]", items.join(", "))
            }
        }
    )*};
}

lists! {
    u64, String, Receipt, TaskInfo, Task, FailureGroup, TagCount, OwnerInfo, ScheduleInfo, Step,
    HistoryEntry, TubeInfo, Limit, PausedSubQueue, Day, Claim, Result<Receipt, Error>
}

impl<V: Shown> Shown for BTreeMap<String, V> {
    fn shown(&self) -> String {
        let items: Vec<String> =
            self.iter().map(|(key, value)| format!("{key} {}", value.shown())).collect();
        format!("{{{}}}", items.join(", "))
    }
}

impl<T> Shown for Page<T>
where
    Vec<T>: Shown,
{
    fn shown(&self) -> String {
        let Page { items, next, damaged, .. } = self;
        fields(&[("items", items.shown()), ("next", next.shown()), ("damaged", damaged.shown())])
    }
}

impl<T: Shown> Shown for Result<T, Error> {
    fn shown(&self) -> String {
        match self {
            Ok(value) => value.shown(),
            Err(error) => format!("error: {error:?}"),
        }
    }
}
