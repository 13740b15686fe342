//! A task: how it stands, what has happened to it, its changes, and how it has ended.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncTube, Bytes, Ending, Error, Filter, Outcome, Receipt, Store, Tube, Update};
use tubewell_json::history::EntryRecord;
use tubewell_json::put;
use tubewell_json::record::{self, OutcomeRecord, TaskRecord, Time};
use tubewell_json::schema;
use tubewell_json::step::StepRecord;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answers::done;
use super::content::{self, Content};
use super::selected::{Changed, target};
use crate::peer::Peer;
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Bound, Names, Options};

/// The maximum number of tasks that `relations` looks up in each direction.
const RELATIONS_MAX: usize = 200;

/// What a call does to a task.
#[derive(Clone, Copy, Deserialize, PartialEq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum OneChange {
    /// Makes a buried task ready. A delayed one is made ready now by a change of its `delay` to 0.
    Kick,
    /// Sets the task aside; the content says why, as for `fail` of a claim.
    Bury,
    /// Removes a task that has not begun.
    Cancel,
    /// Finishes a task that no worker has; the content is its result.
    Resolve,
    /// Removes a task that is done and kept.
    Forget,
    /// Adds an entry with the content as its text to the history.
    Log,
    /// Ends the claim on the task; the attempt counts.
    Release,
    /// Ends the claim on the task; the attempt does not count.
    Revoke,
    /// Moves the task to the tube `to`, in its state.
    Move,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ChangeOptions {
    /// The tube to which the task moves.
    to: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitOptions {
    /// How long the call waits for the end, such as `30s`; at most 300 s.
    wait: Option<String>,
}

/// Changes of a task; what is left out stays.
#[derive(Default, Deserialize, PartialEq, ToSchema)]
#[schema(as = TaskUpdate)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateFields {
    priority: Option<u32>,
    /// From now on: seconds, or a text such as `10m`.
    delay: Option<Time>,
    /// A moment before which it is not ready; null removes it.
    #[serde(default, deserialize_with = "query::given")]
    #[schema(value_type = Option<String>)]
    not_before: Option<Option<String>>,
    tags: Option<Vec<String>>,
    data: Option<String>,
    data_base64: Option<String>,
}

/// A change of claims and a move tell how many tasks they have changed: 1, or 0 if there was nothing to change.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum ChangedOne {
    #[schema(value_type = schema::Receipt)]
    Task(Receipt),
    Count(Changed),
}

impl From<Receipt> for ChangedOne {
    fn from(receipt: Receipt) -> ChangedOne {
        ChangedOne::Task(receipt)
    }
}

impl From<Changed> for ChangedOne {
    fn from(changed: Changed) -> ChangedOne {
        ChangedOne::Count(changed)
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = History)]
struct HistoryJson<'a> {
    entries: Vec<EntryRecord<'a>>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Steps)]
struct StepsJson<'a> {
    steps: Vec<StepRecord<'a>>,
    left_out: usize,
}

/// A task that another one waits for, or that waits for it.
#[derive(Serialize, ToSchema)]
struct Relation {
    id: u64,
    tube: String,
    state: &'static str,
    key: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Relations)]
struct RelationsJson {
    /// The tasks that it waits for.
    parents: Vec<Relation>,
    /// The tasks that wait for it.
    children: Vec<Relation>,
    parents_left_out: usize,
    children_left_out: usize,
}

/// A task with its body, in whichever tube it is.
#[utoipa::path(
    get, path = "/v1/tasks/{id}", operation_id = "get_task", tag = "tasks", params(("id" = u64, Path)),
    responses((status = 200, body = TaskRecord, content_type = "application/json"), Problems),
)]
pub(super) async fn show(State(shared): State<Arc<Shared>>, Names(id): Names<String>) -> Answer {
    let id = query::id(&id)?;
    shared
        .read(move |store, answers| {
            let tube = tube_of(store, id)?;
            let task = tube.query().task(id)?;
            answers.json(StatusCode::OK, &TaskRecord::new(&tube, &task, record::now(store)?)?)
        })
        .await
}

/// The task that has the key, without its body, in whichever tube it is.
#[utoipa::path(
    get, path = "/v1/keys/{key}", operation_id = "get_task_by_key", tag = "tasks", params(("key" = String, Path)),
    responses((status = 200, body = TaskRecord, content_type = "application/json"), Problems),
)]
pub(super) async fn by_key(State(shared): State<Arc<Shared>>, Names(key): Names<String>) -> Answer {
    shared
        .read(move |store, answers| {
            let task = store.by_key(&key)?.ok_or(Error::KeyNotFound { key })?;
            let tube = store.find_tube(&task.tube)?;
            let record = TaskRecord::without_body(&tube, &task, record::now(store)?)?;
            answers.json(StatusCode::OK, &record)
        })
        .await
}

