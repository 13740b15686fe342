//! The path from a decided call to the file: the core's lock, group commit, the sweeper and writer
//! threads, reopening a failed storage, and close.
//!
//! It knows what a call waits for, and not what the call does to a task: the core decides that. The handles
//! and the server reach an open store through [`open_store`]; its threads are those of this folder.

mod after_call;
mod capacity;
mod checkpoint;
mod close;
mod core_lock;
mod group_commit;
mod in_transaction;
mod inner;
mod leadership;
mod line;
pub(crate) mod open_store;
mod reopen;
mod shrink;
mod sweeper;
#[cfg(feature = "redb")]
mod transact;
pub(crate) mod when_full;

pub(crate) use capacity::CallInLine;
pub(crate) use inner::StoreInner;
pub(crate) use line::{Given, LineSlot};
