//! Tasks of a tube or of all tubes: puts, and pages.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use tubewell::expert::traceparent_of_header;
use tubewell::{Cursor, Error, Filter, OnKey, Put, Receipt, Store, TaskInfo, TaskState, Tube};
use tubewell_json::put::Fields;
use tubewell_json::record::{self, TaskRecord};
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::content::{self, Content};
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// The header of the key with which a put may be made again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// What happens if the key of a task is in use, or its idempotency key was seen.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PutRules {
    /// `reject` (default), `keep` or `replace`.
    #[param(value_type = Option<OnKeyWord>, inline)]
    on_key: Option<OnKey>,
    /// How long the tube remembers the idempotency key, such as `1d`; default an hour.
    unique_for: Option<String>,
}

/// What a put does if a task has its key.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its description is used")]
enum OnKeyWord {
    Reject,
    Keep,
    Replace,
}

/// Which tasks a page has, in which order.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListOptions {
    #[param(value_type = Option<schema::TaskState>, inline)]
    state: Option<TaskState>,
    tag: Option<String>,
    /// The failure group of buried tasks.
    group: Option<String>,
    /// The label of the session that has taken them.
    owner: Option<String>,
    sub_queue: Option<String>,
    #[serde(default)]
    newest_first: bool,
    /// Of one tube and one state only.
    #[serde(default)]
    soonest_first: bool,
    /// The `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Cursor>,
    /// At most 1,000; default 100.
    #[param(maximum = 1000)]
    limit: Option<usize>,
}

/// A page of tasks, without their bodies.
#[derive(Serialize, ToSchema)]
#[schema(as = TaskPage)]
struct PageJson<'a> {
    tasks: Vec<TaskRecord<'a>>,
    /// What the call for the next page has as `after`; null after the last one.
    #[schema(value_type = Option<String>)]
    next: Option<Cursor>,
    /// How many tasks were left out, since their records are damaged.
    damaged: u64,
}

/// The receipts of a list, in its order.
#[derive(Serialize, ToSchema)]
#[schema(as = Receipts)]
struct PutJson<'a> {
    #[schema(value_type = Vec<schema::Receipt>)]
    tasks: &'a [Receipt],
}

/// A task to put, or a list of tasks.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, clippy::large_enum_variant, reason = "only its description is used")]
enum OneOrMany {
    One(Fields<'static>),
    Many(content::NewTasks<'static>),
}

/// What a put returns: of a list, a list.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
enum Stored {
    One(schema::Receipt),
    Many(PutJson<'static>),
}

/// Puts one task, or a list of them, all or none.
///
/// Content of another type than `application/json` is the body of one task, as it is. A list is an object with
/// `tasks`, or the bare list.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/tasks", operation_id = "put_tasks", tag = "tasks",
    params(
        ("tube" = String, Path), PutRules, ("idempotency-key" = Option<String>, Header),
        ("traceparent" = Option<String>, Header, description = "Of W3C trace context; one of another form is ignored."),
    ),
    request_body(content((OneOrMany = "application/json"), (content::Raw = "application/octet-stream"))),
    responses((status = 201, body = Stored, content_type = "application/json"), Problems),
)]
pub(super) async fn put(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(rules): Options<PutRules>,
    headers: HeaderMap,
    content: Content,
) -> Answer {
    let is_json = content::is_json(&headers);
    let (mut tasks, is_list) = content::tasks(&shared, is_json, content.bytes.clone()).await?;
    let key = idempotency_key(&headers)?;
    let trace = headers.get("traceparent").and_then(|text| text.to_str().ok());
    let trace = trace.and_then(traceparent_of_header);
    if key.is_some() && is_list {
        return Err(Problem::invalid(
            "the header is the idempotency key of one task; give each task of the list an idempotency_key",
        ));
    }
    let unique_for =
        rules.unique_for.map(|text| query::duration("unique_for", &text)).transpose()?;
    for task in &mut tasks {
        let mut changed = std::mem::replace(task, Put::new(Vec::new()));
        changed = rules.on_key.into_iter().fold(changed, Put::on_key);
        if key.is_some() && changed.get_idempotency_key().is_some() {
            return Err(Problem::invalid(
                "the task has an idempotency_key, and the call another one in its head; send one of them",
            ));
        }
        changed = key.iter().fold(changed, Put::idempotency_key);
        if changed.get_traceparent().is_none() {
            changed = trace.iter().fold(changed, Put::traceparent);
        }
        // In a list, some tasks may have no key.
        let time = unique_for.filter(|_| !is_list || changed.get_idempotency_key().is_some());
        *task = time.into_iter().fold(changed, Put::unique_for);
    }
    let tube = shared.tube(&name).await?.refuse_when_full();
    if is_list {
        let room = shared.answers.room(tasks.len() * RECEIPT)?;
        let receipts = tube.put_many(tasks).await?;
        return room.json(StatusCode::CREATED, &PutJson { tasks: &receipts });
    }
    let Some(task) = tasks.pop() else { return Err(Problem::invalid("there is no task to put")) };
    shared.answers.json(StatusCode::CREATED, &tube.put(task).await?)
}

/// The maximum size of a receipt in JSON, in bytes.
const RECEIPT: usize = 96;

fn idempotency_key(headers: &HeaderMap) -> Answer<Option<String>> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(Problem::invalid("the call has several idempotency keys; send one"));
    }
    let key = key.to_str().map_err(|_| Problem::invalid("the idempotency key is no text"))?;
    // RFC drafts have it in quotes, and clients leave them out.
    Ok(Some(key.trim_matches('"').to_owned()))
}

