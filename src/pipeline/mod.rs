//! From a decision to the file: the lock, group commit, the threads, failures and the end.

mod capacity;
mod close;
mod group_commit;
mod inner;
mod leadership;
mod reopen;
mod shrink;
mod sweeper;

pub(crate) use capacity::QueuedCall;
pub(crate) use inner::StoreInner;
