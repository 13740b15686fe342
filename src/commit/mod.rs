//! Edits that are decided but not yet committed, and the calls that share a commit.
//!
//! A store has two write buffers, one over the file and one over the memory of the temporary tubes. The core
//! puts edits and changes into them; the runtime commits them and answers the batch. This folder knows no
//! verbs, and not the lock of the core.

mod batch;
mod change;
mod edit_layers;
mod write_buffer;

pub(crate) use batch::{Batch, BatchGuard, FlushNo, LEADER_PANICKED, NextLeader, Outcome, Wakeup};
pub(crate) use change::{Change, Keeping, Visibility};
pub(crate) use edit_layers::{Logged, LoggedRecord};
pub(crate) use write_buffer::{DueCursor, Restore, WriteBuffer};
