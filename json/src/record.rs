//! Tasks, tubes and bodies as JSON.
#![expect(missing_docs, reason = "docs/command.md documents the fields")]

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tubewell::expert::{
    ClockReport, Day, FailureKind, LastFailure, ParentCounts, Recurrence, SpawnedBy, Summary,
};
use tubewell::{
    Ending, Error, Owner, Progress, ScheduleInfo, Statistics, Store, Task, TaskCounts, TaskInfo,
    TaskState, Tube, TubeInfo,
};

use crate::moment;
use crate::option_fields::OptionFields;

/// A task.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Task))]
pub struct TaskRecord<'a> {
    pub id: u64,
    pub tube: &'a str,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::TaskState))]
    pub state: &'static str,
    /// The label of the session that has taken it, or its id.
    pub owner: Option<String>,
    /// For how long that session has had it. Left out unless it is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<f64>,
    pub put_at: String,
    pub age: f64,
    pub priority: u32,
    pub sub_queue: Option<&'a str>,
    pub key: Option<&'a str>,
    pub tags: &'a [String],
    pub takes: u32,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub attempts_left: Option<u32>,
    pub open_parents: u32,
    /// How a buried task was buried.
    pub buried_by: Option<&'static str>,
    pub group: Option<&'a str>,
    pub failure: Option<FailureRecord<'a>>,
    pub size: u64,
    pub ttl_left: Option<f64>,
    pub ttr: Option<f64>,
    /// Left out if it is that of the tube.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<Time>,
    pub due_in: Option<f64>,
    /// Left out unless its claim is overdue; null is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimed_in: Option<Option<f64>>,
    pub ended_at: Option<String>,
    pub not_before: Option<String>,
    /// Left out of a task without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<&'a str>,
    /// Left out unless it is taken and its worker reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Progress>))]
    pub progress: Option<&'a Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedByRecord>,
    /// How many steps are stored. Left out of a task without steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// How far the tasks are that it waits for. Left out of a task that waits for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ParentCounts>))]
    pub parents: Option<ParentCounts>,
    /// Left out of a listing without bodies.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Body))]
    pub body: Option<Body<'a>>,
    /// Of a task that is done with a result.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ResultBytes))]
    pub result: Option<ResultBytes<'a>>,
}

impl<'a> TaskRecord<'a> {
    /// The task of this tube. `now`: by the clock of the store.
    pub fn new(
        tube: &'a Tube,
        task: &'a Task,
        now: SystemTime,
    ) -> tubewell::Result<TaskRecord<'a>> {
        let result = task.result.as_deref().map(|result| ResultBytes::new(Some(result)));
        let body = Some(Body::new(&task.body));
        Ok(TaskRecord { body, result, ..TaskRecord::without_body(tube, &task.info, now)? })
    }

    /// The same, without its body and its result.
    pub fn without_body(
        tube: &'a Tube,
        info: &'a TaskInfo,
        now: SystemTime,
    ) -> tubewell::Result<TaskRecord<'a>> {
        let owner = owner(tube, info)?;
        Ok(TaskRecord {
            id: info.id,
            tube: tube.name(),
            state: info.state.as_str(),
            held: owner.as_ref().and_then(|owner| seconds(Some(owner.held))),
            owner: owner.map(label_or_session),
            put_at: moment::show(info.put_at),
            age: moment::age(info.put_at, now).as_secs_f64(),
            priority: info.priority,
            sub_queue: info.sub_queue.as_deref(),
            key: info.key.as_deref(),
            tags: &info.tags,
            takes: info.takes,
            attempts: info.attempts,
            max_attempts: info.max_attempts,
            attempts_left: info.attempts_left,
            open_parents: info.open_parents,
            buried_by: info.buried_by().map(FailureKind::as_str),
            group: info.group.as_deref(),
            failure: info.failure.as_ref().map(FailureRecord::new),
            size: info.size,
            ttl_left: seconds(info.ttl_left),
            ttr: seconds(info.ttr),
            max_runtime: info.max_runtime.map(Time::new),
            due_in: seconds(info.due_in),
            reclaimed_in: info.reclaimed_in.map(|left| seconds(Some(left))),
            ended_at: info.ended_at.map(moment::show),
            not_before: info.not_before.map(moment::show),
            traceparent: info.traceparent.as_deref(),
            progress: info.progress.as_ref(),
            spawned_by: info.spawned_by.as_ref().map(SpawnedByRecord::new),
            steps: count_steps(tube, info)?,
            parents: count_parents(tube, info)?,
            body: None,
            result: None,
        })
    }
}

