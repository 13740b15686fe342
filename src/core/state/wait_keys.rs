//! What calls that wait are found by.

use crate::base::tube_no::TubeNo;

/// What a watch waits for, and its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchKey {
    /// The end of the task with this id.
    Task(u64, u64),
    /// A tube, by its number, that has no ready, taken or delayed task.
    Tube(TubeNo, u64),
    /// A tube that has a task which can be taken.
    Ready(TubeNo, u64),
}

/// A call that waits, of a session. In the order in which the waits of a session end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum SessionWait {
    /// A take, by its arrival.
    Take(u64),
    /// A put, by its arrival and its tube.
    Put(u64, TubeNo),
    Watch(WatchKey),
}
