//! Refusals, as problem details (RFC 9457).

use std::collections::BTreeMap;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tubewell::{Error, TaskState};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// The answer to a call that was not carried out.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: String,
    detail: String,
}

/// Its content.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemJson<'a> {
    title: Option<&'a str>,
    status: u16,
    /// The name of the library's error, such as `not_taken`.
    kind: &'a str,
    /// The cause of the refusal, and the way out.
    detail: &'a str,
}

/// The refusals of a call, as the description of the calls has them.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let content =
            ContentBuilder::new().schema(Some(Ref::from_schema_name(ProblemJson::name()))).build();
        let refused = ResponseBuilder::new()
            .description(
                "The call was refused, and has changed nothing, unless the kind is `outcome_unknown` or it changes many tasks: \
                 those before the refused step are changed.",
            )
            .content("application/problem+json", content);
        BTreeMap::from([("default".to_owned(), refused.build().into())])
    }
}

pub(crate) type Answer<T = Response> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Problem {
        Problem { status, kind: kind.into(), detail: detail.into() }
    }

    /// The server ends before the call could be answered.
    pub(crate) fn stopped() -> Problem {
        let what = "the server stops; make the call again when there is a server again";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", what)
    }

    /// The call has something in it that it cannot have.
    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", detail)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem { status: status_of(&error), kind: kind_of(&error), detail: detail_of(&error) }
    }
}

impl Problem {
    /// Its content.
    pub(crate) fn json(&self) -> ProblemJson<'_> {
        ProblemJson {
            title: self.status.canonical_reason(),
            status: self.status.as_u16(),
            kind: &self.kind,
            detail: &self.detail,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = serde_json::to_vec(&self.json()).unwrap_or_default();
        let mut response = (self.status, text).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        // Not for an unknown outcome: the call may have been carried out.
        let is_over_soon = matches!(self.kind.as_str(), "unavailable" | "not_connected");
        if self.status == StatusCode::TOO_MANY_REQUESTS || is_over_soon {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn status_of(error: &Error) -> StatusCode {
    match error {
        Error::NotFound { .. }
        | Error::TubeNotFound { .. }
        | Error::TubeDropped { .. }
        | Error::KeyNotFound { .. } => StatusCode::NOT_FOUND,
        Error::NotTaken { .. }
        | Error::NotBuried { .. }
        | Error::NotReady { .. }
        | Error::NotDone { .. }
        | Error::WrongState { .. }
        | Error::KeyInUse { .. }
        | Error::IdUsed { .. }
        | Error::HasDependents { .. }
        | Error::Cycle { .. }
        | Error::TubeExists { .. }
        | Error::TubeDiffers { .. }
        | Error::TubeBusy { .. } => StatusCode::CONFLICT,
        Error::Invalid { .. }
        | Error::Unsupported { .. }
        | Error::DriverUnknown { .. }
        | Error::Codec { .. } => StatusCode::BAD_REQUEST,
        Error::Full { .. } | Error::Overloaded | Error::OwnerBusy { .. } => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Error::OutcomeUnknown { .. }
        | Error::Unavailable { .. }
        | Error::Stopped { .. }
        | Error::Closed
        | Error::SessionEnded
        | Error::NotConnected { .. }
        | Error::Refused { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Error::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The text of an error names calls of the library: here it names those of HTTP.
fn detail_of(error: &Error) -> String {
    match error {
        Error::KeyInUse { key, id, state } => {
            let advice = match state {
                TaskState::Recurring => "it is a schedule: use another key, or delete the schedule",
                _ => {
                    "use another key, or put with ?on_key=keep or ?on_key=replace; a schedule needs a key of its own"
                }
            };
            format!("key {key:?} is in use by task {id}, which is {state}; {advice}")
        }
        Error::NotFound { id } => {
            format!("task {id} not found: it was removed, or never existed; check the id")
        }
        _ => error.to_string(),
    }
}

/// The name of the error, as JSON writes names: `not_taken`.
fn kind_of(error: &Error) -> String {
    let mut kind = String::new();
    for (at, letter) in error.name().char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            kind.push('_');
        }
        kind.push(letter.to_ascii_lowercase());
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_is_the_name_of_the_error() {
        for (error, kind, status) in [
            (Error::NotTaken { id: 1 }, "not_taken", 409),
            (Error::Overloaded, "overloaded", 429),
            (Error::OutcomeUnknown { why: "x".into() }, "outcome_unknown", 503),
            (Error::DiskFull { path: "x".into() }, "disk_full", 507),
            (Error::TubeNotFound { name: "x".into(), similar: None }, "tube_not_found", 404),
        ] {
            let problem = Problem::from(error);
            assert_eq!((problem.kind.as_str(), problem.status.as_u16()), (kind, status));
        }
    }
}