/// How a task has ended.
#[derive(Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Outcome))]
pub struct OutcomeRecord<'a> {
    pub id: u64,
    pub tube: &'a str,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::TaskState))]
    pub state: &'static str,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ResultBytes))]
    pub result: ResultBytes<'a>,
    pub failure: Option<FailureRecord<'a>>,
}

impl<'a> OutcomeRecord<'a> {
    /// `None` if nothing is kept of the task.
    pub fn new(id: u64, tube: &'a str, ending: &'a Ending) -> Option<OutcomeRecord<'a>> {
        let (state, result, failure) = match ending {
            Ending::Done { result } => (TaskState::Done, result.as_deref(), None),
            Ending::Buried { failure } => (TaskState::Buried, None, failure.as_ref()),
            _ => return None,
        };
        let (result, failure) = (ResultBytes::new(result), failure.map(FailureRecord::new));
        Some(OutcomeRecord { id, tube, state: state.as_str(), result, failure })
    }
}

/// The wall clock, as far as the store trusts it: the times that it shows are of this clock.
pub fn now(store: &Store) -> tubewell::Result<SystemTime> {
    let clocks = store.admin().clock_report()?;
    Ok(UNIX_EPOCH + clocks.untrusted.map_or(clocks.wall, |_| clocks.timeline))
}

/// The owner of a task, if it is taken.
pub fn owner(tube: &Tube, info: &TaskInfo) -> tubewell::Result<Option<Owner>> {
    if info.state != TaskState::Taken {
        return Ok(None);
    }
    if_there(tube.query().owner(info.id)).map(Option::flatten)
}

fn label_or_session(owner: Owner) -> String {
    owner.label.map_or_else(|| owner.session.to_string(), |label| label.to_string())
}

/// The run of a schedule that a task is. Left out of a task that is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = SpawnedBy))]
#[serde(deny_unknown_fields)]
pub struct SpawnedByRecord {
    pub schedule: u64,
    pub run: u64,
    pub moment: String,
}

impl SpawnedByRecord {
    pub fn new(run: &SpawnedBy) -> SpawnedByRecord {
        let SpawnedBy { schedule, run, moment, .. } = *run;
        SpawnedByRecord { schedule, run, moment: moment::show(moment) }
    }
}

/// A schedule. It is also the line of one in an export, with the body of its runs.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Schedule))]
#[serde(deny_unknown_fields)]
pub struct ScheduleRecord<'a> {
    pub schedule: Cow<'a, str>,
    pub tube: Cow<'a, str>,
    pub id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Cow<'a, str>>,
    pub next: String,
    #[serde(default)]
    pub runs: u64,
    #[serde(default)]
    pub skipped: u64,
    /// An import finds the run by its key.
    pub last: Option<u64>,
    pub times: Option<u64>,
    pub missed: Option<String>,
    pub within: Option<f64>,
    pub overlap: Option<Cow<'a, str>>,
    pub priority: Option<u32>,
    /// In seconds; null for that of the tube, and `never` for none.
    pub ttl: Option<Time>,
    pub ttr: Option<Time>,
    #[serde(default)]
    pub delay: f64,
    pub sub_queue: Option<Cow<'a, str>>,
    pub max_attempts: Option<u32>,
    /// Left out if it is that of the tube.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runtime: Option<Time>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub tags: Cow<'a, [String]>,
    /// An export leaves it out, and an import refuses it.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Cow<'a, str>>,
    /// The body of its runs, only in an export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_base64: Option<Cow<'a, str>>,
}

/// A time: seconds, or a text. The text of a time that is told is `never`; one that is set may also be a duration such
/// as `10m`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "a duration is a number of seconds or a text such as \"10m\"")]
pub enum Time {
    Seconds(f64),
    Text(String),
}

impl Time {
    pub fn new(time: Duration) -> Time {
        match seconds(Some(time)) {
            Some(seconds) => Time::Seconds(seconds),
            None => Time::Text("never".into()),
        }
    }
}

impl<'a> ScheduleRecord<'a> {
    pub fn new(tube: &'a str, info: &'a ScheduleInfo) -> ScheduleRecord<'a> {
        let (every, cron, zone) = match &info.recurrence {
            Recurrence::Every(interval) => (Some(interval.as_secs_f64()), None, None),
            Recurrence::Cron { expression, zone } => {
                (None, Some(Cow::from(&**expression)), Some(Cow::from(&**zone)))
            }
            _ => (None, None, None),
        };
        ScheduleRecord {
            schedule: info.key.as_str().into(),
            tube: tube.into(),
            id: Some(info.id),
            every,
            cron,
            zone,
            next: moment::show(info.next),
            runs: info.runs,
            skipped: info.skipped,
            last: info.last,
            times: info.times,
            missed: Some(info.missed.to_string()),
            within: seconds(info.within),
            overlap: Some(info.overlap.to_string().into()),
            priority: info.priority,
            ttl: info.ttl.map(Time::new),
            ttr: info.ttr.map(Time::new),
            delay: info.delay.as_secs_f64(),
            sub_queue: info.sub_queue.as_deref().map(Cow::from),
            max_attempts: info.max_attempts,
            max_runtime: info.max_runtime.map(Time::new),
            tags: info.tags.as_slice().into(),
            stopped: info.stopped.as_deref().map(Cow::from),
            data: None,
            data_base64: None,
        }
    }
}

