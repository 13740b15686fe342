//! The ends of claims.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use tubewell::{AsyncClaim, Outcome};

use super::Shared;
use super::answers::done;
use super::content::{self, Content};
use crate::claim_text::ClaimText;
use crate::problem::{Answer, Problem};
use crate::query::{self, Names, Options};

/// What a client says with the end of a claim.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndOptions {
    delay: Option<String>,
    hold: Option<String>,
}

/// Ends a claim, or prolongs it.
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    Names((text, end)): Names<(String, String)>,
    Options(options): Options<EndOptions>,
    headers: HeaderMap,
    content: Content,
) -> Answer<Response> {
    let text = ClaimText::parse(&text)?;
    let delay = options.delay.map(|text| query::duration("delay", &text)).transpose()?;
    if end == "renew" {
        let hold = options.hold.as_deref().ok_or_else(|| {
            Problem::invalid("hold: say how long the task is held from now on, as in ?hold=60s")
        })?;
        let hold = query::hold(hold)?;
        claim(&shared, &text).await?.renew(hold).await?;
        return Ok(done());
    }
    if options.hold.is_some() {
        return Err(Problem::invalid(format!("hold: {end} has none; leave it out")));
    }
    let outcome = outcome(&end, delay, &headers, &content.bytes)?;
    let Some(outcome) = outcome else { return Err(super::unknown().await) };
    let receipt = claim(&shared, &text).await?.end(outcome).await?;
    shared.answers.json(StatusCode::OK, &receipt)
}

/// The outcome that a call names; `None` if there is no such call.
fn outcome(
    end: &str,
    delay: Option<Duration>,
    headers: &HeaderMap,
    content: &[u8],
) -> Answer<Option<Outcome>> {
    let delayed = ["release", "fail", "snooze"].contains(&end);
    if delay.is_some() && !delayed {
        return Err(Problem::invalid(format!("delay: {end} has none; leave it out")));
    }
    Ok(Some(match end {
        "ack" if content.is_empty() => Outcome::done(),
        "ack" => Outcome::result(content),
        "release" => delay.map_or_else(Outcome::release, Outcome::release_in),
        "snooze" => Outcome::snooze(delay.ok_or_else(|| {
            Problem::invalid("delay: say when the task is ready again, as in ?delay=10m")
        })?),
        "fail" => {
            let failure = content::failure(headers, content)?
                .ok_or_else(|| Problem::invalid("say why: {\"group\": …, \"message\": …}"))?;
            match delay {
                Some(delay) => Outcome::fail_in(delay, failure),
                None => Outcome::fail(failure),
            }
        }
        "bury" => Outcome::bury(content::failure(headers, content)?),
        _ => return Ok(None),
    }))
}

/// The claim, if it has not ended.
async fn claim(shared: &Shared, text: &ClaimText) -> Answer<AsyncClaim> {
    let tube = shared.tube(&text.tube).await?;
    let claim = tube.claimed(text.id).await?;
    if claim.epoch() == text.epoch { Ok(claim) } else { Err(text.ended()) }
}
