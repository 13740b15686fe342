//! Events, as server-sent events: what happens in the store, as it happens.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::IntoResponse;
use futures_core::Stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tubewell::{Async, Event, EventKind, Events, Filter};
use tubewell_json::event::EventRecord;
use utoipa::IntoParams;

use super::Shared;
use super::streamed::Message;
use crate::problem::{Answer, Problems};
use crate::query::Options;

/// How many events may wait for a client. Further ones are dropped and counted.
const WAITING: u32 = 1000;
/// The sum of them for all clients. Those that come when there is no room have `FEW` each.
pub(super) const WAITING_IN_ALL: usize = 1_000_000;
const FEW: usize = 50;
/// After how long without an event a comment is sent, so that a client that is gone is noticed.
const COMMENT: Duration = Duration::from_secs(15);
/// What a browser sends that has lost its connection.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventOptions {
    tube: Option<String>,
    key: Option<String>,
    tag: Option<String>,
    owner: Option<String>,
    /// Separated by commas.
    kinds: Option<String>,
}

/// The events that the options ask for, as server-sent events, until the client or the server ends the connection.
///
/// The data of each is an event in JSON. A client that comes back is told by an event `gap` that it has missed some.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "follow_events", tag = "store",
    params(EventOptions, ("last-event-id" = Option<String>, Header)),
    responses((status = 200, body = Message, content_type = "text/event-stream"), Problems),
)]
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Options(options): Options<EventOptions>,
    headers: HeaderMap,
) -> Answer {
    let room = shared.events.clone().try_acquire_many_owned(WAITING).ok();
    let waiting = if room.is_some() { WAITING as usize } else { FEW };
    let events = shared.later.events(filter(&options)?, waiting).await?;
    let mut stopped = shared.stopped.clone();
    let body = EventBody {
        begin: Some(begin(&headers)),
        events,
        stopped: Box::pin(async move {
            let _stops = stopped.wait_for(|stopped| *stopped).await;
        }),
        silence: Box::pin(sleep(COMMENT)),
        _room: room,
    };
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(body)).into_response())
}

fn filter(options: &EventOptions) -> Answer<Filter> {
    let mut filter = options.tube.iter().fold(Filter::new(), Filter::tube);
    filter = options.key.iter().fold(filter, Filter::key);
    filter = options.tag.iter().fold(filter, Filter::tag);
    filter = options.owner.iter().fold(filter, Filter::owner);
    if let Some(kinds) = &options.kinds {
        let kinds = kinds.split(',').map(str::parse::<EventKind>);
        filter = filter.kinds(kinds.collect::<tubewell::Result<Vec<_>>>()?);
    }
    Ok(filter)
}

/// What is sent at once. Events are not kept, so a client that comes back is told that it has missed some.
fn begin(headers: &HeaderMap) -> String {
    match headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse::<u64>().ok()) {
        Some(last) => format!("event: gap\ndata: {{\"after\":{last}}}\n\n"),
        None => ": the events from now on\n\n".to_owned(),
    }
}

struct EventBody {
    begin: Option<String>,
    events: Events<Async>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    silence: Pin<Box<Sleep>>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Stream for EventBody {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(begin) = self.begin.take() {
            return Poll::Ready(Some(Ok(begin.into())));
        }
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let text = match Pin::new(&mut self.events).poll_next(context) {
            Poll::Ready(Some(event)) => message(&event),
            // The store was closed.
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                ":\n\n".to_owned()
            }
        };
        self.silence.set(sleep(COMMENT));
        Poll::Ready(Some(Ok(text.into())))
    }
}

fn message(event: &Event) -> String {
    // A value of texts and numbers is written without an error.
    let data = serde_json::to_string(&EventRecord::new(event)).unwrap_or_default();
    format!("id: {}\ndata: {data}\n\n", event.seq)
}
