//! Edits that are decided but not yet committed, and the calls that share a commit.

mod batch;
mod change;
mod write_buffer;

pub(crate) use batch::{Batch, BatchGuard, LEADER_PANICKED, NextLeader, Outcome, Wakeup};
pub(crate) use change::{Change, Visibility};
pub(crate) use write_buffer::{Logged, Restore, WriteBuffer};
