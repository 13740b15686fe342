//! What waits in the tubes, without their options: short, since a page reads the tubes again and again.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use tubewell::expert::{Backlog, CallCounts};
use tubewell::{Statistics, TaskCounts, TubeInfo};
use tubewell_json::record::seconds;
use tubewell_json::schema;
use utoipa::ToSchema;

use super::Shared;
use crate::problem::{Answer, Problems};

#[derive(Serialize, ToSchema)]
#[schema(as = Backlogs)]
struct BacklogsJson<'a> {
    tubes: Vec<BacklogJson<'a>>,
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

/// What waits in each tube: tasks by state, calls, and the age of the oldest ready task.
#[utoipa::path(
    get, path = "/v1/backlog", operation_id = "get_backlog", tag = "tubes",
    responses((status = 200, body = BacklogsJson, content_type = "application/json"), Problems),
)]
pub(super) async fn backlog(State(shared): State<Arc<Shared>>) -> Answer {
    shared
        .read(|store, answers| {
            let (infos, counts, waits) = (store.tubes()?, store.statistics()?, store.backlog()?);
            // Those of a tube that was created in between.
            let (no_counts, no_waits) = (Statistics::default(), Backlog::default());
            let tubes = infos.iter().map(|info| {
                let counts = counts.get(&info.name).unwrap_or(&no_counts);
                BacklogJson::new(info, counts, waits.get(&info.name).unwrap_or(&no_waits))
            });
            answers.json(StatusCode::OK, &BacklogsJson { tubes: tubes.collect() })
        })
        .await
}
