//! The store as a whole: its counters, failure groups, tags and limits.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tubewell::expert::Counters;
use tubewell::{Store, Tube};
use tubewell_json::moment;
use tubewell_json::record::{self, ClockRecord};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answers::{Answers, done};
use super::content::{Content, object};
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Bound, Names, Options};

#[derive(Serialize, ToSchema)]
#[schema(as = Store)]
struct StoreJson {
    version: &'static str,
    /// That of tubes without one of their own, such as `flush` or `write(50ms)`.
    durability: String,
    /// Whether this server changes nothing.
    read_only: bool,
    /// The id of the next task.
    next_id: u64,
    /// The wall clock, as far as the store trusts it.
    now: String,
    /// What was committed, written and read since the store was opened.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    counters: Counters,
    clock: ClockRecord,
}

/// A cause of failures.
#[derive(Serialize, ToSchema)]
#[schema(as = Group)]
struct GroupJson {
    tube: String,
    name: String,
    /// How many buried tasks it has.
    count: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Groups)]
struct GroupsJson {
    groups: Vec<GroupJson>,
    left_out: usize,
}

/// A session that has tasks, or that has described itself. Times are in seconds.
#[derive(Serialize, ToSchema)]
#[schema(as = Owner)]
struct OwnerJson {
    /// Its label, by which conditions name it; null if it has none.
    label: Option<String>,
    /// Its id.
    session: String,
    kind: Option<String>,
    metadata: Option<String>,
    /// How long ago it began; null if it has ended, and its parked claims stand.
    since: Option<f64>,
    /// How long ago it last took a task or made a call with a claim.
    last_seen: Option<f64>,
    running: u64,
    overdue: u64,
    parked: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Owners)]
struct OwnersJson {
    owners: Vec<OwnerJson>,
    left_out: usize,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TagOptions {
    /// At most 1,000; default 100.
    #[param(maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Tag)]
struct TagJson {
    tag: String,
    tasks: u64,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Tags)]
struct TagsJson {
    tags: Vec<TagJson>,
}

/// How many tasks of the sub-queues with this name may be taken, over all tubes with `shared_limits`.
#[derive(Serialize, ToSchema)]
#[schema(as = Limit)]
struct LimitJson {
    name: String,
    most: u32,
    taken: u64,
}

/// A sub-queue whose takes are paused.
#[derive(Serialize, ToSchema)]
#[schema(as = Paused)]
struct PausedJson {
    tube: String,
    name: String,
    resumes_in: Option<f64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Limits)]
struct LimitsJson {
    limits: Vec<LimitJson>,
    paused: Vec<PausedJson>,
}

#[derive(Default, Deserialize, ToSchema)]
#[schema(as = NewLimit)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitFields {
    #[schema(required)]
    most: Option<u32>,
}

/// The store: its durability, its counters since it was opened, and its clocks.
#[utoipa::path(
    get, path = "/v1/store", operation_id = "get_store", tag = "store",
    responses((status = 200, body = StoreJson, content_type = "application/json"), Problems),
)]
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Answer {
    let read_only = shared.read_only;
    shared
        .read(move |store, answers| {
            let admin = store.admin();
            let shown = StoreJson {
                version: env!("CARGO_PKG_VERSION"),
                durability: admin.durability()?.to_string(),
                read_only,
                next_id: admin.next_id()?,
                now: moment::show(record::now(store)?),
                counters: admin.counters()?,
                clock: ClockRecord::new(admin.clock_report()?),
            };
            answers.json(StatusCode::OK, &shown)
        })
        .await
}

