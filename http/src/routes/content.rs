//! The content of calls: tasks to put, and small objects of JSON.

use std::fmt;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use tubewell::{Failure, Put};
use tubewell_json::put::{self, PutOptions};
use utoipa::ToSchema;

use super::Shared;
use crate::problem::{Answer, Problem};

/// The maximum number of tasks of one call.
const TASKS_MAX: usize = 100_000;
/// The unit in which the content of calls is limited, in bytes.
pub(super) const ROOM_UNIT: usize = 1 << 10;
/// Larger contents need room, and are parsed on a thread that other calls do not wait for.
const QUICK: usize = 64 << 10;
/// The maximum size of an object without a body: 10,000 ids have less.
const OBJECT_MAX: usize = 1 << 20;

/// The failure group of a failure without one.
const UNNAMED: &str = "failed";

/// Why a task has failed.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = FailureReason)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    #[serde(default)]
    group: String,
    #[serde(default)]
    message: String,
}

/// Any bytes: generators of clients know no other type of content that is not JSON.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct Raw(Vec<u8>);

/// The whole content of a call.
pub(super) struct Content {
    pub(super) bytes: Bytes,
    /// Room among the contents of all calls, until the call has ended.
    _room: Option<OwnedSemaphorePermit>,
}

impl FromRequest<Arc<Shared>> for Content {
    type Rejection = Problem;

    async fn from_request(call: Request, shared: &Arc<Shared>) -> Answer<Content> {
        let length = call.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
        let length = length.and_then(|text| text.parse::<u64>().ok());
        if length.is_some_and(|length| length > shared.max_body as u64) {
            return Err(too_large(shared.max_body));
        }
        let read = read_whole(call.into_body(), shared);
        let time = shared.patience.content;
        tokio::time::timeout(time, read).await.unwrap_or_else(|_elapsed| {
            Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "content_late",
                format!("the content of the call did not come within {} s", time.as_secs()),
            ))
        })
    }
}

/// Reads a content into one piece, which takes its room as it grows.
async fn read_whole(mut body: Body, shared: &Shared) -> Answer<Content> {
    let (mut bytes, mut room) = (Vec::new(), None::<OwnedSemaphorePermit>);
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Problem::invalid(format!("the content of the call: {error}")))?;
        let Ok(part) = frame.into_data() else { continue };
        if bytes.len() + part.len() > shared.max_body {
            return Err(too_large(shared.max_body));
        }
        bytes.extend_from_slice(&part);
        // Small contents are always read, so that claims end whatever else clients send.
        let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = (bytes.capacity() / ROOM_UNIT).saturating_sub(held);
        if bytes.len() <= QUICK || needed == 0 {
            continue;
        }
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let Ok(more) = shared.room.clone().try_acquire_many_owned(needed) else {
            let what = "the server holds as much content of calls as it may; try again later";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what));
        };
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
    }
    Ok(Content { bytes: bytes.into(), _room: room })
}

fn too_large(max: usize) -> Problem {
    let what = format!("the call has more content than {max} bytes; send less");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "content_too_large", what)
}

/// Tasks to put, and whether they are a list.
pub(super) type Tasks = (Vec<Put<Vec<u8>>>, bool);

/// The tasks of a call.
pub(super) async fn tasks(shared: &Shared, is_json: bool, content: Bytes) -> Answer<Tasks> {
    if content.len() <= QUICK {
        return read_tasks(is_json, &content);
    }
    shared.read(move |_, _| read_tasks(is_json, &content)).await
}

fn read_tasks(is_json: bool, content: &[u8]) -> Answer<Tasks> {
    if !is_json {
        return Ok((vec![Put::new(content.to_vec())], false));
    }
    let Some(Objects(objects)) = objects(content)? else {
        return Ok((vec![task(content)?], false));
    };
    let tasks = objects.iter().enumerate().map(|(at, object)| {
        let refused = |why| Problem::invalid(format!("task {at} of the list: {why}"));
        let put = put::task(object.get().as_bytes(), &PutOptions::default()).map_err(refused)?;
        put.ok_or_else(|| refused("it is empty".into()))
    });
    Ok((tasks.collect::<Answer<_>>()?, true))
}

