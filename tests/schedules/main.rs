//! Explores thread schedules: in every schedule each call returns, with an allowed answer.
//!
//! With the feature `_shuttle`, the library takes its locks and threads from a schedule explorer
//! (`wire/src/sync/explored.rs`), which decides at each lock operation which thread runs next. Each test
//! is a scenario of a few threads, run under many schedules. Half of the schedules are random. The
//! other half use random priorities that change a few times (PCT), which finds defects that need
//! few preemptions. A schedule in which all threads are blocked is a failure, and so is an answer
//! that is not allowed.
//!
//! Time moves only when a scenario moves it. Most scenarios use a `ManualClock`. The others run the
//! sweeper thread and move the modelled time of the operating system.
//!
//! `disk.rs` is a disk in memory: it shows what a kill and a power cut leave, and its calls fail or
//! block. A store in memory has no journal.
//!
//! ```sh
//! cargo test --features _shuttle --test schedules
//! ```
//!
//! A seed gives 100 schedules; scenarios that take long run under a fifth of them. `TUBEWELL_SEED` runs
//! the schedules of one seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod attempts;
mod capacity;
mod checkpoints;
mod claims;
mod close;
mod commits;
mod concurrent_calls;
mod disk;
mod events;
mod expected_failures;
mod explore;
mod futures;
mod parents;
mod recurring;
mod shrink;
#[path = "../common/size.rs"]
mod size;
mod support;
mod time;
#[cfg(feature = "redb")]
mod transact;
mod waits;
mod workers;
mod written;

use tubewell::explored::begin;