/// The tube that has the task.
fn tube_of(store: &Store, id: u64) -> Answer<Tube> {
    let found = store.find(id)?.ok_or(Error::NotFound { id })?;
    Ok(store.find_tube(&found.tube)?)
}

/// The same, for changes and waits.
async fn find_tube_of(shared: &Shared, id: u64) -> Answer<AsyncTube> {
    Ok(shared.read(move |store, _| tube_of(store, id)).await?.to_async())
}

/// Deletes a task, in any state.
#[utoipa::path(
    delete, path = "/v1/tasks/{id}", operation_id = "delete_task", tag = "tasks", params(("id" = u64, Path)),
    responses((status = 204, description = "It is deleted."), Problems),
)]
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
) -> Answer<Response> {
    let id = query::id(&id)?;
    find_tube_of(&shared, id).await?.delete(id).await?;
    Ok(done())
}

/// Changes the priority, the delay, the tags or the body of a task.
///
/// A priority alone is changed in every state, the others if no worker has the task.
#[utoipa::path(
    patch, path = "/v1/tasks/{id}", operation_id = "update_task", tag = "tasks", params(("id" = u64, Path)),
    request_body(content = UpdateFields, content_type = "application/json"),
    responses((status = 200, body = schema::Receipt, content_type = "application/json"), Problems),
)]
pub(super) async fn update(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
    content: Content,
) -> Answer {
    let id = query::id(&id)?;
    let fields: UpdateFields = content::large_object(&shared, content.bytes.clone()).await?;
    if fields == UpdateFields::default() {
        return Err(Problem::invalid(
            "say what to change: priority, delay, not_before, tags, data or data_base64",
        ));
    }
    let tube = find_tube_of(&shared, id).await?;
    let receipt = match fields.priority.filter(|_| fields.is_priority_only()) {
        Some(priority) => tube.admin().set_priority(id, priority).await?,
        None => tube.update(id, fields.update().map_err(Problem::invalid)?).await?,
    };
    shared.answers.json(StatusCode::OK, &receipt)
}

impl UpdateFields {
    fn is_priority_only(&self) -> bool {
        let UpdateFields { priority: _, delay, not_before, tags, data, data_base64 } = self;
        let has_body = data.is_some() || data_base64.is_some();
        !has_body && delay.is_none() && not_before.is_none() && tags.is_none()
    }

    fn update(self) -> Result<Update<Bytes>, String> {
        let UpdateFields { priority, delay, not_before, tags, data, data_base64 } = self;
        let mut update = Update::new();
        update = priority.into_iter().fold(update, Update::priority);
        update = put::time("delay", delay)?.into_iter().fold(update, Update::delay);
        if let Some(moment) = not_before {
            update = update.not_before(put::not_before(moment)?);
        }
        update = tags.into_iter().fold(update, Update::tags);
        let body = record::bytes("data", data.map(Into::into), data_base64.map(Into::into))?;
        Ok(body.into_iter().fold(update, Update::body))
    }
}

/// Kicks, buries, cancels, resolves, forgets, releases, revokes or moves a task, or adds a note to its history.
#[utoipa::path(
    post, path = "/v1/tasks/{id}/{change}", operation_id = "change_task", tag = "tasks",
    params(("id" = u64, Path), ("change" = inline(OneChange), Path), ChangeOptions),
    request_body(content((Option<content::Why> = "application/json"), (Option<content::Raw> = "application/octet-stream"))),
    responses((status = 200, body = ChangedOne, content_type = "application/json"), Problems),
)]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Names((id, change)): Names<(String, String)>,
    Options(options): Options<ChangeOptions>,
    headers: HeaderMap,
    content: Content,
) -> Answer {
    let change = query::word(&change)?;
    let id = query::id(&id)?;
    let to = target(&shared, options.to.as_deref(), change == OneChange::Move).await?;
    let tube = find_tube_of(&shared, id).await?;
    let changed = change_one(&tube, id, change, to.as_ref(), (&headers, &content.bytes)).await?;
    shared.answers.json(StatusCode::OK, &changed)
}

async fn change_one(
    tube: &AsyncTube,
    id: u64,
    change: OneChange,
    to: Option<&AsyncTube>,
    (headers, content): (&HeaderMap, &[u8]),
) -> Answer<ChangedOne> {
    let admin = tube.admin();
    Ok(match change {
        OneChange::Kick => tube.kick(id).await?,
        OneChange::Bury => admin.bury(id, content::failure(headers, content)?).await?,
        OneChange::Cancel => tube.cancel(id).await?,
        OneChange::Resolve if content.is_empty() => admin.resolve(id, Outcome::done()).await?,
        OneChange::Resolve => admin.resolve(id, Outcome::result(content)).await?,
        OneChange::Forget => admin.forget(id).await?,
        OneChange::Log => admin.log(id, content::text(content)?).await?,
        OneChange::Release => return Ok(Changed { changed: admin.release(id).await? }.into()),
        OneChange::Revoke => return Ok(Changed { changed: admin.revoke(id).await? }.into()),
        OneChange::Move => {
            let changed = admin.move_to(to.unwrap_or(tube), Filter::from(id)).await?;
            return Ok(Changed { changed }.into());
        }
    }
    .into())
}

