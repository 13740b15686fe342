//! A change of a task, as it becomes visible: to the statistics, to listeners, to takers.

use tubewell_drivers::{Header, Value};

use crate::{EventKind, State};

/// One step in a task's life.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) tube: u32,
    /// The space at the time of the change: a truncated tube has another one since.
    pub(crate) space: u32,
    pub(crate) id: u64,
    pub(crate) kind: EventKind,
    /// `None` for a task that was not there.
    pub(crate) from: Option<State>,
    pub(crate) to: State,
    /// Unless the task is taken: nobody looks at it then.
    pub(crate) header: Option<Header>,
    /// The row at whose end the body is, where the next taker may use it.
    pub(crate) row: Option<Value>,
    /// A step on the way to another one: nobody may take the task in between.
    pub(crate) intermediate: bool,
}

/// When a change becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// At once: memory alone has changed.
    Memory,
    /// At once; its edits are flushed within this many microseconds.
    Within(u64),
    /// With the commit that holds its edits.
    Flushed,
}
