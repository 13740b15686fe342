//! Schedules: whoever runs when, nobody waits for ever and nobody is forgotten.
//!
//! Built with `--cfg shuttle`, the library takes its locks and threads from a schedule explorer
//! (`src/sync/explored.rs`), which decides at each of them who goes on. Each test here is a story
//! of two to four threads, run under many schedules: half of them chosen at random, half with
//! random priorities and a few changes of them (PCT), which finds what needs few interruptions.
//! A schedule in which everybody sleeps is a failure, and so is an answer that cannot be.
//!
//! Time stands still unless a story moves it: most use a `ManualClock`, those in `time` the
//! sweeper's own thread.
//!
//! ```sh
//! RUSTFLAGS='--cfg shuttle' cargo test --test schedules --target-dir target/shuttle
//! ```
//!
//! * `TUBEWELL_SCHEDULES` is how many schedules each story is run under, from fresh seeds; without
//!   it, a few hundred from seeds that are always the same.
//! * `TUBEWELL_SEED` runs the schedules of one seed.

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod canaries;
mod commits;
mod crowd;
mod endings;
mod explore;
mod pauses;
mod rooms;
mod stage;
mod time;
mod waits;
