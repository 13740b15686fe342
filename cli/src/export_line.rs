//! The lines of an export: `export` writes them, `import --all` reads them. docs/command.md documents the
//! fields. Lines of schedules are those of [`ScheduleRecord`](crate::record::ScheduleRecord).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use tubewell::TaskState;

use crate::args::OnParent;
use crate::history::EntryRecord;
use crate::record::{FailureRecord, SpawnedByRecord, Time};
use crate::step::StepRecord;
use tubewell_json::option_fields::OptionFields;

/// The line of a limit that tubes share. Lines of other kinds have no limit.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitLine<'a> {
    pub limit: Cow<'a, str>,
    pub most: u32,
}

/// The line of a tube. Lines of other kinds have no driver. A field that is none of these is an option.
#[derive(Serialize, Deserialize)]
pub struct TubeLine<'a> {
    pub tube: Cow<'a, str>,
    pub driver: Cow<'a, str>,
    #[serde(flatten)]
    pub options: OptionFields,
    /// What is left of the pauses of its sub-queues; null for one without an end.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub paused_sub_queues: BTreeMap<Cow<'a, str>, Option<f64>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// What is left of the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumes_in: Option<f64>,
}

/// The line of a task, which has none of the fields that the other lines begin with. Its times are the
/// options of a put that restores the task as it is now.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskLine<'a> {
    pub tube: Cow<'a, str>,
    pub id: Option<u64>,
    #[serde(default = "ready")]
    pub state: TaskState,
    /// A line that a program has written may leave it out.
    pub put_at: Option<String>,
    /// Left out if it has not ended, or if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub priority: Option<u32>,
    /// Null is never, and what is left out is the default. So it is with the next two.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Option<f64>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub ttr: Option<Option<f64>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Option<f64>>,
    /// Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    pub sub_queue: Option<Cow<'a, str>>,
    /// Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub tags: Cow<'a, [String]>,
    pub takes: Option<u32>,
    /// Left out if all takes are attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Left out without a limit of its own, and so are the others without a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// In seconds, or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Cow<'a, str>>,
    /// The ids of the tasks that it waits for. An id is unique in the export.
    #[serde(default, skip_serializing_if = "<[u64]>::is_empty")]
    pub parents: Cow<'a, [u64]>,
    /// How many more there are, which could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parents_lost: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_parent: Option<OnParent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<EntryRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedByRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<Cow<'a, str>>,
}

fn ready() -> TaskState {
    TaskState::Ready
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A value that is there, or null.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(value).map(Some)
}
