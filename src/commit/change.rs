//! A change of a task, as it becomes visible to statistics, subscribers and takers.

use tubewell_drivers::{Header, Value};

use crate::base::tube_no::TubeNo;
use crate::{EventKind, TaskState};

/// One change of a task's state.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) tube: TubeNo,
    /// The tube's space at the time of the change. A truncated tube gets a new space.
    pub(crate) space: u32,
    pub(crate) id: u64,
    pub(crate) kind: EventKind,
    /// `None` for a new task.
    pub(crate) from: Option<TaskState>,
    pub(crate) to: TaskState,
    /// `None` for a task that is taken.
    pub(crate) header: Option<Header>,
    /// The row that ends with the body, if the next taker may use it.
    pub(crate) row: Option<Value>,
    /// Whether the task is kept after the change, for one that is done.
    pub(crate) keeping: Keeping,
    /// Another change of the task follows, in the same call or not yet visible: no taker gets the
    /// task in between.
    pub(crate) is_intermediate: bool,
}

impl Change {
    /// Whether the task comes into the tube, or begins anew there. A schedule is not put; its runs are.
    pub(crate) fn is_put(&self) -> bool {
        let comes = self.from.is_none() || self.kind == EventKind::Replace;
        comes && !self.is_intermediate && !matches!(self.to, TaskState::Done | TaskState::Recurring)
    }
}

/// What a change does to the kept tasks of its tube, those that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keeping {
    #[default]
    Unchanged,
    /// The task is one of them from now on.
    Kept,
    /// The task was one of them, and is removed.
    Forgotten,
}

/// When a change becomes visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// Immediately: the change is in memory only.
    Memory,
    /// Immediately. Its edits are flushed within this many microseconds.
    Within(u64),
    /// Immediately. The caller waits for the write of its edits to the journal; they are flushed
    /// within this many microseconds.
    Written(u64),
    /// With the commit of its edits.
    Flushed,
}
