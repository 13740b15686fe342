//! Tubes: which there are, their options, and how many tasks they have.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tubewell::expert::CallCounts;
use tubewell::{Statistics, Store, TaskCounts, TubeInfo, TubeOptions};
use tubewell_json::option_fields::OptionFields;
use tubewell_json::record::{DayRecord, TubeRecord};
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answers::{Answers, done};
use super::content::{Content, object};
use super::selected::Changed;
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// The maximum number of days of a list, and how many there are without `last`.
const DAYS_MAX: u32 = 3660;
const DAYS: u32 = 30;

/// A tube with its options, and how many tasks it has in each state.
#[derive(Serialize, ToSchema)]
#[schema(as = Tube)]
struct TubeJson<'a> {
    #[serde(flatten)]
    tube: TubeRecord<'a>,
    #[schema(value_type = schema::TaskCounts)]
    tasks: TaskCounts,
    /// How many changes of tasks there were since the store was opened.
    #[schema(value_type = BTreeMap<String, u64>)]
    calls: CallCounts,
}

impl<'a> TubeJson<'a> {
    fn new(info: &'a TubeInfo, counts: &Statistics) -> TubeJson<'a> {
        let Statistics { tasks, calls, .. } = *counts;
        TubeJson { tube: TubeRecord::new(info, tasks), tasks, calls }
    }
}

/// The driver and the options of a tube: those of `create`, by their names.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = TubeFields)]
struct OpenFields {
    driver: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, schema::OptionValue>)]
    options: OptionFields,
}

/// For how long the takes of a tube, or of one of its sub-queues, are paused.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PauseOptions {
    sub_queue: Option<String>,
    /// Such as `10m`; without it, until they are resumed.
    r#for: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ResumeOptions {
    sub_queue: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DayOptions {
    /// The number of days, today included; default 30.
    #[param(minimum = 1, maximum = 3660)]
    last: Option<u32>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Days)]
struct DaysJson<'a> {
    days: Vec<DayRecord<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Tubes)]
struct TubesJson<'a> {
    tubes: Vec<TubeJson<'a>>,
}

/// The tubes, with their options and the number of tasks in each state.
#[utoipa::path(
    get, path = "/v1/tubes", operation_id = "list_tubes", tag = "tubes",
    responses((status = 200, body = TubesJson, content_type = "application/json"), Problems),
)]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    shared
        .read(|store, answers| {
            let (infos, counts) = (store.tubes()?, store.statistics()?);
            // That of a tube that was created in between.
            let none = Statistics::default();
            let tubes = infos
                .iter()
                .map(|info| TubeJson::new(info, counts.get(&info.name).unwrap_or(&none)));
            answers.json(StatusCode::OK, &TubesJson { tubes: tubes.collect() })
        })
        .await
}

