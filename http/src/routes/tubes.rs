//! Tubes: which there are, their options, and how many tasks they have.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tubewell::{Store, TaskCounts, TubeInfo, TubeOptions};
use tubewell_json::option_fields::OptionFields;
use tubewell_json::record::TubeRecord;

use super::Shared;
use super::answers::{Answers, done};
use super::content::{Content, object};
use crate::problem::{Answer, Problem};
use crate::query::Names;

/// A tube, with the number of its tasks in each state.
#[derive(Serialize)]
struct TubeJson<'a> {
    #[serde(flatten)]
    tube: TubeRecord<'a>,
    tasks: TaskCounts,
}

impl<'a> TubeJson<'a> {
    fn new(info: &'a TubeInfo, tasks: TaskCounts) -> TubeJson<'a> {
        TubeJson { tube: TubeRecord::new(info, tasks), tasks }
    }
}

/// The driver and the options of a tube.
#[derive(Default, Deserialize)]
struct OpenFields {
    driver: Option<String>,
    #[serde(flatten)]
    options: OptionFields,
}

#[derive(Serialize)]
struct TubesJson<'a> {
    tubes: Vec<TubeJson<'a>>,
}

pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let (tubes, counts) = (shared.later.tubes().await?, shared.later.statistics().await?);
    let tubes = tubes.iter().map(|info| {
        let counts = counts.get(&info.name).map(|counts| counts.tasks).unwrap_or_default();
        TubeJson::new(info, counts)
    });
    shared.answers.json(StatusCode::OK, &TubesJson { tubes: tubes.collect() })
}

pub(super) async fn show(State(shared): State<Arc<Shared>>, Names(name): Names<String>) -> Answer {
    shared.read(move |store, answers| described(store, answers, &name)).await
}

/// Opens the tube with these options, or creates it.
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
    answers.json(StatusCode::OK, &TubeJson::new(&info, counts.tasks))
}
