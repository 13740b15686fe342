//! Calls that do not block a thread, and typed handles: they do what the blocking and untyped calls
//! do.
//!
//! No test sleeps. Time is a manual clock, or a state that must come before a deadline.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
#[path = "../common/stores.rs"]
mod stores;

mod capacity;
mod close;
mod deferred;
mod futures;
mod list;
mod methods;
mod put_wait;
mod refused;
mod stream;
mod support;
mod typed;