/// The last failure of a task.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Failure))]
#[serde(deny_unknown_fields)]
pub struct FailureRecord<'a> {
    /// How it came about. Without it, it was reported.
    pub kind: Option<Cow<'a, str>>,
    pub group: Cow<'a, str>,
    pub message: Cow<'a, str>,
    pub attempt: u32,
    pub owner: Option<Cow<'a, str>>,
    pub ago: f64,
}

impl FailureRecord<'_> {
    pub fn new(failure: &LastFailure) -> FailureRecord<'_> {
        FailureRecord {
            kind: Some(failure.kind.as_str().into()),
            group: failure.group.as_str().into(),
            message: failure.message.as_str().into(),
            attempt: failure.attempt,
            owner: failure.owner.as_deref().map(Cow::from),
            ago: failure.ago.as_secs_f64(),
        }
    }
}

/// A body: `data` if it is UTF-8, otherwise `data_base64`.
#[derive(Debug, Serialize)]
pub enum Body<'a> {
    #[serde(rename = "data")]
    Text(&'a str),
    #[serde(rename = "data_base64")]
    Bytes(String),
}

impl Body<'_> {
    pub fn new(bytes: &[u8]) -> Body<'_> {
        text_or_base64(bytes).map_or_else(Body::Bytes, Body::Text)
    }
}

/// A result: `result` if it is UTF-8 or none, otherwise `result_base64`.
#[derive(Debug, Serialize)]
pub enum ResultBytes<'a> {
    #[serde(rename = "result")]
    Text(Option<&'a str>),
    #[serde(rename = "result_base64")]
    Bytes(String),
}

impl ResultBytes<'_> {
    pub fn new(bytes: Option<&[u8]>) -> ResultBytes<'_> {
        let text = bytes.map(text_or_base64).transpose();
        text.map_or_else(ResultBytes::Bytes, ResultBytes::Text)
    }
}

/// How many steps of a task are stored; `None` of a task without steps.
pub fn count_steps(tube: &Tube, task: &TaskInfo) -> tubewell::Result<Option<usize>> {
    if !task.has_steps {
        return Ok(None);
    }
    let steps = if_there(tube.query().first_steps(task.id, 0))?;
    Ok(steps.map(|(_, count)| count).filter(|count| *count > 0))
}

/// How far the tasks are that a task waits for; `None` of a task that waits for none.
pub fn count_parents(tube: &Tube, task: &TaskInfo) -> tubewell::Result<Option<ParentCounts>> {
    if task.open_parents == 0 {
        return Ok(None);
    }
    if_there(tube.query().parent_counts(task.id))
}

