//! Connections themselves. [`reconnected`], [`half_open`], [`cut`], [`killed`] and [`busy_owner`] are about those that break or whose peer has vanished,
//! processes that are killed, and owners that are busy. [`limits`] is about the size of calls, and [`workers`]
//! about workers whose connection breaks.

use crate::blocking_disk;
use crate::executor;

mod busy_owner;
mod child;
mod cut;
mod half_open;
mod killed;
mod limits;
#[path = "../kill/process.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod process;
mod reconnected;
mod tunnel;
mod workers;

/// The entry point of a child process. Does nothing in the parent.
#[test]
fn child_process_entry() {
    if let Some(job) = process::Job::from_env() {
        child::run(&job);
    }
}
