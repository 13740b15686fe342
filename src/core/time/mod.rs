//! Time: what falls due, where the timeline starts, and idle periods.

mod due_kind;
mod idle;
mod sweep;
mod timeline;

pub(in crate::core) use due_kind::DueKind;
pub(crate) use idle::is_mostly_empty;
pub(crate) use timeline::{AHEAD, UNTRUSTED, timeline_of_reader};
