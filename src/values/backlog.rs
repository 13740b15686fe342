//! What waits in a tube.

use std::time::Duration;

use crate::Statistics;

/// What waits in a tube: tasks, calls, and the task that has been ready for the longest time; from
/// [`Store::backlog`](crate::Store::backlog).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Backlog {
    /// Its tasks by state, and what was done with them, at the same moment.
    pub statistics: Statistics,
    /// Takes that wait for a task.
    pub waiting_takes: u64,
    /// Puts that wait for space in the tube.
    pub waiting_puts: u64,
    /// How long the task has been ready that has been ready for the longest time, of those that were looked at;
    /// `None` if no task is ready, or if the reads found none of those that are.
    pub oldest_ready: Option<Duration>,
}
