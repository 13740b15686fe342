//! The ends of parents, and the chores that tell their children.

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

    /// What becomes of a child with this rule.
    pub(crate) fn fate_of_child(self, rule: OnParent, is_blocked: bool) -> ChildFate {
        match (self, rule) {
            (ParentEnd::Done, _) | (_, OnParent::Release) => ChildFate::Freed,
            (ParentEnd::Buried, OnParent::Bury) | (ParentEnd::Gone, _) if is_blocked => {
                ChildFate::Buried
            }
            // If the child is buried, it waits on once it is kicked.
            (ParentEnd::Buried, _) => ChildFate::Waits,
            (ParentEnd::Gone, _) => ChildFate::Freed,
        }
    }

    /// The failure group of a child that is buried.
    pub(crate) fn failure_group(self) -> &'static str {
        if self == ParentEnd::Gone { "parent-gone" } else { "parent-buried" }
    }
}

/// What becomes of a child when a parent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildFate {
    /// It waits for the parent as before.
    Waits,
    /// It no longer waits for the parent.
    Freed,
    /// It is buried. It still waits for the parent if that is buried, too.
    Buried,
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