/// The objects of a list, or of an object that has the list as `tasks`; `None` of another object.
fn objects(content: &[u8]) -> Answer<Option<Objects<'_>>> {
    let start = content.trim_ascii_start();
    let is_list = start.starts_with(b"[");
    let has_list = start
        .strip_prefix(b"{")
        .is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\"tasks\""));
    let parsed = match (is_list, has_list) {
        (true, _) => serde_json::from_slice(content),
        (_, true) => serde_json::from_slice(content).map(|NewTasks { tasks }| tasks),
        _ => return Ok(None),
    };
    parsed.map(Some).map_err(|error| Problem::invalid(error.to_string()))
}

/// Tasks to put, all or none. A list of them without the object is accepted, too.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewTasks<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<put::Fields<'static>>)]
    tasks: Objects<'a>,
}

/// The objects of a list, which ends where it has too many.
struct Objects<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Objects<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Objects<'a>, D::Error> {
        deserializer.deserialize_seq(ObjectsVisitor).map(Objects)
    }
}

struct ObjectsVisitor;

impl<'de> Visitor<'de> for ObjectsVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tasks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = list.next_element()? {
            if objects.len() == TASKS_MAX {
                let what = format!("a call puts at most {TASKS_MAX} tasks; split the list");
                return Err(A::Error::custom(what));
            }
            objects.push(object);
        }
        Ok(objects)
    }
}

fn task(content: &[u8]) -> Answer<Put<Vec<u8>>> {
    let put = put::task(content, &PutOptions::default()).map_err(Problem::invalid)?;
    put.ok_or_else(|| Problem::invalid("the call has no content; send a JSON object with `data`"))
}

/// Why a task has failed: an object, or a text. `None` if there is no content.
pub(super) fn failure(headers: &HeaderMap, content: &[u8]) -> Answer<Option<Failure>> {
    if content.trim_ascii().is_empty() {
        return Ok(None);
    }
    // What clients send that were told no type.
    let is_form = type_of(headers).is_none_or(|kind| kind == "application/x-www-form-urlencoded");
    let is_object = is_form && content.trim_ascii_start().starts_with(b"{");
    if !is_json(headers) && !is_object {
        let message = String::from_utf8_lossy(content);
        return Ok(Some(Failure::new(UNNAMED, message)));
    }
    if !content.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::invalid("say why as an object: {\"group\": ..., \"message\": ...}"));
    }
    let Why { group, message } = object(content)?;
    if group.is_empty() && message.is_empty() {
        return Ok(None);
    }
    let group = if group.is_empty() { UNNAMED.to_owned() } else { group };
    Ok(Some(Failure::new(group, message)))
}

/// A text.
pub(super) fn text(content: &[u8]) -> Answer<&str> {
    std::str::from_utf8(content).map_err(|_| Problem::invalid("the content is no text in UTF-8"))
}

/// An object of JSON that may have a body in it.
pub(super) async fn large_object<T: DeserializeOwned + Default + Send + 'static>(
    shared: &Shared,
    content: Bytes,
) -> Answer<T> {
    if content.len() <= QUICK {
        return parsed(&content);
    }
    shared.read(move |_, _| parsed(&content)).await
}

/// A small object of JSON, such as options or ids; the default one if there is no content.
pub(super) fn object<T: DeserializeOwned + Default>(content: &[u8]) -> Answer<T> {
    if content.len() > OBJECT_MAX {
        return Err(too_large(OBJECT_MAX));
    }
    parsed(content)
}

fn parsed<T: DeserializeOwned + Default>(content: &[u8]) -> Answer<T> {
    if matches!(content.trim_ascii(), b"" | b"null") {
        return Ok(T::default());
    }
    // The parser would accept a list of the fields, too.
    put::check_object(content).map_err(Problem::invalid)?;
    serde_json::from_slice(content).map_err(|error| Problem::invalid(error.to_string()))
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    type_of(headers).is_some_and(|kind| kind == "application/json")
}

/// The type of the content, without its parameters.
fn type_of(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}