/// What was read of a task; `None` if it has ended after it was listed.
fn if_there<R>(read: tubewell::Result<R>) -> tubewell::Result<Option<R>> {
    match read {
        Err(Error::NotFound { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// Bytes as text if they are UTF-8, otherwise in base64.
pub fn text_or_base64(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| STANDARD.encode(bytes))
}

/// Bytes as the values of two fields, of which one is left out: the text, and the base64 of what is none.
pub fn text_and_base64(bytes: &[u8]) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    match text_or_base64(bytes) {
        Ok(text) => (Some(text.into()), None),
        Err(base64) => (None, Some(base64.into())),
    }
}

/// A tube and its options.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TubeInfo))]
pub struct TubeRecord<'a> {
    pub tube: &'a str,
    pub driver: &'a str,
    pub usable: bool,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub options: OptionFields,
    pub paused: bool,
    pub resumes_in: Option<f64>,
    pub total: u64,
    pub kept: u64,
}

impl<'a> TubeRecord<'a> {
    pub fn new(info: &'a TubeInfo, tasks: TaskCounts) -> TubeRecord<'a> {
        TubeRecord {
            tube: &info.name,
            driver: &info.driver,
            usable: info.usable,
            options: OptionFields::all(info),
            paused: info.paused,
            resumes_in: seconds(info.resumes_in),
            total: tasks.total,
            kept: tasks.kept,
        }
    }
}

/// The tasks of a tube, counted by state.
#[derive(Debug, Serialize)]
pub struct CountsRecord<'a> {
    pub tube: &'a str,
    pub driver: &'a str,
    pub ready: u64,
    pub taken: u64,
    pub overdue: u64,
    pub delayed: u64,
    pub blocked: u64,
    pub buried: u64,
    pub total: u64,
    pub kept: u64,
    pub recurring: u64,
    pub paused: bool,
    /// In seconds; null if the pause has no end, or there is none.
    pub resumes_in: Option<f64>,
    pub clock: ClockRecord,
}

/// The errors of the wall clock, in seconds; null if it is right.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Clock))]
pub struct ClockRecord {
    /// By how much it is ahead of the time of the store, which does not trust it.
    pub untrusted: Option<f64>,
    /// By how much it was behind when the store was opened.
    pub set_back: Option<f64>,
}

impl ClockRecord {
    pub fn new(clocks: ClockReport) -> ClockRecord {
        let ahead = clocks.untrusted.map(|wall| wall.saturating_sub(clocks.timeline));
        let seconds = |by: Option<Duration>| by.map(|by| by.as_secs_f64());
        ClockRecord { untrusted: seconds(ahead), set_back: seconds(clocks.set_back) }
    }
}

impl<'a> CountsRecord<'a> {
    pub fn new(
        tube: &'a TubeInfo,
        statistics: &Statistics,
        clock: ClockRecord,
    ) -> CountsRecord<'a> {
        let tasks = statistics.tasks;
        CountsRecord {
            tube: &tube.name,
            driver: &tube.driver,
            ready: tasks.ready,
            taken: tasks.taken,
            overdue: tasks.overdue,
            delayed: tasks.delayed,
            blocked: tasks.blocked,
            buried: tasks.buried,
            total: tasks.total,
            kept: tasks.kept,
            recurring: tasks.recurring,
            paused: tube.paused,
            resumes_in: seconds(tube.resumes_in),
            clock,
        }
    }
}

/// The numbers of a tube on a day.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Day))]
pub struct DayRecord<'a> {
    pub tube: &'a str,
    pub date: String,
    pub puts: u64,
    pub takes: u64,
    pub acks: u64,
    pub failures: u64,
    pub failed: u64,
    pub lost: u64,
    pub retried: u64,
    pub wait: SummaryRecord,
    pub run: SummaryRecord,
}

/// How durations are distributed, in seconds.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Summary))]
pub struct SummaryRecord {
    pub count: u64,
    pub mean: f64,
    pub std: f64,
    pub max: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub bins: Vec<BinRecord>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Bin))]
pub struct BinRecord {
    pub from: f64,
    /// Null for the last bin, which has no end.
    pub to: Option<f64>,
    pub count: u64,
}

impl<'a> DayRecord<'a> {
    pub fn new(tube: &'a str, day: &Day) -> DayRecord<'a> {
        DayRecord {
            tube,
            date: day.date.to_string(),
            puts: day.puts,
            takes: day.takes,
            acks: day.acks,
            failures: day.failures,
            failed: day.failed,
            lost: day.lost,
            retried: day.retried,
            wait: SummaryRecord::new(&day.wait),
            run: SummaryRecord::new(&day.run),
        }
    }
}

impl SummaryRecord {
    fn new(summary: &Summary) -> SummaryRecord {
        let percentile = |p| summary.percentile(p).as_secs_f64();
        let bins = summary.bins().iter().map(|bin| BinRecord {
            from: bin.from.as_secs_f64(),
            to: bin.to.map(|to| to.as_secs_f64()),
            count: bin.count,
        });
        SummaryRecord {
            count: summary.count,
            mean: summary.mean.as_secs_f64(),
            std: summary.std.as_secs_f64(),
            max: summary.max.as_secs_f64(),
            p50: percentile(0.5),
            p90: percentile(0.9),
            p99: percentile(0.99),
            bins: bins.collect(),
        }
    }
}

/// The bytes of a field, or of the one with its name and `_base64`; `None` if there is none.
pub fn bytes(
    name: &str,
    text: Option<Cow<'_, str>>,
    base64: Option<Cow<'_, str>>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("it has both {name} and {name}_base64")),
        (text, None) => Ok(text.map(|text| text.into_owned().into_bytes())),
        (None, Some(text)) => match from_base64(&text) {
            None => Err(format!("{name}_base64 is not base64 (the standard alphabet)")),
            bytes => Ok(bytes),
        },
    }
}

/// Decodes base64.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// A duration in seconds; `None` for one without an end. It is the number that is nearest to its microseconds, which is
/// written with six decimals at most.
pub fn seconds(duration: Option<Duration>) -> Option<f64> {
    let finite = duration.filter(|duration| *duration != Duration::MAX);
    finite.map(|duration| (duration.as_secs_f64() * 1e6).round() / 1e6)
}
