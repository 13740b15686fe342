//! Parses a line of an export into a tube, a limit or a task.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tubewell::expert::{
    FailureKind, HistoryEntry, LastFailure, Restore, SpawnedBy, Step, StepKind,
};
use tubewell::{OnKey, OnParent, Put, TaskState, Tube};

use super::exported_schedule::{ExportedSchedule, either, exported_schedule};
use super::exported_tube::{ExportedTube, exported_time, exported_tube};
use crate::export_line::{LimitLine, TaskLine};
use crate::history::EntryRecord;
use crate::record::{FailureRecord, SpawnedByRecord, bytes};
use crate::step::StepRecord;
use crate::store::is_timed;
use crate::{duration, moment};
use tubewell_json::put::{body, check_object, explain, not_before};

/// The meaning of a line of an export.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all lines are tasks, and one is read at a time"
)]
pub enum Exported {
    Tube(ExportedTube),
    Limit { name: String, most: u32 },
    Schedule(Box<ExportedSchedule>),
    Task { tube: String, task: ExportedTask },
}

/// A task of an export. Which of its options apply depends on the driver of its tube.
pub struct ExportedTask {
    pub id: Option<u64>,
    /// The tasks that it waits for, by their ids in the other store.
    pub parents: Vec<u64>,
    parents_lost: u32,
    on_parent: OnParent,
    has_key: bool,
    takes: u32,
    forgiven: u32,
    state: TaskState,
    group: Option<String>,
    failure: Option<LastFailure>,
    /// The id of the schedule is that of the other store.
    pub spawned_by: Option<SpawnedBy>,
    result: Option<Vec<u8>>,
    history: Vec<HistoryEntry>,
    steps: Vec<Step>,
    put_at: Option<SystemTime>,
    ended_at: Option<SystemTime>,
    put: Put<Vec<u8>>,
    /// The defaults of the tube where these are `None`.
    priority: Option<u32>,
    ttl: Option<Duration>,
    ttr: Option<Duration>,
    max_runtime: Option<Duration>,
    delay: Duration,
    not_before: Option<SystemTime>,
}

impl ExportedTask {
    pub fn is_done(&self) -> bool {
        self.state == TaskState::Done
    }

    /// Whether it waits for other tasks, now or when it is kicked.
    pub fn waits(&self) -> bool {
        self.state == TaskState::Blocked || !self.parents.is_empty() || self.parents_lost > 0
    }

    /// Whether the export does not say all tasks that it waits for.
    pub fn has_lost_parents(&self) -> bool {
        self.parents_lost > 0 || (self.state == TaskState::Blocked && self.parents.is_empty())
    }

    /// Whether it does not wait for a parent that is removed.
    pub fn ignores_removed_parents(&self) -> bool {
        self.on_parent == OnParent::Release || self.state == TaskState::Buried
    }

    /// Whether its steps name tasks that they have put.
    pub fn has_spawned(&self) -> bool {
        self.steps.iter().any(|step| step.kind == StepKind::Spawned)
    }

    /// Its steps name the tasks that they have put by these ids; a task without one is over.
    pub fn rename_spawned(&mut self, new_id: impl Fn(u64) -> Option<u64>) {
        for step in &mut self.steps {
            if let Some(old) = step.spawned() {
                step.value = new_id(old).unwrap_or(u64::MAX).to_be_bytes().to_vec();
            }
        }
    }

    /// Whether another task may be kept in its place.
    pub fn is_kept_by_key(&self, on_key: OnKey) -> bool {
        self.has_key && on_key == OnKey::Keep
    }

    /// Whether its ttl has elapsed, in a tube of this driver.
    pub fn is_expired(&self, driver: &str) -> bool {
        let ttl = self.ttl.map(|ttl| ttl.saturating_add(self.delay));
        ttl.is_some_and(|ttl| ttl.is_zero()) && is_timed(driver) && !self.is_done()
    }

