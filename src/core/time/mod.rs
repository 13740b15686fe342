//! Time: what falls due, where the timeline begins, and idle periods.

mod idle;
mod sweep;
mod timeline;

pub(crate) use idle::is_drained;
pub(crate) use timeline::{UNTRUSTED, timeline_of_reader};
