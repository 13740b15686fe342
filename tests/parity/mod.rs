//! Calls that do not block a thread, and typed handles: they do what the blocking and untyped calls
//! do.
//!
//! No test sleeps. Time is a manual clock, or a state that must come before a deadline.

use crate::blocking_disk;
use crate::executor;

mod capacity;
mod claims_later;
mod close;
mod deferred;
mod futures;
mod list;
mod methods;
mod put_wait;
mod stream;
mod support;
mod typed;