/// A tube, with its options and the number of tasks in each state.
#[utoipa::path(
    get, path = "/v1/tubes/{tube}", operation_id = "get_tube", tag = "tubes", params(("tube" = String, Path)),
    responses((status = 200, body = TubeJson, content_type = "application/json"), Problems),
)]
pub(super) async fn show(State(shared): State<Arc<Shared>>, Names(name): Names<String>) -> Answer {
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Opens the tube with these options, or creates it.
#[utoipa::path(
    put, path = "/v1/tubes/{tube}", operation_id = "open_tube", tag = "tubes", params(("tube" = String, Path)),
    request_body(content = Option<OpenFields>, content_type = "application/json"),
    responses((status = 200, body = TubeJson, content_type = "application/json"), Problems),
)]
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    content: Content,
) -> Answer {
    let OpenFields { driver, options } = object(&content.bytes)?;
    let options = options.over(TubeOptions::new()).map_err(Problem::invalid)?;
    let options = driver.into_iter().fold(options, TubeOptions::driver);
    shared.later.open_tube(&name, options).await?;
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Changes options of the tube; those that are left out stay.
#[utoipa::path(
    patch, path = "/v1/tubes/{tube}", operation_id = "alter_tube", tag = "tubes", params(("tube" = String, Path)),
    request_body(content = OpenFields, content_type = "application/json"),
    responses((status = 200, body = TubeJson, content_type = "application/json"), Problems),
)]
pub(super) async fn alter(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    content: Content,
) -> Answer {
    let OpenFields { driver, options } = object(&content.bytes)?;
    if options.is_empty() {
        return Err(Problem::invalid("say which options to change, as in {\"ttr\": \"5m\"}"));
    }
    if driver.is_some() {
        return Err(Problem::invalid("driver: that of a tube never changes; leave it out"));
    }
    let tube = shared.tube(&name).await?;
    let options = options.over(TubeOptions::new()).map_err(Problem::invalid)?;
    tube.admin().alter(options).await?;
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Pauses the takes of the tube, or of one of its sub-queues.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/pause", operation_id = "pause_tube", tag = "tubes", params(("tube" = String, Path), PauseOptions),
    responses((status = 200, body = TubeJson, content_type = "application/json"), Problems),
)]
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(options): Options<PauseOptions>,
    _: Content,
) -> Answer {
    let time = options.r#for.map(|text| query::duration("for", &text)).transpose()?;
    if time.is_some_and(|time| time.is_zero()) {
        return Err(Problem::invalid("for: a pause lasts longer than 0; resume ends it"));
    }
    let tube = shared.tube(&name).await?;
    match (options.sub_queue, time) {
        (Some(sub_queue), time) => {
            tube.admin().pause_sub_queue(&sub_queue, time.unwrap_or(Duration::MAX)).await?;
        }
        (None, Some(time)) => tube.admin().pause_for(time).await?,
        (None, None) => tube.admin().pause().await?,
    }
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Resumes the takes of the tube, or of one of its sub-queues.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/resume", operation_id = "resume_tube", tag = "tubes", params(("tube" = String, Path), ResumeOptions),
    responses((status = 200, body = TubeJson, content_type = "application/json"), Problems),
)]
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(options): Options<ResumeOptions>,
    _: Content,
) -> Answer {
    let tube = shared.tube(&name).await?;
    match options.sub_queue {
        Some(sub_queue) => tube.admin().unpause_sub_queue(&sub_queue).await?,
        None => tube.admin().unpause().await?,
    }
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Deletes all tasks of the tube, kept ones and schedules, too, and keeps the tube.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/truncate", operation_id = "truncate_tube", tag = "tubes", params(("tube" = String, Path)),
    responses((status = 200, body = Changed, content_type = "application/json"), Problems),
)]
pub(super) async fn truncate(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    _: Content,
) -> Answer {
    let tube = shared.tube(&name).await?;
    let tasks = tube.statistics().await?.tasks;
    let changed = tasks.total + tasks.kept + tasks.recurring;
    tube.admin().truncate().await?;
    shared.answers.json(StatusCode::OK, &Changed { changed })
}

/// The numbers of a tube with metrics, by days of UTC; days without numbers are left out.
#[utoipa::path(
    get, path = "/v1/tubes/{tube}/days", operation_id = "list_days", tag = "tubes", params(("tube" = String, Path), DayOptions),
    responses((status = 200, body = DaysJson, content_type = "application/json"), Problems),
)]
pub(super) async fn days(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(options): Options<DayOptions>,
) -> Answer {
    let last = options.last.unwrap_or(DAYS);
    if !(1..=DAYS_MAX).contains(&last) {
        return Err(Problem::invalid(format!("last: a list has 1 to {DAYS_MAX} days")));
    }
    shared
        .read(move |store, answers| {
            let today = store.today()?;
            let back = i32::try_from(last - 1).unwrap_or(i32::MAX);
            let tube = store.find_tube(&name)?;
            let days = match tube.info()?.metrics {
                0 => Vec::new(),
                _ => tube.query().days(today.plus_days(-back)..=today)?,
            };
            let days = days.iter().map(|day| DayRecord::new(&name, day)).collect();
            answers.json(StatusCode::OK, &DaysJson { days })
        })
        .await
}

/// Drops the tube with its tasks. Refused while tasks are taken or takes wait.
#[utoipa::path(
    delete, path = "/v1/tubes/{tube}", operation_id = "drop_tube", tag = "tubes", params(("tube" = String, Path)),
    responses((status = 204, description = "It is dropped."), Problems),
)]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
) -> Answer<Response> {
    shared.later.drop_tube(&name).await?;
    Ok(done())
}

fn described(store: &Store, answers: &Answers, name: &str) -> Answer {
    let tube = store.find_tube(name)?;
    let (info, counts) = (tube.info()?, tube.statistics()?);
    answers.json(StatusCode::OK, &TubeJson::new(&info, &counts))
}
