//! Schedules: what puts tasks again and again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tubewell::expert::Recurrence;
use tubewell::{Error, Overlap, Put, Schedule, ScheduleInfo, Store, Tube};
use tubewell_json::put::{self, PutOptions};
use tubewell_json::record::{self, ScheduleRecord, Time};
use tubewell_json::unique_fields::UniqueFields;
use tubewell_json::{moment, schema};
use utoipa::ToSchema;

use super::Shared;
use super::answers::{Answers, done};
use super::content::{Content, large_object};
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names};

/// How many schedules are read at a time.
const PAGE: usize = 500;
/// The maximum number of schedules of a list.
const LISTED_MAX: usize = 10_000;

/// When the runs of a schedule are.
#[derive(Default, Deserialize, PartialEq, ToSchema)]
struct Rule {
    /// The time from one run to the next one: seconds, or a text such as `10m`.
    every: Option<Time>,
    /// Minute, hour, day of the month, month, day of the week.
    cron: Option<String>,
    /// The time zone of `cron`. Without it, UTC, and in a change that of before.
    zone: Option<String>,
    /// The moment of the next run.
    starting: Option<String>,
    /// The number of runs after which it ends; null for never.
    #[serde(default, deserialize_with = "query::given")]
    #[schema(value_type = Option<u64>)]
    times: Option<Option<u64>>,
    /// Which missed runs are put later: a number of the newest ones, `all`, or `skip`.
    missed: Option<String>,
    /// How late a run may be; null for no limit.
    #[serde(default, deserialize_with = "query::given")]
    #[schema(value_type = Option<Time>)]
    within: Option<Option<Time>>,
    overlap: Option<OverlapWord>,
}

/// What becomes of a run that is due before the last one is over.
#[derive(Clone, Copy, Deserialize, PartialEq, ToSchema)]
#[schema(as = Overlap)]
#[serde(rename_all = "snake_case")]
enum OverlapWord {
    /// It is put all the same.
    Allow,
    /// It is left out.
    Skip,
}

impl From<OverlapWord> for Overlap {
    fn from(word: OverlapWord) -> Overlap {
        match word {
            OverlapWord::Allow => Overlap::Allow,
            OverlapWord::Skip => Overlap::Skip,
        }
    }
}

/// A schedule, and the task that its runs put.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = NewSchedule)]
struct ScheduleFields {
    #[schema(inline)]
    #[serde(flatten)]
    rule: Rule,
    /// All other fields.
    #[serde(flatten)]
    #[schema(value_type = put::Fields<'static>)]
    task: UniqueFields,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Schedules)]
struct SchedulesJson<'a> {
    schedules: Vec<ScheduleRecord<'a>>,
    /// Whether there are further ones: a list has some 10,000.
    more: bool,
    /// How many schedules were left out, since their records are damaged.
    damaged: u64,
}

impl Rule {
    /// `before`: of a schedule that is changed.
    fn schedule(mut self, key: &str, before: Option<&Recurrence>) -> Result<Schedule, String> {
        let every = put::time("every", self.every)?;
        if every == Some(Duration::MAX) {
            return Err(
                "every: a schedule has runs; write a time such as 1h, or delete the schedule"
                    .into(),
            );
        }
        if let (Some(Recurrence::Cron { expression, zone }), None) = (before, every)
            && (self.cron.is_some() || self.zone.is_some())
        {
            self.cron.get_or_insert_with(|| expression.clone());
            self.zone.get_or_insert_with(|| zone.clone());
        }
        if self.zone.is_some() && self.cron.is_none() {
            return Err("zone: only cron has it; leave it out".into());
        }
        let mut schedule = match (every, self.cron) {
            (Some(_), Some(_)) => return Err("it has both every and cron; leave one out".into()),
            (Some(interval), None) => Schedule::every(key, interval),
            (None, Some(cron)) => Schedule::cron(key, cron, self.zone.as_deref().unwrap_or("UTC")),
            (None, None) => Schedule::of(key),
        };
        if let Some(moment) = self.starting {
            let moment = moment::parse(&moment).map_err(|why| format!("starting: {why}"))?;
            schedule = schedule.starting(moment);
        }
        schedule = self.times.into_iter().fold(schedule, Schedule::times);
        if let Some(missed) = self.missed {
            schedule = schedule.missed(missed.parse().map_err(|why| format!("missed: {why}"))?);
        }
        if let Some(within) = self.within {
            schedule = schedule.within(put::time("within", within)?);
        }
        Ok(self.overlap.map(Overlap::from).into_iter().fold(schedule, Schedule::overlap))
    }
}

