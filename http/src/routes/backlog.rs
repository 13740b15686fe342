//! What waits in the tubes, without their options: short, since a page reads the tubes again and again.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::expert::{Backlog, CallCounts};
use tubewell::{TaskCounts, TubeInfo};
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
    /// A page of so many tubes, 1 to 1000. Without it, all of them.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Backlogs)]
struct BacklogsJson<'a> {
    tubes: Vec<BacklogJson<'a>>,
    /// What the next page has as `after`; null if there is none.
    next: Option<&'a str>,
}

/// What waits in a tube.
#[derive(Serialize, ToSchema)]
#[schema(as = Backlog)]
struct BacklogJson<'a> {
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
    fn new(info: &'a TubeInfo, waits: &Backlog) -> BacklogJson<'a> {
        let counts = &waits.statistics;
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
            let (after, limit) = (after.unwrap_or_default(), limit.unwrap_or(usize::MAX));
            let mut waits = store.backlog_after(&after, limit.saturating_add(1))?;
            let has_more = waits.len() > limit;
            if has_more {
                waits.pop_last();
            }
            let next = waits.last_key_value().filter(|_| has_more).map(|(last, _)| last.as_str());
            // A tube that was dropped since has no options, and is left out.
            let infos = store.tubes()?;
            let tubes = infos
                .iter()
                .filter_map(|info| Some(BacklogJson::new(info, waits.get(&info.name)?)));
            answers.json(StatusCode::OK, &BacklogsJson { tubes: tubes.collect(), next })
        })
        .await
}
