//! Events as JSON.
#![expect(missing_docs, reason = "docs/command.md documents the fields")]

use serde::Serialize;
use tubewell::expert::EventDetails;
use tubewell::{Event, Progress, TaskState};

use crate::moment;
use crate::record::{Body, FailureRecord};

/// An event, and when it was read: it has no time of its own.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Event))]
pub struct EventRecord<'a> {
    pub at: String,
    pub tube: &'a str,
    pub id: u64,
    pub kind: &'a str,
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::TaskState))]
    pub state: TaskState,
    pub key: Option<&'a str>,
    pub owner: Option<&'a str>,
    pub cause: Option<&'a str>,
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Progress>))]
    pub progress: Option<&'a Progress>,
    pub details: Option<DetailsRecord<'a>>,
    pub missed: u64,
    pub seq: u64,
}

impl<'a> EventRecord<'a> {
    pub fn new(event: &'a Event) -> EventRecord<'a> {
        EventRecord {
            at: moment::show(moment::now()),
            tube: &event.tube,
            id: event.id,
            kind: event.kind.as_str(),
            state: event.state,
            key: event.key.as_deref(),
            owner: event.owner.as_deref(),
            cause: event.cause.as_deref(),
            progress: event.progress.as_ref(),
            details: event.details.as_deref().map(DetailsRecord::new),
            missed: event.missed,
            seq: event.seq,
        }
    }
}

/// The task of an event.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Details))]
pub struct DetailsRecord<'a> {
    pub priority: u32,
    pub tags: &'a [String],
    pub failure: Option<FailureRecord<'a>>,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Body))]
    pub body: Option<Body<'a>>,
}

impl<'a> DetailsRecord<'a> {
    fn new(details: &'a EventDetails) -> DetailsRecord<'a> {
        DetailsRecord {
            priority: details.priority,
            tags: &details.tags,
            failure: details.failure.as_ref().map(FailureRecord::new),
            body: details.body.as_deref().map(Body::new),
        }
    }
}
