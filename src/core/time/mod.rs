//! Time: what falls due, where the timeline starts, and idle periods.

mod idle;
mod sweep;
mod timeline;

pub(crate) use idle::is_mostly_empty;
pub(crate) use timeline::{UNTRUSTED, timeline_of_reader};
