//! The ends of parents, and the chores that tell their children.

use tubewell_drivers::More;

use crate::OnParent;
use crate::commit::Visibility;

/// Why a child no longer waits for a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentEnd {
    /// It was acked or resolved.
    Done,
    /// It was buried. A kick may make it ready again.
    Buried,
    /// It was removed before it was done.
    Gone,
}

impl ParentEnd {
    const ALL: [ParentEnd; 3] = [ParentEnd::Done, ParentEnd::Buried, ParentEnd::Gone];

    /// The value of the row that marks the parent.
    pub(in crate::core) fn byte(self) -> u8 {
        match self {
            ParentEnd::Done => b'd',
            ParentEnd::Buried => b'b',
            ParentEnd::Gone => b'g',
        }
    }

    pub(in crate::core) fn from_row(row: &[u8]) -> Option<ParentEnd> {
        ParentEnd::ALL.into_iter().find(|end| [end.byte()] == *row)
    }
}

/// The children of a parent, which are told of its end a step at a time. A row of `meta` marks the
/// parent until all are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chore {
    pub(in crate::core) end: ParentEnd,
    /// The last child that was told.
    pub(in crate::core) after: Option<u64>,
    /// When the changes of the children become visible.
    pub(in crate::core) visibility: Visibility,
}

/// How a record says what its task does when a parent is buried or removed.
pub(in crate::core) fn rule_number(rule: OnParent) -> u32 {
    match rule {
        OnParent::Wait => 0,
        OnParent::Release => More::RELEASE_ON_PARENT,
        OnParent::Bury => More::BURY_ON_PARENT,
    }
}