/// How a task has ended. Waits for its end if the call says how long.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/outcome", operation_id = "get_outcome", tag = "tasks",
    params(("id" = u64, Path), WaitOptions),
    responses((status = 200, body = OutcomeRecord, content_type = "application/json"), Problems),
)]
pub(super) async fn outcome(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
    Options(options): Options<WaitOptions>,
    Extension(peer): Extension<Peer>,
) -> Answer {
    let (id, wait) = (query::id(&id)?, query::wait(options.wait.as_deref())?);
    let tube = find_tube_of(&shared, id).await?;
    let ending = tokio::select! {
        biased;
        () = peer.gone() => None,
        ending = shared.wait(tube.wait_done(id, wait)) => match ending? {
            Some(ending) => ending,
            None => return Err(Problem::stopped()),
        },
    };
    let Some(ending) = ending else {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "not_ended",
            format!("task {id} has not ended; wait for it with ?wait=30s, or ask again"),
        ));
    };
    let Some(outcome) = OutcomeRecord::new(id, tube.name(), &ending) else {
        let (kind, what) = match ending {
            Ending::Deleted => ("deleted", "was deleted or cancelled"),
            Ending::Expired => ("expired", "has expired"),
            _ => {
                ("not_kept", "has ended, and its tube keeps nothing of it; one with keep_done does")
            }
        };
        return Err(Problem::new(StatusCode::GONE, kind, format!("task {id} {what}")));
    };
    shared.answers.json(StatusCode::OK, &outcome)
}

/// What has happened to a task, if its tube keeps a history.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/history", operation_id = "list_history", tag = "tasks", params(("id" = u64, Path)),
    responses((status = 200, body = HistoryJson, content_type = "application/json"), Problems),
)]
pub(super) async fn history(State(shared): State<Arc<Shared>>, Names(id): Names<String>) -> Answer {
    let id = query::id(&id)?;
    shared
        .read(move |store, answers| {
            let entries = tube_of(store, id)?.query().history(id)?;
            let entries = entries.iter().map(EntryRecord::new).collect();
            answers.json(StatusCode::OK, &HistoryJson { entries })
        })
        .await
}

/// The steps that a task has stored.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/steps", operation_id = "list_steps", tag = "tasks", params(("id" = u64, Path), Bound),
    responses((status = 200, body = StepsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn steps(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
    Options(bound): Options<Bound>,
) -> Answer {
    let id = query::id(&id)?;
    shared
        .read(move |store, answers| {
            let (steps, left_out) = tube_of(store, id)?.query().first_steps(id, bound.limit()?)?;
            let steps = steps.iter().map(StepRecord::new).collect();
            answers.json(StatusCode::OK, &StepsJson { steps, left_out })
        })
        .await
}

/// The tasks that a task waits for, and those that wait for it: up to 200 of each.
#[utoipa::path(
    get, path = "/v1/tasks/{id}/relations", operation_id = "list_relations", tag = "tasks", params(("id" = u64, Path)),
    responses((status = 200, body = RelationsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn relations(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
) -> Answer {
    let id = query::id(&id)?;
    shared
        .read(move |store, answers| {
            let tube = tube_of(store, id)?;
            let (parents, children) = (tube.query().parents(id)?, tube.query().children(id)?);
            let relations = RelationsJson {
                parents_left_out: parents.len().saturating_sub(RELATIONS_MAX),
                children_left_out: children.len().saturating_sub(RELATIONS_MAX),
                parents: related(store, &tube, &parents)?,
                children: related(store, &tube, &children)?,
            };
            answers.json(StatusCode::OK, &relations)
        })
        .await
}

/// The first ones of these tasks. Leaves out those that have ended since, and are not kept.
fn related(store: &Store, near: &Tube, ids: &[u64]) -> Answer<Vec<Relation>> {
    let mut related = Vec::new();
    let mut near = near.clone();
    for id in ids.iter().take(RELATIONS_MAX) {
        // Most are in the tube of the one before. A search reads all tubes.
        let task = match near.query().task_info(*id) {
            Ok(task) => task,
            Err(Error::NotFound { .. } | Error::TubeDropped { .. }) => match store.find(*id)? {
                Some(found) => found,
                None => continue,
            },
            Err(error) => return Err(error.into()),
        };
        if task.tube != near.name() {
            match store.find_tube(&task.tube) {
                Ok(tube) => near = tube,
                Err(Error::TubeNotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        let (tube, state) = (task.tube, task.state.as_str());
        related.push(Relation { id: *id, tube, state, key: task.key });
    }
    Ok(related)
}
