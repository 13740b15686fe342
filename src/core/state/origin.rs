//! What an event says of a change that the change itself does not say.

use std::sync::Arc;

use crate::events::Tags;

/// Where the changes of a task come from. It is forgotten when the last change of the task is visible.
#[derive(Debug, Default)]
pub(in crate::core) struct Origin {
    /// The key of the task.
    pub(in crate::core) key: Option<Arc<str>>,
    /// The tags of the task.
    pub(in crate::core) tags: Option<Tags>,
    /// The label of the session whose claim has ended. No taker gets the task before all its
    /// changes are visible, so there is one at most.
    pub(in crate::core) owner: Option<Arc<str>>,
    /// Why that claim has ended.
    pub(in crate::core) cause: Option<Arc<str>>,
}
