//! Takes: tasks for a client, or the end of its wait.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncClaim, AsyncTube, Error, Tube};
use tubewell_json::record::{self, TaskRecord};

use super::content::Content;
use super::{Shared, json};
use crate::claim_text::ClaimText;
use crate::peer::Peer;
use crate::problem::{Answer, Problem};
use crate::query::{self, Names, Options};

/// The maximum number of tasks of one take.
const TAKE_MAX: usize = 1000;
/// A take ends with the task with which it has this many bytes of bodies.
const TAKE_BYTES: usize = 8 << 20;
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
    Names(name): Names<String>,
    Options(options): Options<TakeOptions>,
    Extension(peer): Extension<Peer>,
    // Read, so that the end of the connection is seen behind it.
    _: Content,
) -> Answer {
    let wait = query::wait(options.wait.as_deref())?;
    let hold = options.hold.map(|text| query::hold(&text)).transpose()?;
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
    // A client that goes away ends this call, and with it the place in the line.
    let first = tokio::select! {
        first = shared.wait(tube.take_timeout(wait)) => first?.flatten(),
        () = peer.gone() => None,
    };
    let claims = further(&tube, first, max).await?;
    let mut held = Vec::with_capacity(claims.len());
    for claim in claims {
        match hold_for(&claim, hold).await {
            Ok(()) => held.push(claim),
            // It has ended since: the task was deleted, for example.
            Err(Error::NotTaken { .. } | Error::NotFound { .. }) => {}
            // The other claims are dropped, which releases their tasks.
            Err(error) => return Err(error.into()),
        }
    }
    hand_out(&shared, tube.to_blocking(), held).await
}

/// The first task, and those that a call may have with it.
async fn further(
    tube: &AsyncTube,
    first: Option<AsyncClaim>,
    max: usize,
) -> Answer<Vec<AsyncClaim>> {
    let mut claims: Vec<AsyncClaim> = first.into_iter().collect();
    let mut bytes = claims.iter().map(|claim| claim.body().len()).sum::<usize>();
    while !claims.is_empty() && claims.len() < max && bytes < TAKE_BYTES {
        // The tasks that were taken so far are handed out, whatever becomes of the next one.
        let Ok(Some(claim)) = tube.try_take().await else { break };
        bytes += claim.body().len();
        claims.push(claim);
    }
    Ok(claims)
}

/// Gives a claim an end.
async fn hold_for(claim: &AsyncClaim, hold: Option<Duration>) -> tubewell::Result<()> {
    let needs_end = hold.is_none() && claim.expires_in().await?.is_none();
    match hold.or(needs_end.then_some(HOLD)) {
        Some(hold) => claim.renew(hold).await,
        None => Ok(()),
    }
}

/// Leaves the claims to the session of the server once the answer is written: before, a failure releases them.
async fn hand_out(shared: &Shared, tube: Tube, claims: Vec<AsyncClaim>) -> Answer {
    shared
        .read(move |store| {
            let now = record::now(store)?;
            let mut tasks = Vec::with_capacity(claims.len());
            for claim in &claims {
                match tube.query().task(claim.id()) {
                    Ok(task) => tasks.push((ClaimText::of(claim).to_string(), task)),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let taken = tasks.iter().map(|(claim, task)| {
                Ok(Taken { claim: claim.clone(), task: TaskRecord::new(&tube, task, now)? })
            });
            let tasks = taken.collect::<tubewell::Result<_>>()?;
            let answer = json(StatusCode::OK, &TakenJson { tasks })?;
            for claim in claims {
                let _left_to_the_session = claim.detach();
            }
            Ok(answer)
        })
        .await
}
