//! Transactions: the application's own tables and calls of the queue, in one commit.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;

#[path = "../io_errors/disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod disk;
#[path = "../common/faults.rs"]
mod faults;
#[path = "../common/faulty_disk.rs"]
mod faulty_disk;

mod all_or_nothing;
mod beside;
mod calls;
mod deletes;
mod files;
mod inside;
mod jobs;
mod kills;
mod metrics;
mod outages;
mod parents;
#[cfg(unix)]
mod peers;
#[path = "../common/size.rs"]
mod size;
mod support;
