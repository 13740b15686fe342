//! What a tube is, what it holds and what happened in it.

use std::time::Duration;

/// The numbers of one tube, exact at the moment they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Tasks by state.
    pub tasks: TaskCounts,
    /// Changes of tasks since the store was opened.
    pub calls: CallCounts,
}

/// Tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCounts {
    /// May be taken.
    pub ready: u64,
    /// Held by sessions.
    pub taken: u64,
    /// Waiting for their time.
    pub delayed: u64,
    /// Set aside.
    pub buried: u64,
    /// The four together.
    pub total: u64,
    /// Gone since the store was opened: acked, deleted, expired.
    pub done: u64,
}

/// Changes of tasks since the store was opened. A call that changed nothing is not counted; one
/// that changed many is counted for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCounts {
    /// Tasks put.
    pub put: u64,
    /// Tasks taken.
    pub take: u64,
    /// Tasks acked.
    pub ack: u64,
    /// Tasks released, by their holder or because a session ended.
    pub release: u64,
    /// Tasks buried.
    pub bury: u64,
    /// Tasks kicked.
    pub kick: u64,
    /// Tasks deleted; those that a ttl removed are among them.
    pub delete: u64,
    /// Holds prolonged by touch.
    pub touch: u64,
    /// Lives that ended.
    pub ttl: u64,
    /// Holds that ended.
    pub ttr: u64,
    /// Delays that ended.
    pub delay: u64,
}

/// A tube as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TubeInfo {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Whether the driver is registered; if not, the tube waits for it.
    pub usable: bool,
    /// Whether its tasks live in memory only.
    pub temporary: bool,
    /// Most tasks in it; 0 without limit.
    pub capacity: u64,
    /// The ttl of tasks that are put without one; `None` for ever.
    pub ttl: Option<Duration>,
    /// The ttr of tasks that are put without one; `None` without limit.
    pub ttr: Option<Duration>,
    /// The priority of tasks that are put without one.
    pub pri: u32,
    /// How many takes wait in it for a task.
    pub waiting: u64,
    /// How many puts wait in it for room.
    pub waiting_puts: u64,
}
