//! The store's file: named tables of ordered rows of bytes, read by snapshot and written by commit.
//!
//! Invariant: only this folder names redb, except for `src/handle/transact.rs` and the re-export in
//! `src/lib.rs`. Types of redb leave it for transactions of the application only.

mod backend;
mod checksums;
mod commit_error;
mod copy;
mod custom;
mod disk_space;
mod end_mark;
mod engine;
mod failure;
#[cfg(test)]
mod faulty_storage;
mod file_header;
mod generation;
mod journal;
mod journal_record;
mod lock_wait;
mod magic;
mod medium;
mod named_file;
mod overlay;
#[cfg(feature = "redb")]
mod own_tables;
mod platform;
mod read_only;
mod reader;
mod snapshot;
mod unflushed;
mod untyped;

pub use backend::Storage;
pub(crate) use commit_error::{CommitError, FailureCause};
pub(crate) use copy::copy_to;
#[cfg(feature = "redb")]
pub(crate) use engine::EngineTransaction;
pub(crate) use engine::{CACHE, Checkpoint, Engine, Footprint, PRIVATE};
pub(crate) use journal::{Appended, Journal, Turn};
pub(crate) use overlay::{Overlay, scan_back_over, scan_over};
#[cfg(feature = "redb")]
pub(crate) use own_tables::check_name;
pub(crate) use snapshot::Snapshot;