/// The failure groups of the buried tasks of all tubes.
#[utoipa::path(
    get, path = "/v1/groups", operation_id = "list_groups", tag = "store", params(Bound),
    responses((status = 200, body = GroupsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn groups(
    State(shared): State<Arc<Shared>>,
    Options(bound): Options<Bound>,
) -> Answer {
    shared
        .read(move |store, answers| {
            let all = store.admin().groups()?.into_iter();
            let all = all.flat_map(|(tube, groups)| {
                groups.into_iter().map(move |group| (tube.clone(), group.name, group.count))
            });
            grouped(answers, &bound, all)
        })
        .await
}

/// The failure groups of the buried tasks of a tube.
#[utoipa::path(
    get, path = "/v1/tubes/{tube}/groups", operation_id = "list_groups_in_tube", tag = "tubes", params(("tube" = String, Path), Bound),
    responses((status = 200, body = GroupsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn groups_in_tube(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(bound): Options<Bound>,
) -> Answer {
    shared
        .read(move |store, answers| {
            let groups = store.find_tube(&name)?.query().groups()?;
            grouped(answers, &bound, groups.into_iter().map(|it| (name.clone(), it.name, it.count)))
        })
        .await
}

fn grouped(
    answers: &Answers,
    bound: &Bound,
    groups: impl Iterator<Item = (String, String, u64)>,
) -> Answer {
    let groups = groups.map(|(tube, name, count)| GroupJson { tube, name, count });
    let mut groups: Vec<GroupJson> = groups.collect();
    // The order of groups with as many tasks stays.
    groups.sort_by_key(|group| Reverse(group.count));
    let left_out = bound.cut(&mut groups)?;
    answers.json(StatusCode::OK, &GroupsJson { groups, left_out })
}

/// The sessions that have tasks, or that have described themselves: workers and clients.
#[utoipa::path(
    get, path = "/v1/owners", operation_id = "list_owners", tag = "store", params(Bound),
    responses((status = 200, body = OwnersJson, content_type = "application/json"), Problems),
)]
pub(super) async fn owners(
    State(shared): State<Arc<Shared>>,
    Options(bound): Options<Bound>,
) -> Answer {
    let mut owners = shared.later.owners().await?;
    let left_out = bound.cut(&mut owners)?;
    let owners = owners.into_iter().map(|it| OwnerJson {
        label: it.label.map(|label| label.to_string()),
        session: it.session.to_string(),
        kind: it.kind.map(|kind| kind.to_string()),
        metadata: it.metadata.map(|metadata| metadata.to_string()),
        since: record::seconds(it.since),
        last_seen: record::seconds(it.last_seen),
        running: it.running,
        overdue: it.overdue,
        parked: it.parked,
    });
    shared.answers.json(StatusCode::OK, &OwnersJson { owners: owners.collect(), left_out })
}

/// The tags that tasks have, those used most first.
#[utoipa::path(
    get, path = "/v1/tags", operation_id = "list_tags", tag = "store", params(TagOptions),
    responses((status = 200, body = TagsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn tags(
    State(shared): State<Arc<Shared>>,
    Options(options): Options<TagOptions>,
) -> Answer {
    let limit = query::limit(options.limit, "tags")?;
    shared
        .read(move |store, answers| {
            let tags = store.tags(None, limit)?.into_iter();
            let tags = tags.map(|it| TagJson { tag: it.tag, tasks: it.tasks }).collect();
            answers.json(StatusCode::OK, &TagsJson { tags })
        })
        .await
}

/// The limits that tubes share, and the sub-queues that are paused.
#[utoipa::path(
    get, path = "/v1/limits", operation_id = "list_limits", tag = "store",
    responses((status = 200, body = LimitsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn limits(State(shared): State<Arc<Shared>>) -> Answer {
    shared
        .read(|store, answers| {
            let limits = store.admin().limits()?.into_iter();
            let limits = limits
                .map(|it| LimitJson { name: it.name, most: it.most, taken: it.taken })
                .collect();
            let mut paused = Vec::new();
            for info in store.tubes()? {
                paused.extend(paused_in(store, &info.name)?);
            }
            answers.json(StatusCode::OK, &LimitsJson { limits, paused })
        })
        .await
}

fn paused_in(store: &Store, name: &str) -> tubewell::Result<Vec<PausedJson>> {
    let paused = store.find_tube(name).and_then(|tube: Tube| tube.query().paused_sub_queues());
    let paused = match paused {
        // It was dropped since, or its driver is unknown here, or has no sub-queues.
        Err(
            tubewell::Error::TubeNotFound { .. }
            | tubewell::Error::TubeDropped { .. }
            | tubewell::Error::DriverUnknown { .. }
            | tubewell::Error::Unsupported { .. },
        ) => return Ok(Vec::new()),
        paused => paused?,
    };
    let json = |it: tubewell::expert::PausedSubQueue| PausedJson {
        tube: name.to_owned(),
        name: it.name,
        resumes_in: record::seconds(it.resumes_in),
    };
    Ok(paused.into_iter().map(json).collect())
}

/// Sets how many tasks of the sub-queues with this name may be taken at a time.
#[utoipa::path(
    put, path = "/v1/limits/{name}", operation_id = "set_limit", tag = "store", params(("name" = String, Path)),
    request_body(content = LimitFields, content_type = "application/json"),
    responses((status = 204, description = "It is set."), Problems),
)]
pub(super) async fn set_limit(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    content: Content,
) -> Answer<Response> {
    let LimitFields { most } = object(&content.bytes)?;
    let most = most.ok_or_else(|| Problem::invalid("most: say how many, as in {\"most\": 3}"))?;
    shared.later.admin().set_limit(&name, most).await?;
    Ok(done())
}

/// Removes a limit that tubes share.
#[utoipa::path(
    delete, path = "/v1/limits/{name}", operation_id = "remove_limit", tag = "store", params(("name" = String, Path)),
    responses((status = 204, description = "It is removed."), Problems),
)]
pub(super) async fn remove_limit(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
) -> Answer<Response> {
    shared.later.admin().remove_limit(&name).await?;
    Ok(done())
}
