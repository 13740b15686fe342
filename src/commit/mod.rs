//! What is decided but not yet committed: edits over an engine, and the calls that share a commit.

mod batch;
mod change;
mod write_buffer;

pub(crate) use batch::{BROKEN_OFF, Batch, BatchGuard, NextLeader, Outcome, Wakeup};
pub(crate) use change::{Change, Visibility};
pub(crate) use write_buffer::WriteBuffer;
