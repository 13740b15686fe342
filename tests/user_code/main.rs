//! User code that the store runs: wakers, callbacks, drivers, and the drop of what they own. It may
//! panic, block, call the store or close it. This must not affect other callers and must not
//! deadlock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;

mod callbacks;
mod support;
mod wakers;
