//! The ends of claims.

use std::sync::Arc;
use std::time::Duration;

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
}

/// How a claim ends, or is prolonged.
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
}

/// Ends a claim, or prolongs it.
#[utoipa::path(
    post, path = "/v1/claims/{claim}/{end}", operation_id = "end_claim", tag = "claims",
    params(("claim" = String, Path), ("end" = inline(End), Path), EndOptions),
    request_body(content((Option<content::Why> = "application/json"), (Option<content::Raw> = "application/octet-stream"))),
    responses(
        (status = 200, body = schema::Receipt, content_type = "application/json"),
        (status = 204, description = "It is renewed."), Problems,
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
    let delay = options.delay.map(|text| query::duration("delay", &text)).transpose()?;
    if end == End::Renew {
        let hold = options.hold.as_deref().ok_or_else(|| {
            Problem::invalid("hold: say how long the task is held from now on, as in ?hold=60s")
        })?;
        let hold = query::hold(hold)?;
        claim(&shared, &text).await?.renew(hold).await?;
        return Ok(done());
    }
    if options.hold.is_some() {
        return Err(Problem::invalid("hold: only renew has it; leave it out"));
    }
    let outcome = outcome(end, delay, &headers, &content.bytes)?;
    let receipt = claim(&shared, &text).await?.end(outcome).await?;
    shared.answers.json(StatusCode::OK, &receipt)
}

/// The outcome that a call names.
fn outcome(
    end: End,
    delay: Option<Duration>,
    headers: &HeaderMap,
    content: &[u8],
) -> Answer<Outcome> {
    if delay.is_some() && !matches!(end, End::Release | End::Fail | End::Snooze) {
        let what = "delay: only release, fail and snooze have it; leave it out";
        return Err(Problem::invalid(what));
    }
    Ok(match end {
        End::Ack if content.is_empty() => Outcome::done(),
        End::Ack => Outcome::result(content),
        End::Release | End::Renew => delay.map_or_else(Outcome::release, Outcome::release_in),
        End::Snooze => Outcome::snooze(delay.ok_or_else(|| {
            Problem::invalid("delay: say when the task is ready again, as in ?delay=10m")
        })?),
        End::Fail => {
            let failure = content::failure(headers, content)?
                .ok_or_else(|| Problem::invalid("say why: {\"group\": …, \"message\": …}"))?;
            match delay {
                Some(delay) => Outcome::fail_in(delay, failure),
                None => Outcome::fail(failure),
            }
        }
        End::Bury => Outcome::bury(content::failure(headers, content)?),
    })
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
