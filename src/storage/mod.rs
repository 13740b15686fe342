//! The file: named tables of ordered byte rows, read by snapshot and written by whole batches.
//!
//! Everything above this module knows rows only. Nothing outside it names the engine, and no type
//! of the engine leaves it, so that either may change without the other.

mod backend;
mod checksums;
mod copy;
mod engine;
mod failure;
mod first_bytes;
mod foreign;
mod front;
mod journal;
mod layer;
mod lease;
mod medium;
mod platform;
mod room;
mod snapshot;
mod untouched;

pub use backend::Storage;
pub(crate) use copy::copy_to;
pub(crate) use engine::{CommitError, Engine, Footprint};
pub(crate) use layer::{Layer, scan_over};
pub(crate) use snapshot::Snapshot;
