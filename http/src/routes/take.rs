//! Takes: tasks for a client, or the end of its wait.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncClaim, Task};
use tubewell_json::record::{self, TaskRecord};

use super::{Shared, json};
use crate::claim_text::ClaimText;
use crate::problem::{Answer, Problem};
use crate::query::{self, Options};

/// The maximum number of tasks of one take.
const TAKE_MAX: usize = 1000;
/// How long a task without a ttr is held in a tube that has one.
const HOLD: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TakeOptions {
    wait: Option<String>,
    hold: Option<String>,
    max: Option<usize>,
}

/// A task, and what its holder names to end the claim.
#[derive(Serialize)]
struct Taken<'a> {
    claim: String,
    #[serde(flatten)]
    task: TaskRecord<'a>,
}

#[derive(Serialize)]
struct TakenJson<'a> {
    tasks: Vec<Taken<'a>>,
}

pub(super) async fn take(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Options(options): Options<TakeOptions>,
) -> Answer {
    let wait = query::wait(options.wait.as_deref())?;
    let hold = options.hold.map(|text| query::duration("hold", &text)).transpose()?;
    let max = options.max.unwrap_or(1);
    if !(1..=TAKE_MAX).contains(&max) {
        return Err(Problem::invalid(format!("max: a take is of 1 to {TAKE_MAX} tasks")));
    }
    let tube = shared.tube(&name).await?;
    if hold.is_none() && tube.info().await?.ttr.is_none() {
        return Err(Problem::invalid(format!(
            "tube {name:?} has no ttr, so a claim would never end if its client is gone; say how long the task \
             is held, as in ?hold=60s"
        )));
    }
    // A client that goes away drops this future, and with it the place in the line.
    let claims = shared.wait(tube.take_many(max, wait)).await?.unwrap_or_default();
    let mut taken = Vec::with_capacity(claims.len());
    for claim in claims {
        taken.push(hand_out(claim, hold).await?);
    }
    let tube = tube.to_blocking();
    shared
        .read(move |store| {
            let now = record::now(store)?;
            let tasks = taken.iter().map(|(claim, task)| {
                let task = TaskRecord::new(&tube, task, now)?;
                Ok(Taken { claim: claim.to_string(), task })
            });
            let tasks = tasks.collect::<tubewell::Result<_>>()?;
            json(StatusCode::OK, &TakenJson { tasks })
        })
        .await
}

/// Leaves the claim to the session of the server, with an end.
async fn hand_out(claim: AsyncClaim, hold: Option<Duration>) -> Answer<(ClaimText, Task)> {
    let needs_end = hold.is_none() && claim.expires_in().await?.is_none();
    if let Some(hold) = hold.or(needs_end.then_some(HOLD)) {
        claim.renew(hold).await?;
    }
    let text = ClaimText::of(&claim);
    Ok((text, claim.detach()))
}
