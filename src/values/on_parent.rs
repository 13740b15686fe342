//! What a blocked task does when a parent is buried or removed.

use tubewell_drivers::{Header, More};

/// What happens to a task that waits for parents when one of them is buried, or is removed before it
/// is done. [`Put::on_parent`](crate::Put::on_parent) chooses it.
///
/// A parent is removed when its ttl elapses, when its tube is truncated or dropped, or when
/// [`TubeOptions::keep_buried`](crate::TubeOptions::keep_buried) removes it. Deleting a parent that
/// tasks wait for is refused.
///
/// | | a parent is buried | a parent is removed |
/// |---|---|---|
/// | [`Wait`](OnParent::Wait) (default) | the task goes on waiting | the task is buried |
/// | [`Release`](OnParent::Release) | the task no longer waits for it | the task no longer waits for it |
/// | [`Bury`](OnParent::Bury) | the task is buried, and still waits for it | the task is buried |
///
/// The failure group of a task that is buried so is `parent-buried` or `parent-gone`. A buried task
/// keeps its other parents: if they are not done when it is kicked, it is blocked again.
///
/// Its text is `wait`, `release` or `bury`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnParent {
    /// Waits for a buried parent: it can be kicked. Is buried if a parent is removed.
    #[default]
    Wait,
    /// Does not wait for a parent that is buried or removed.
    Release,
    /// Is buried with its parent.
    Bury,
}

impl OnParent {
    /// The rule of a stored task.
    pub(crate) fn of(header: &Header) -> OnParent {
        match header.more.as_ref().map_or(0, |more| more.on_parent) {
            More::RELEASE_ON_PARENT => OnParent::Release,
            More::BURY_ON_PARENT => OnParent::Bury,
            _ => OnParent::Wait,
        }
    }

    /// The number of the rule in the record of a task.
    pub(crate) fn number(self) -> u32 {
        match self {
            OnParent::Wait => 0,
            OnParent::Release => More::RELEASE_ON_PARENT,
            OnParent::Bury => More::BURY_ON_PARENT,
        }
    }
}
