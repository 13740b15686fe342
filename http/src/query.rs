//! The conditions and options behind the `?` of a call.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::{Answer, Problem};

/// The longest wait of one call. A client that waits longer makes the call again.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// The options of a call. A name that it does not have is refused: it may be misspelt.
pub(crate) struct Options<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Options<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Options<T>> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(options)) => Ok(Options(options)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// A duration, such as `20s`, or a number of seconds.
pub(crate) fn duration(name: &str, text: &str) -> Answer<Duration> {
    let parsed = match text.parse::<f64>() {
        Ok(seconds) => tubewell_json::duration::from_seconds(seconds),
        Err(_) => tubewell_json::duration::parse(text),
    };
    parsed.map_err(|why| Problem::invalid(format!("{name}: {why}")))
}

/// How long a call may wait; not at all if it does not say.
pub(crate) fn wait(text: Option<&str>) -> Answer<Duration> {
    let wait = text.map(|text| duration("wait", text)).transpose()?.unwrap_or_default();
    if wait <= WAIT_MAX {
        return Ok(wait);
    }
    Err(Problem::invalid(format!(
        "wait: a call waits at most {} s; make it again when it returns",
        WAIT_MAX.as_secs()
    )))
}

/// The id of a task in a path.
pub(crate) fn id(text: &str) -> Answer<u64> {
    text.parse().map_err(|_| Problem::invalid("the id of a task is a number"))
}
