//! The path from a decided call to the file: the core's lock, group commit, the sweeper and writer
//! threads, reopening a failed storage, and close.

mod capacity;
mod checkpoint;
mod close;
mod group_commit;
mod inner;
mod leadership;
mod reopen;
mod shrink;
mod sweeper;

pub(crate) use capacity::QueuedCall;
pub(crate) use inner::StoreInner;
