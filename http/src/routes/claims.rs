//! The ends of claims, and what their holders say before.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tubewell::{AsyncClaim, Outcome};
use tubewell_json::schema;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::answers::done;
use super::content::{self, Content};
use crate::claim_text::ClaimText;
use crate::problem::{Answer, Problem, Problems};
use crate::query::{self, Names, Options};

/// What a client says with the end of a claim.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EndOptions {
    /// When the task is ready again, such as `10m`: of `release`, `fail` and `snooze`.
    delay: Option<String>,
    /// How long the task is held from now on: of `renew`.
    hold: Option<String>,
    /// How much is done, in any unit: of `progress`.
    done: Option<u64>,
    /// How much there is to do: of `progress`. 0, the default, if it is not known.
    total: Option<u64>,
}

/// How a claim ends, or what its holder does before.
#[derive(Clone, Copy, Deserialize, PartialEq, ToSchema)]
#[serde(rename_all = "snake_case")]
enum End {
    /// The task is done; the content is its result.
    Ack,
    /// The task is ready again.
    Release,
    /// The attempt has failed; the content says why.
    Fail,
    /// The task is set aside; the content says why.
    Bury,
    /// The task is ready again later, and the attempt does not count.
    Snooze,
    /// The task is held for longer.
    Renew,
    /// The content is the body of the task from now on, and the claim lasts at least the ttr of the task.
    Checkpoint,
    /// Tells how far the work is: `done` of `total`, and a text as the content.
    Progress,
}

/// Ends a claim, prolongs it, or tells how far the work is.
#[utoipa::path(
    post, path = "/v1/claims/{claim}/{end}", operation_id = "end_claim", tag = "claims",
    params(("claim" = String, Path), ("end" = inline(End), Path), EndOptions),
    request_body(content((Option<content::Why> = "application/json"), (Option<content::Raw> = "application/octet-stream"))),
    responses(
        (status = 200, body = schema::Receipt, content_type = "application/json"),
        (status = 204, description = "It is renewed, or the progress is told."), Problems,
    ),
)]
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    Names((text, end)): Names<(String, String)>,
    Options(options): Options<EndOptions>,
    headers: HeaderMap,
    content: Content,
) -> Answer<Response> {
    let end = query::word(&end)?;
    let text = ClaimText::parse(&text)?;
    check(end, &options)?;
    let content = &content.bytes;
    let delay = options.delay.as_deref().map(|text| query::duration("delay", text)).transpose()?;
    let outcome = match end {
        End::Renew => return renew(&shared, &text, &options).await,
        End::Progress => return tell_progress(&shared, &text, &options, content).await,
        End::Checkpoint => return checkpoint(&shared, &text, content).await,
        End::Ack if content.is_empty() => Outcome::done(),
        End::Ack => Outcome::result(content.as_ref()),
        End::Release => delay.map_or_else(Outcome::release, Outcome::release_in),
        End::Snooze => Outcome::snooze(delay.ok_or_else(|| {
            Problem::invalid("delay: say when the task is ready again, as in ?delay=10m")
        })?),
        End::Fail => {
            let failure = content::failure(&headers, content)?
                .ok_or_else(|| Problem::invalid("say why: {\"group\": …, \"message\": …}"))?;
            match delay {
                Some(delay) => Outcome::fail_in(delay, failure),
                None => Outcome::fail(failure),
            }
        }
        End::Bury => Outcome::bury(content::failure(&headers, content)?),
    };
    let receipt = claim(&shared, &text).await?.end(outcome).await?;
    shared.answers.json(StatusCode::OK, &receipt)
}

/// Refuses options of other ends.
fn check(end: End, options: &EndOptions) -> Answer<()> {
    let EndOptions { delay, hold, done, total } = options;
    let what = if delay.is_some() && !matches!(end, End::Release | End::Fail | End::Snooze) {
        "delay: only release, fail and snooze have it; leave it out"
    } else if hold.is_some() && end != End::Renew {
        "hold: only renew has it; leave it out"
    } else if (done.is_some() || total.is_some()) && end != End::Progress {
        "done, total: only progress has them; leave them out"
    } else {
        return Ok(());
    };
    Err(Problem::invalid(what))
}

async fn renew(shared: &Shared, text: &ClaimText, options: &EndOptions) -> Answer {
    let hold = options.hold.as_deref().ok_or_else(|| {
        Problem::invalid("hold: say how long the task is held from now on, as in ?hold=60s")
    })?;
    let hold = query::hold(hold)?;
    claim(shared, text).await?.renew(hold).await?;
    Ok(done())
}

async fn checkpoint(shared: &Shared, text: &ClaimText, content: &[u8]) -> Answer {
    let mut claim = claim(shared, text).await?;
    let left = claim.expires_in().await?;
    let receipt = claim.checkpoint(content).await?;
    // A task without a ttr would be held for ever: the server cannot see that its client has gone.
    if let (Some(left), None) = (left, claim.expires_in().await?) {
        claim.renew(left).await?;
    }
    shared.answers.json(StatusCode::OK, &receipt)
}

/// Tells the numbers, the text, or both.
async fn tell_progress(
    shared: &Shared,
    text: &ClaimText,
    options: &EndOptions,
    given: &[u8],
) -> Answer {
    let words = content::text(given)?;
    if options.done.is_none() && (words.is_empty() || options.total.is_some()) {
        let what =
            "say how much is done, as in ?done=3&total=10, or what the work is at as the content";
        return Err(Problem::invalid(what));
    }
    let claim = claim(shared, text).await?;
    if !words.is_empty() {
        claim.progress_text(words).await?;
    }
    if let Some(so_far) = options.done {
        claim.progress(so_far, options.total.unwrap_or_default()).await?;
    }
    Ok(done())
}

/// The claim, if it has not ended.
async fn claim(shared: &Shared, text: &ClaimText) -> Answer<AsyncClaim> {
    let tube = match &text.worker {
        Some(name) => {
            let worker = shared.workers.of_claim(name).ok_or_else(|| text.ended())?;
            worker.tube(&shared.later.find_tube(&text.tube).await?)?
        }
        None => shared.tube(&text.tube).await?,
    };
    let claim = tube.claimed(text.id).await?;
    if claim.epoch() == text.epoch { Ok(claim) } else { Err(text.ended()) }
}
