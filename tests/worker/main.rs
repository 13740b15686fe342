//! Workers: what becomes of a task when its handler returns, and when a worker stops.
//!
//! Most tests run in three forms: on threads, as a future that polls its handlers, and as a future
//! that hands them to threads. The first line above a test names the cases of the other job systems
//! that it covers, as in `tests/jobs`. All stores have a clock that only the test moves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod support;

mod errors;
mod futures;
mod idle;
mod limits;
mod order;
mod refused;
mod retries;
mod returns;
mod steps;
mod stop;
mod waits;
