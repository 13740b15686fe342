//! Takes: tasks for a client, or the end of its wait.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tubewell::{AsyncClaim, AsyncTube, Error, Outcome, Tube};
use tubewell_json::record::{self, TaskRecord};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::content::Content;
use crate::claim_text::ClaimText;
use crate::peer::Peer;
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// The maximum number of tasks of one take.
const TAKE_MAX: usize = 1000;
/// A take ends with the task with which it has this many bytes of bodies.
const TAKE_BYTES: usize = 8 << 20;
/// How long a task without a ttr is held in a tube that has one.
const HOLD: Duration = Duration::from_secs(60);

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TakeOptions {
    /// How long the call waits for a task, such as `20s`; at most 300 s. Default: not at all.
    wait: Option<String>,
    /// How long the tasks are held, such as `60s`. Default: their ttr.
    hold: Option<String>,
    /// How many tasks at most; default 1.
    #[param(minimum = 1, maximum = 1000)]
    max: Option<usize>,
    /// The name of the worker, which is shown as the end of the owner of its tasks; up to 128 bytes.
    worker: Option<String>,
}

/// A task, and what its holder names to end the claim.
#[derive(Serialize, ToSchema)]
#[schema(as = TakenTask)]
struct Taken<'a> {
    /// What the calls that end the claim name.
    claim: String,
    #[serde(flatten)]
    task: TaskRecord<'a>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TakenTasks)]
struct TakenJson<'a> {
    tasks: Vec<Taken<'a>>,
}

/// Takes tasks, or waits for one.
#[utoipa::path(
    post, path = "/v1/tubes/{tube}/take", operation_id = "take_tasks", tag = "claims", params(("tube" = String, Path), TakeOptions),
    responses((status = 200, body = TakenJson, content_type = "application/json"), Problems),
)]
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
    let worker = match &options.worker {
        Some(name) => Some(shared.workers.of_take(name).await?),
        None => None,
    };
    let tube = match &worker {
        Some(worker) => worker.tube(&tube)?,
        None => tube,
    };
    // A client that goes away ends this call, and with it the place in the line.
    let first = tokio::select! {
        biased;
        () = peer.gone() => None,
        first = shared.wait(tube.take_timeout(wait)) => first?.flatten(),
    };
    let mut taken = Unsent(first.into_iter().collect());
    taken.add_further(&tube, max).await;
    taken.hold(hold).await?;
    hand_out(&shared, tube.to_blocking(), taken, options.worker).await
}

/// Claims of which no client knows. Where they are dropped, their tasks are ready again, and the attempts do not count.
struct Unsent(Vec<AsyncClaim>);

impl Drop for Unsent {
    fn drop(&mut self) {
        for claim in self.0.drain(..) {
            // The change is made at once. What fails is a claim that has ended.
            drop(claim.end(Outcome::snooze(Duration::ZERO)));
        }
    }
}

impl Unsent {
    /// Adds those that a call may have with the first one.
    async fn add_further(&mut self, tube: &AsyncTube, max: usize) {
        let mut bytes = self.0.iter().map(|claim| claim.body().len()).sum::<usize>();
        while !self.0.is_empty() && self.0.len() < max && bytes < TAKE_BYTES {
            // The tasks that were taken so far are handed out, whatever becomes of the next one.
            let Ok(Some(claim)) = tube.try_take().await else { return };
            bytes += claim.body().len();
            self.0.push(claim);
        }
    }

    /// Gives the claims an end. Leaves out those that have ended since: their tasks were deleted, for example.
    async fn hold(&mut self, hold: Option<Duration>) -> Answer<()> {
        let mut at = 0;
        while let Some(claim) = self.0.get(at) {
            match hold_for(claim, hold).await {
                Ok(()) => at += 1,
                Err(Error::NotTaken { .. } | Error::NotFound { .. }) => {
                    let _ended = self.0.remove(at);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Gives a claim an end.
async fn hold_for(claim: &AsyncClaim, hold: Option<Duration>) -> tubewell::Result<()> {
    let needs_end = hold.is_none() && claim.expires_in().await?.is_none();
    match hold.or(needs_end.then_some(HOLD)) {
        Some(hold) => claim.renew(hold).await,
        None => Ok(()),
    }
}

/// Leaves the claims to the session of the server once the answer is written.
async fn hand_out(
    shared: &Shared,
    tube: Tube,
    mut claims: Unsent,
    worker: Option<String>,
) -> Answer {
    shared
        .read(move |store, answers| {
            let now = record::now(store)?;
            let mut tasks = Vec::with_capacity(claims.0.len());
            for claim in &claims.0 {
                match tube.query().task(claim.id()) {
                    Ok(task) => {
                        tasks.push((ClaimText::of(claim, worker.as_deref()).to_string(), task));
                    }
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let taken = tasks.iter().map(|(claim, task)| {
                Ok(Taken { claim: claim.clone(), task: TaskRecord::new(&tube, task, now)? })
            });
            let tasks = taken.collect::<tubewell::Result<_>>()?;
            let answer = answers.json(StatusCode::OK, &TakenJson { tasks })?;
            for claim in claims.0.drain(..) {
                let _left_to_the_session = claim.detach();
            }
            Ok(answer)
        })
        .await
}

#[cfg(test)]
mod tests {
    use tubewell::{Put, Store, TaskState};

    use super::*;

    /// A client that went away, or a failure, would bury tasks with one attempt that nobody has seen.
    #[test]
    fn claims_that_no_client_got_use_up_no_attempt() {
        let store = Store::in_memory().unwrap();
        let jobs = store.tube("jobs").unwrap();
        let id = jobs.put(Put::new("x").max_attempts(1)).unwrap().id;
        let claim = jobs.to_async().try_take().wait().unwrap().unwrap();
        drop(Unsent(vec![claim]));
        let task = jobs.query().task(id).unwrap().info;
        assert_eq!((task.state, task.attempts, task.attempts_left), (TaskState::Ready, 0, Some(1)));
    }
}