/// The task of these fields. What they do not name is as before, and null resets an option.
fn task(fields: &Map<String, Value>, before: PutOptions) -> Answer<Put<Vec<u8>>> {
    if fields.contains_key("key") {
        return Err(Problem::invalid("key: the runs of a schedule have none; leave it out"));
    }
    let reset = fields.iter().filter(|(_, value)| value.is_null());
    let before = reset.fold(before, |before, (name, _)| before.without(name));
    let content = serde_json::to_vec(fields).unwrap_or_default();
    let task = put::task(&content, &before).map_err(Problem::invalid)?;
    task.ok_or_else(|| Problem::invalid("the schedule has no task; send an object with `data`"))
}

/// The schedules of all tubes.
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    responses((status = 200, body = SchedulesJson, content_type = "application/json"), Problems),
)]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    shared
        .read(|store, answers| {
            let statistics = store.statistics()?;
            let has_some = statistics.iter().filter(|(_, counts)| counts.tasks.recurring > 0);
            listed(store, answers, has_some.map(|(name, _)| name.as_str()))
        })
        .await
}

/// The schedules of a tube.
#[utoipa::path(
    get, path = "/v1/tubes/{tube}/schedules", operation_id = "list_schedules_in_tube", tag = "schedules", params(("tube" = String, Path)),
    responses((status = 200, body = SchedulesJson, content_type = "application/json"), Problems),
)]
pub(super) async fn list_in_tube(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
) -> Answer {
    shared
        .read(move |store, answers| {
            store.find_tube(&name)?;
            listed(store, answers, [name.as_str()])
        })
        .await
}

fn listed<'a>(
    store: &Store,
    answers: &Answers,
    tubes: impl IntoIterator<Item = &'a str>,
) -> Answer {
    let mut found: Vec<(&str, ScheduleInfo)> = Vec::new();
    let (mut more, mut damaged) = (false, 0);
    for name in tubes {
        if found.len() >= LISTED_MAX {
            more = true;
            break;
        }
        let tube = match store.find_tube(name) {
            Err(Error::TubeNotFound { .. }) => continue,
            tube => tube?,
        };
        let mut after = None;
        loop {
            let page = tube.schedules().list(after, PAGE)?;
            damaged += page.damaged;
            found.extend(page.items.into_iter().map(|schedule| (name, schedule)));
            after = page.next;
            more = after.is_some();
            if !more || found.len() >= LISTED_MAX {
                break;
            }
        }
    }
    let schedules = found.iter().map(|(tube, info)| ScheduleRecord::new(tube, info)).collect();
    answers.json(StatusCode::OK, &SchedulesJson { schedules, more, damaged })
}

/// Stores a schedule, which puts tasks with this body.
#[utoipa::path(
    put, path = "/v1/tubes/{tube}/schedules/{key}", operation_id = "store_schedule", tag = "schedules",
    params(("tube" = String, Path), ("key" = String, Path)),
    request_body(content = ScheduleFields, content_type = "application/json"),
    responses((status = 200, body = schema::Receipt, content_type = "application/json"), Problems),
)]
pub(super) async fn store(
    State(shared): State<Arc<Shared>>,
    Names((name, key)): Names<(String, String)>,
    content: Content,
) -> Answer {
    let ScheduleFields { rule, task: UniqueFields(fields) } =
        large_object(&shared, content.bytes.clone()).await?;
    if rule.every.is_none() && rule.cron.is_none() {
        return Err(Problem::invalid("the schedule does not say when its runs are: every or cron"));
    }
    let schedule = rule.schedule(&key, None).map_err(Problem::invalid)?;
    let task = task(&fields, PutOptions::default())?;
    let _alone = shared.schedule_changes.lock().await;
    let receipt = shared.tube(&name).await?.schedule(schedule, task).await?;
    shared.answers.json(StatusCode::OK, &receipt)
}

