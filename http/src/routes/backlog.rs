//! What waits in the tubes, without their options: short, since a page reads the tubes again and again.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::expert::{Backlog, CallCounts};
use tubewell::{Error, Statistics, Store, TaskCounts, TubeInfo};
use tubewell_json::record::seconds;
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use crate::problem::{Answer, Problems};
use crate::query::{self, Options};

/// Which tubes.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Behind the tube with this name: the `next` of the page before.
    after: Option<String>,
    /// A page of so many tubes, 1000 at most. Without it, all of them.
    #[param(maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Backlogs)]
struct BacklogsJson<'a> {
    tubes: Vec<BacklogJson<'a>>,
    /// What the next page has as `after`; null if there is none.
    next: Option<String>,
}

/// What waits in a tube.
#[derive(Serialize, ToSchema)]
#[schema(as = Backlog)]
struct BacklogJson<'a> {
    // The first field: a client may read the tubes of a part of the answer.
    tube: &'a str,
    driver: &'a str,
    usable: bool,
    paused: bool,
    /// In seconds; null if the pause has no end, or there is none.
    resumes_in: Option<f64>,
    #[schema(value_type = schema::TaskCounts)]
    tasks: TaskCounts,
    calls: MainCalls,
    waiting_takes: u64,
    waiting_puts: u64,
    /// For how many seconds the task has been ready that has been ready for the longest time; null if none is ready.
    oldest_ready: Option<f64>,
}

/// How many changes of these kinds there were since the store was opened.
#[derive(Serialize, ToSchema)]
struct MainCalls {
    put: u64,
    take: u64,
    ack: u64,
    fail: u64,
    lost: u64,
    ttr: u64,
    buried: u64,
}

impl MainCalls {
    fn new(calls: CallCounts) -> MainCalls {
        let CallCounts { put, take, ack, fail, lost, ttr, buried, .. } = calls;
        MainCalls { put, take, ack, fail, lost, ttr, buried }
    }
}

impl<'a> BacklogJson<'a> {
    fn new(info: &'a TubeInfo, counts: &Statistics, waits: &Backlog) -> BacklogJson<'a> {
        BacklogJson {
            tube: &info.name,
            driver: &info.driver,
            usable: info.usable,
            paused: info.paused,
            resumes_in: seconds(info.resumes_in),
            tasks: counts.tasks,
            calls: MainCalls::new(counts.calls),
            waiting_takes: waits.waiting_takes,
            waiting_puts: waits.waiting_puts,
            oldest_ready: seconds(waits.oldest_ready),
        }
    }
}

/// What waits in each tube, by name: tasks by state, calls, and the age of the oldest ready task.
#[utoipa::path(
    get, path = "/v1/backlog", operation_id = "get_backlog", tag = "tubes", params(Page),
    responses((status = 200, body = BacklogsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn backlog(
    State(shared): State<Arc<Shared>>,
    Options(Page { after, limit }): Options<Page>,
) -> Answer {
    let limit = limit.map(|limit| query::limit(Some(limit), "tubes")).transpose()?;
    shared
        .read(move |store, answers| {
            let after = after.unwrap_or_default();
            let (tubes, next) = match limit {
                None => (rest(store, &after)?, None),
                Some(limit) => page(store, &after, limit)?,
            };
            let tubes =
                tubes.iter().map(|(info, counts, waits)| BacklogJson::new(info, counts, waits));
            answers.json(StatusCode::OK, &BacklogsJson { tubes: tubes.collect(), next })
        })
        .await
}

type Waiting = (TubeInfo, Statistics, Backlog);

/// All tubes behind this name.
fn rest(store: &Store, after: &str) -> tubewell::Result<Vec<Waiting>> {
    let (infos, mut counts) = (store.tubes()?, store.statistics()?);
    let waits = store.backlog_after(after, usize::MAX)?;
    let behind = infos.into_iter().filter(|info| info.name.as_str() > after);
    let tubes = behind.map(|info| {
        // A tube that was created in between has nothing.
        let counts = counts.remove(&info.name).unwrap_or_default();
        let waits = waits.get(&info.name).copied().unwrap_or_default();
        (info, counts, waits)
    });
    Ok(tubes.collect())
}

/// The first tubes behind this name, and where the next page begins if there may be more.
fn page(
    store: &Store,
    after: &str,
    limit: usize,
) -> tubewell::Result<(Vec<Waiting>, Option<String>)> {
    let waits = store.backlog_after(after, limit)?;
    let next =
        waits.last_key_value().filter(|_| waits.len() == limit).map(|(last, _)| last.clone());
    let mut tubes = Vec::with_capacity(waits.len());
    for (name, waits) in waits {
        let told = store.find_tube(&name).and_then(|tube| Ok((tube.info()?, tube.statistics()?)));
        match told {
            Ok((info, counts)) => tubes.push((info, counts, waits)),
            // It was dropped since.
            Err(Error::TubeNotFound { .. } | Error::TubeDropped { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((tubes, next))
}