    /// Lets it wait for these tasks of these tubes.
    pub fn wait_for<'a>(&mut self, parents: impl IntoIterator<Item = (&'a Tube, Vec<u64>)>) {
        let put = std::mem::take(&mut self.put);
        self.put = parents.into_iter().fold(put, |put, (tube, ids)| put.after(tube, ids));
    }

    /// Buries it in this failure group. A failure that it has stays.
    pub fn bury(&mut self, group: &str, why: String) {
        let attempt = self.takes.saturating_sub(self.forgiven);
        self.failure.get_or_insert_with(|| {
            let mut failure = LastFailure::new(group, why, attempt);
            failure.kind = FailureKind::Parent;
            failure
        });
        (self.state, self.group) = (TaskState::Buried, Some(group.to_owned()));
        self.drop_delay();
    }

    /// A buried task has no delay; its ttl includes the delay it had.
    fn drop_delay(&mut self) {
        let delay = std::mem::take(&mut self.delay);
        self.ttl = self.ttl.map(|ttl| ttl.saturating_add(delay));
    }

    /// The task for a tube of this driver: with all options that the driver has, and no others.
    /// `id`: its id in the store; `None` is the next one.
    pub fn restore(self, driver: &str, id: Option<u64>, on_key: OnKey) -> Restore {
        let put = if is_timed(driver) {
            let put = self.priority.into_iter().fold(self.put.delay(self.delay), Put::priority);
            let put = self.ttl.into_iter().fold(put, Put::ttl);
            let put = self.ttr.into_iter().fold(put, Put::ttr);
            let put = self.max_runtime.into_iter().fold(put, Put::max_runtime);
            self.not_before.into_iter().fold(put, Put::not_before)
        } else if self.state == TaskState::Done {
            // How long it is kept.
            self.ttl.into_iter().fold(self.put, Put::ttl)
        } else {
            self.put
        };
        let mut restore =
            Restore::new(put.on_key(on_key)).takes(self.takes).forgiven(self.forgiven);
        restore = match self.state {
            TaskState::Ready
            | TaskState::Taken
            | TaskState::Delayed
            | TaskState::Blocked
            | TaskState::Recurring => restore,
            TaskState::Buried => restore.buried(true),
            TaskState::Done => restore.done(self.result),
        };
        if let Some(group) = self.group {
            restore = restore.group(group);
        }
        if let Some(failure) = self.failure {
            restore = restore.failure(failure);
        }
        restore = restore.history(self.history).steps(self.steps);
        if let Some(run) = self.spawned_by {
            restore = restore.spawned_by(run);
        }
        restore = self.put_at.into_iter().fold(restore, Restore::put_at);
        restore = self.ended_at.into_iter().fold(restore, Restore::ended_at);
        id.into_iter().fold(restore, Restore::id)
    }
}

