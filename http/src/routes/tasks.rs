//! Tasks: puts, pages, and changes of one task.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tubewell::{
    Cursor, Ending, Error, Filter, OnKey, Put, Receipt, Store, Task, TaskInfo, TaskState, Tube,
};
use tubewell_json::record::{self, OutcomeRecord, TaskRecord};

use super::Shared;
use super::answers::done;
use super::content::{self, Content};
use crate::peer::Peer;
use crate::problem::{Answer, Problem};
use crate::query::{self, Names, Options};

/// The header of the key with which a put may be made again.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The maximum number of tasks of a page.
const PAGE_MAX: usize = 1000;
const PAGE: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutRules {
    on_key: Option<OnKey>,
    unique_for: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListOptions {
    state: Option<TaskState>,
    tag: Option<String>,
    group: Option<String>,
    owner: Option<String>,
    sub_queue: Option<String>,
    #[serde(default)]
    newest_first: bool,
    #[serde(default)]
    soonest_first: bool,
    after: Option<Cursor>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitOptions {
    wait: Option<String>,
}

/// A page of tasks, without their bodies.
#[derive(Serialize)]
struct PageJson<'a> {
    tasks: Vec<TaskRecord<'a>>,
    /// What the call for the next page has as `after`.
    next: Option<Cursor>,
    /// How many tasks were left out, since their records are damaged.
    damaged: u64,
}

#[derive(Serialize)]
struct PutJson<'a> {
    tasks: &'a [Receipt],
}

/// Puts one task, or a list of them, all or none.
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
    if key.is_some() && is_list {
        return Err(Problem::invalid(
            "an idempotency key is that of one task; put the tasks one by one",
        ));
    }
    let unique_for =
        rules.unique_for.map(|text| query::duration("unique_for", &text)).transpose()?;
    for task in &mut tasks {
        let mut changed = std::mem::replace(task, Put::new(Vec::new()));
        changed = rules.on_key.into_iter().fold(changed, Put::on_key);
        changed = key.iter().fold(changed, Put::idempotency_key);
        *task = unique_for.into_iter().fold(changed, Put::unique_for);
    }
    let tube = shared.tube(&name).await?.refuse_when_full();
    if is_list {
        let receipts = tube.put_many(tasks).await?;
        return shared.answers.json(StatusCode::CREATED, &PutJson { tasks: &receipts });
    }
    let Some(task) = tasks.pop() else { return Err(Problem::invalid("there is no task to put")) };
    shared.answers.json(StatusCode::CREATED, &tube.put(task).await?)
}

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

pub(super) async fn list_in_tube(
    State(shared): State<Arc<Shared>>,
    Names(name): Names<String>,
    Options(options): Options<ListOptions>,
) -> Answer {
    page(&shared, Some(name), options).await
}

pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Options(options): Options<ListOptions>,
) -> Answer {
    page(&shared, None, options).await
}

async fn page(shared: &Shared, tube: Option<String>, options: ListOptions) -> Answer {
    let limit = options.limit.unwrap_or(PAGE);
    if limit > PAGE_MAX {
        return Err(Problem::invalid(format!("limit: a page has at most {PAGE_MAX} tasks")));
    }
    let mut filter = Filter::new();
    filter = tube.iter().fold(filter, Filter::tube);
    filter = options.state.into_iter().fold(filter, Filter::state);
    filter = options.tag.iter().fold(filter, Filter::tag);
    filter = options.group.iter().fold(filter, Filter::group);
    filter = options.owner.iter().fold(filter, Filter::owner);
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

pub(super) async fn show(State(shared): State<Arc<Shared>>, Names(id): Names<String>) -> Answer {
    let id = query::id(&id)?;
    shared
        .read(move |store, answers| {
            let tube = tube_of(store, id)?;
            let task: Task = tube.query().task(id)?;
            answers.json(StatusCode::OK, &TaskRecord::new(&tube, &task, record::now(store)?)?)
        })
        .await
}

/// The tube that has the task.
fn tube_of(store: &Store, id: u64) -> Answer<Tube> {
    let found = store.find(id)?.ok_or(Error::NotFound { id })?;
    Ok(store.find_tube(&found.tube)?)
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
) -> Answer<Response> {
    let id = query::id(&id)?;
    let tube = shared.read(move |store, _| tube_of(store, id)).await?;
    tube.to_async().delete(id).await?;
    Ok(done())
}

/// Kicks, buries or cancels a task.
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Names((id, change)): Names<(String, String)>,
    headers: HeaderMap,
    content: Content,
) -> Answer {
    let id = query::id(&id)?;
    if !["kick", "bury", "cancel"].contains(&change.as_str()) {
        return Err(super::unknown().await);
    }
    let tube = shared.read(move |store, _| tube_of(store, id)).await?.to_async();
    let receipt = match change.as_str() {
        "kick" => tube.kick(id).await?,
        "bury" => tube.admin().bury(id, content::failure(&headers, &content.bytes)?).await?,
        _ => tube.cancel(id).await?,
    };
    shared.answers.json(StatusCode::OK, &receipt)
}

/// How a task has ended. Waits for its end if the call says how long.
pub(super) async fn outcome(
    State(shared): State<Arc<Shared>>,
    Names(id): Names<String>,
    Options(options): Options<WaitOptions>,
    Extension(peer): Extension<Peer>,
) -> Answer {
    let (id, wait) = (query::id(&id)?, query::wait(options.wait.as_deref())?);
    let tube = shared.read(move |store, _| tube_of(store, id)).await?;
    let ending = tokio::select! {
        biased;
        () = peer.gone() => None,
        ending = shared.wait(tube.to_async().wait_done(id, wait)) => ending?.flatten(),
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
