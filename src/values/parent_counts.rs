//! How far the parents of a task are.

/// The parents of a task, counted: how far a batch of tasks is for which another one waits; from
/// [`Query::parent_counts`](crate::Query::parent_counts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ParentCounts {
    /// All of them: the sum of `done`, `failed` and `open`. Not those that
    /// [`remove_parents`](crate::Admin::remove_parents) has removed.
    pub total: u64,
    /// Those that were acked or resolved, and those that were over before the task began to wait. How those have
    /// ended is not known: some may have been removed.
    pub done: u64,
    /// Those that the task waits for no more since they were buried or removed, as
    /// [`OnParent`](crate::OnParent) says. A parent that is kicked after that stays among them.
    pub failed: u64,
    /// Those that the task waits for.
    pub open: u64,
    /// Those of the open ones that are taken.
    pub taken: u64,
    /// Those of the open ones that are buried: the task waits until they are kicked and done.
    pub buried: u64,
}
