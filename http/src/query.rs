//! The conditions and options behind the `?` of a call.

use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use tubewell::{Filter, TaskState};
use utoipa::IntoParams;

use crate::problem::{Answer, Problem};

/// The longest wait of one call. A client that waits longer makes the call again.
const WAIT_MAX: Duration = Duration::from_secs(300);
const HOLD_MIN: Duration = Duration::from_millis(100);
const HOLD_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// The options of a call. A name that it does not have is refused: it may be misspelt.
pub(crate) struct Options<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Options<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Options<T>> {
        if !is_text(parts.uri.query().unwrap_or_default()) {
            return Err(Problem::invalid("an option is no text in UTF-8"));
        }
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(options)) => Ok(Options(options)),
            Err(rejection) => {
                let text = rejection.body_text();
                let what = text.strip_prefix("Failed to deserialize query string: ");
                Err(Problem::invalid(what.unwrap_or(&text)))
            }
        }
    }
}

/// Whether the query, decoded, is UTF-8: the parser would replace what is not.
fn is_text(query: &str) -> bool {
    let mut left = query.as_bytes();
    let mut decoded = Vec::with_capacity(left.len());
    while let Some((byte, rest)) = left.split_first() {
        let digits = rest.get(..2).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        left = if escaped.is_some() { &rest[2..] } else { rest };
    }
    std::str::from_utf8(&decoded).is_ok()
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

/// How long a task is held: not so short that the claim has ended when its client learns of it, and not for ever.
pub(crate) fn hold(text: &str) -> Answer<Duration> {
    let hold = duration("hold", text)?;
    if (HOLD_MIN..=HOLD_MAX).contains(&hold) {
        return Ok(hold);
    }
    Err(Problem::invalid(
        "hold: a task is held for 100 ms to 30 days; renew a claim that is to last longer",
    ))
}

/// The names in a path.
pub(crate) struct Names<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Names<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Names<T>> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(names)) => Ok(Names(names)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// How many items a list has at most.
const LIST_MAX: usize = 1000;
const LIST: usize = 100;

/// How many of these items a list has.
pub(crate) fn limit(given: Option<usize>, items: &str) -> Answer<usize> {
    match given.unwrap_or(LIST) {
        limit @ 1..=LIST_MAX => Ok(limit),
        _ => Err(Problem::invalid(format!("limit: a page has 1 to {LIST_MAX} {items}"))),
    }
}

/// How many items a list has that is read as a whole.
const WHOLE_MAX: usize = 10_000;

/// How many items a list has at most.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Bound {
    /// At most 10,000, which is the default.
    #[param(maximum = 10_000)]
    limit: Option<usize>,
}

impl Bound {
    pub(crate) fn limit(&self) -> Answer<usize> {
        match self.limit.unwrap_or(WHOLE_MAX) {
            limit if limit <= WHOLE_MAX => Ok(limit),
            _ => Err(Problem::invalid(format!("limit: the list has at most {WHOLE_MAX} items"))),
        }
    }

    /// The first items, and how many are left out.
    pub(crate) fn cut<T>(&self, items: &mut Vec<T>) -> Answer<usize> {
        let limit = self.limit()?;
        let left_out = items.len().saturating_sub(limit);
        items.truncate(limit);
        Ok(left_out)
    }
}

/// The conditions that pages and changes of tasks share.
pub(crate) fn conditions(
    state: Option<TaskState>,
    tag: Option<&String>,
    group: Option<&String>,
    owner: Option<&String>,
) -> Filter {
    let mut filter = Filter::new();
    filter = state.into_iter().fold(filter, Filter::state);
    filter = tag.into_iter().fold(filter, Filter::tag);
    filter = group.into_iter().fold(filter, Filter::group);
    owner.into_iter().fold(filter, Filter::owner)
}

/// A word in a path that names what to do.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Answer<T> {
    let word: StrDeserializer<'_, serde::de::value::Error> = text.into_deserializer();
    T::deserialize(word).map_err(|why| {
        Problem::new(StatusCode::NOT_FOUND, "unknown_call", format!("there is no such call: {why}"))
    })
}

/// A field that is there, although it may be null.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// The id of a task in a path.
pub(crate) fn id(text: &str) -> Answer<u64> {
    let id = text.parse().ok().filter(|id: &u64| id.to_string() == text);
    id.ok_or_else(|| Problem::invalid("the id of a task is a number"))
}