/// Changes a schedule; what is left out stays, and null resets an option.
#[utoipa::path(
    patch, path = "/v1/schedules/{key}", operation_id = "change_schedule", tag = "schedules", params(("key" = String, Path)),
    request_body(content = ScheduleFields, content_type = "application/json"),
    responses((status = 200, body = schema::Receipt, content_type = "application/json"), Problems),
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Names(key): Names<String>,
    content: Content,
) -> Answer {
    let ScheduleFields { rule, task: UniqueFields(mut fields) } =
        large_object(&shared, content.bytes.clone()).await?;
    if rule == Rule::default() && fields.is_empty() {
        return Err(Problem::invalid("say what to change of the schedule or of its task"));
    }
    // What a change leaves out is read, and stored again: another one in between would be lost.
    let _alone = shared.schedule_changes.lock().await;
    let (tube, was) = shared.read(move |store, _| found(store, key)).await?;
    let schedule = rule.schedule(&was.key, Some(&was.recurrence)).map_err(Problem::invalid)?;
    let tube = tube.to_async();
    if fields.is_empty() {
        let receipt = tube.schedules().change(schedule).await?;
        return shared.answers.json(StatusCode::OK, &receipt);
    }
    if !fields.contains_key("data") && !fields.contains_key("data_base64") {
        let body = tube.query().task(was.id).await?.body;
        let (name, text) = match record::text_or_base64(&body) {
            Ok(text) => ("data", text.to_owned()),
            Err(base64) => ("data_base64", base64),
        };
        fields.insert(name.to_owned(), text.into());
    }
    let task = task(&fields, PutOptions::of_runs(&was))?;
    let receipt = tube.schedules().change_task(schedule, task).await?;
    shared.answers.json(StatusCode::OK, &receipt)
}

/// Puts a task as the runs of the schedule are, now. It does not count as a run.
#[utoipa::path(
    post, path = "/v1/schedules/{key}/run", operation_id = "run_schedule", tag = "schedules", params(("key" = String, Path)),
    responses((status = 201, body = schema::Receipt, content_type = "application/json"), Problems),
)]
pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    Names(key): Names<String>,
    _: Content,
) -> Answer {
    let (tube, was) = shared.read(move |store, _| found(store, key)).await?;
    let tube = tube.to_async().refuse_when_full();
    let body = tube.query().task(was.id).await?.body;
    let receipt = tube.put(PutOptions::of_runs(&was).apply(Put::new(body))).await?;
    shared.answers.json(StatusCode::CREATED, &receipt)
}

/// The tube of a schedule, and what it is.
fn found(store: &Store, key: String) -> Answer<(Tube, ScheduleInfo)> {
    let schedule = store.schedule(&key)?.ok_or_else(|| {
        let what = format!("no schedule has the key {key:?}; GET /v1/schedules lists them");
        Problem::new(StatusCode::NOT_FOUND, "key_not_found", what)
    })?;
    Ok((store.find_tube(&schedule.tube)?, schedule))
}

/// Removes a schedule; the tasks that it has put stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{key}", operation_id = "remove_schedule", tag = "schedules", params(("key" = String, Path)),
    responses((status = 204, description = "It is removed."), Problems),
)]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Names(key): Names<String>,
) -> Answer<Response> {
    let name = key.clone();
    let (tube, _) = shared.read(move |store, _| found(store, name)).await?;
    tube.to_async().schedules().remove(&key).await?;
    Ok(done())
}
