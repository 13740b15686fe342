//! Code that callers bring and the store runs: wakers, callbacks, and the drop of what they own. It
//! may panic, call the store it is called by, close it, or wait; nobody else is to feel it, and
//! nobody waits for ever.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod callbacks;
mod support;
mod wakers;
