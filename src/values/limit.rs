//! What callers see of limits.

use std::time::Duration;

/// A limit of the store, which the tubes with [`shared_limits`](crate::TubeOptions::shared_limits) have
/// in common. [`StoreAdmin::limits`](crate::expert::StoreAdmin::limits) returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Limit {
    /// Its name, which is that of sub-queues.
    pub name: String,
    /// How many tasks of the sub-queues with this name may be taken at a time.
    pub most: u32,
    /// How many are taken. It is above `most` if the limit was lowered since.
    pub taken: u64,
}

/// A paused sub-queue. [`Query::paused_sub_queues`](crate::Query::paused_sub_queues) returns it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct PausedSubQueue {
    /// Its name; empty for the tasks without a sub-queue.
    pub name: String,
    /// The time until the pause ends; `None` for a pause without an end.
    pub resumes_in: Option<Duration>,
}
