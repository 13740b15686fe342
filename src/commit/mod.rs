//! Edits that are decided but not yet committed, and the calls that share a commit.

mod batch;
mod change;
mod edit_layers;
mod write_buffer;

pub(crate) use batch::{Batch, BatchGuard, LEADER_PANICKED, NextLeader, Outcome, Wakeup};
pub(crate) use change::{Change, Keeping, Visibility};
pub(crate) use edit_layers::{Logged, LoggedRecord};
pub(crate) use write_buffer::{DueCursor, Restore, WriteBuffer};
