//! The JSON of the [tubewell](https://docs.rs/tubewell) task queue: tasks, tubes, schedules and their options, as the
//! command and the HTTP interface have them. `docs/command.md` of the project documents the fields.
//!
//! Times are seconds, with parts of seconds; a time without an end is `"never"` where it may be set, and null where it
//! is told. Moments are texts of RFC 3339. Bytes are a text if they are UTF-8, and otherwise base64 in a field with
//! `_base64` behind its name.
//!
//! This crate is the inside of the two, not a public interface: it may change with every release.
#![forbid(unsafe_code)]
#![expect(
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "the inside of the command and of the HTTP interface"
)]

pub mod check;
pub mod duration;
pub mod event;
pub mod history;
pub mod moment;
pub mod option_fields;
pub mod put;
pub mod record;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod step;
pub mod unique_fields;
