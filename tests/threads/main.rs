//! Real threads, nearly always on a real file: nothing is lost, nothing is done twice, nobody
//! overtakes, nobody waits for ever.
//!
//! Nothing here sleeps. A test waits for a state that it can see ([`eventually`](support::eventually)), or in a call
//! with a time limit that is never reached ([`PATIENCE`](support::PATIENCE)), so that what would hang fails instead.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deferred;
mod endings;
mod loss;
mod room;
mod support;
mod waiting;
