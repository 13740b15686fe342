//! User code that the store runs: wakers, callbacks, drivers, and the drop of what they own. It may
//! panic, block, call the store or close it. This must not affect other callers and must not
//! deadlock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod callbacks;
mod support;
mod wakers;