/// A page of the tasks of a tube, without their bodies.
#[utoipa::path(
    get, path = "/v1/tubes/{tube}/tasks", operation_id = "list_tasks_in_tube", tag = "tasks", params(("tube" = String, Path), ListOptions),
    responses((status = 200, body = PageJson, content_type = "application/json"), Problems),
)]
pub(super) async fn list_in_tube(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(options): Options<ListOptions>,
) -> Answer {
    page(&shared, Some(name), options).await
}

/// A page of the tasks of all tubes, one tube after the other, without their bodies.
#[utoipa::path(
    get, path = "/v1/tasks", operation_id = "list_tasks", tag = "tasks", params(ListOptions),
    responses((status = 200, body = PageJson, content_type = "application/json"), Problems),
)]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Options(options): Options<ListOptions>,
) -> Answer {
    page(&shared, None, options).await
}

async fn page(shared: &Shared, tube: Option<String>, options: ListOptions) -> Answer {
    let limit = query::limit(options.limit, "tasks")?;
    let ListOptions { state, tag, group, owner, .. } = &options;
    let mut filter = query::conditions(*state, tag.as_ref(), group.as_ref(), owner.as_ref());
    filter = tube.iter().fold(filter, Filter::tube);
    filter = options.sub_queue.iter().fold(filter, Filter::sub_queue);
    filter = if options.newest_first { filter.newest_first() } else { filter };
    filter = if options.soonest_first { filter.soonest_first() } else { filter };
    shared
        .read(move |store, answers| {
            let page = store.list(filter, options.after, limit)?;
            let tubes = tubes_of(store, &page.items)?;
            let now = record::now(store)?;
            let mut tasks = Vec::with_capacity(page.items.len());
            for (info, tube) in page.items.iter().zip(&tubes) {
                let Some(tube) = tube else { continue };
                match TaskRecord::without_body(tube, info, now) {
                    // It has ended since.
                    Err(Error::NotFound { .. } | Error::TubeDropped { .. }) => {}
                    task => tasks.push(task?),
                }
            }
            answers
                .json(StatusCode::OK, &PageJson { tasks, next: page.next, damaged: page.damaged })
        })
        .await
}

/// The tube of each task, which most share with the one before; `None` if it was dropped since.
fn tubes_of(store: &Store, tasks: &[TaskInfo]) -> Answer<Vec<Option<Tube>>> {
    let mut tubes: Vec<Option<Tube>> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let tube = match tubes.last() {
            Some(Some(last)) if last.name() == task.tube => Some(last.clone()),
            _ => match store.find_tube(&task.tube) {
                Err(Error::TubeNotFound { .. }) => None,
                tube => Some(tube?),
            },
        };
        tubes.push(tube);
    }
    Ok(tubes)
}