/// The tube or task of a line of an export; `None` for an empty line.
pub fn exported(line: &[u8]) -> Result<Option<Exported>, String> {
    /// Only lines of tubes have a driver, those of limits a limit, and those of schedules a schedule.
    #[derive(Deserialize)]
    struct Kind {
        driver: Option<serde::de::IgnoredAny>,
        limit: Option<serde::de::IgnoredAny>,
        schedule: Option<serde::de::IgnoredAny>,
    }
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    check_object(line)?;
    let kind: Kind = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    if kind.driver.is_some() {
        let line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
        return exported_tube(line).map(Exported::Tube).map(Some);
    }
    if kind.limit.is_some() {
        let line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
        let LimitLine { limit, most } = line;
        return Ok(Some(Exported::Limit { name: limit.into_owned(), most }));
    }
    if kind.schedule.is_some() {
        let line = serde_json::from_slice(line).map_err(|error| explain(&error))?;
        return exported_schedule(line).map(Box::new).map(Exported::Schedule).map(Some);
    }
    let line: TaskLine<'_> = serde_json::from_slice(line).map_err(|error| explain(&error))?;
    let body = body(line.data, line.data_base64)?;
    let result = bytes("result", line.result, line.result_base64)?;
    let state = line.state;
    if state == TaskState::Recurring {
        return Err("a schedule has a line of its own, with the field \"schedule\"".into());
    }
    if result.is_some() && state != TaskState::Done {
        return Err("only a task that is done has a result".into());
    }
    let may_wait = [TaskState::Blocked, TaskState::Buried].contains(&state);
    if !may_wait && (!line.parents.is_empty() || line.parents_lost > 0) {
        return Err("only a blocked or a buried task has parents".into());
    }
    let mut put = Put::new(body);
    if let Some(name) = line.sub_queue {
        put = put.sub_queue(name);
    }
    let has_key = line.key.is_some();
    if let Some(key) = line.key {
        put = put.key(key);
    }
    put = line.tags.into_owned().into_iter().fold(put, Put::tag);
    if let Some(limit) = line.max_attempts {
        put = put.max_attempts(limit);
    }
    if let Some(traceparent) = line.traceparent {
        put = put.traceparent(traceparent);
    }
    let on_parent = line.on_parent.map(OnParent::from).unwrap_or_default();
    let put = put.on_parent(on_parent);
    let takes = line.takes.unwrap_or(0);
    let attempts = line.attempts.unwrap_or(takes);
    let forgiven = takes.checked_sub(attempts);
    let mut task = ExportedTask {
        id: line.id,
        parents: line.parents.into_owned(),
        parents_lost: line.parents_lost,
        on_parent,
        has_key,
        takes,
        forgiven: forgiven.ok_or_else(|| format!("{attempts} attempts are more than its takes"))?,
        state,
        group: line.group.map(Cow::into_owned),
        result,
        failure: line.failure.map(exported_failure).transpose()?,
        history: line.history.into_iter().map(EntryRecord::entry).collect::<Result<_, _>>()?,
        spawned_by: line.spawned_by.map(exported_run).transpose()?,
        steps: line.steps.into_iter().map(StepRecord::step).collect::<Result<_, _>>()?,
        put_at: line.put_at.map(|text| exported_moment("put_at", &text)).transpose()?,
        ended_at: line.ended_at.map(|text| exported_moment("ended_at", &text)).transpose()?,
        put,
        priority: line.priority,
        ttl: line.ttl.map(|ttl| exported_time("ttl", ttl)).transpose()?,
        ttr: line.ttr.map(|ttr| exported_time("ttr", ttr)).transpose()?,
        max_runtime: line.max_runtime.map(|most| either("max_runtime", most)).transpose()?,
        delay: exported_time("delay", line.delay.unwrap_or(Some(0.0)))?,
        not_before: not_before(line.not_before)?,
    };
    if task.state == TaskState::Buried {
        task.drop_delay();
    }
    Ok(Some(Exported::Task { tube: line.tube.into_owned(), task }))
}

fn exported_run(line: SpawnedByRecord) -> Result<SpawnedBy, String> {
    let SpawnedByRecord { schedule, run, moment } = line;
    Ok(SpawnedBy::new(schedule, run, exported_moment("spawned_by", &moment)?))
}

fn exported_moment(field: &str, text: &str) -> Result<SystemTime, String> {
    moment::parse(text).map_err(|why| format!("{field}: {why}"))
}

fn exported_failure(line: FailureRecord<'_>) -> Result<LastFailure, String> {
    let mut failure = LastFailure::new(line.group, line.message, line.attempt);
    if let Some(kind) = line.kind {
        failure.kind = kind.parse().map_err(|error: tubewell::Error| error.to_string())?;
    }
    failure.owner = line.owner.map(Cow::into_owned);
    failure.ago = duration::from_seconds(line.ago).map_err(|why| format!("ago: {why}"))?;
    Ok(failure)
}
