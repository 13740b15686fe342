//! The subscriptions to events, and what an event says of a change that the change itself does not say.

use std::sync::Arc;

use crate::base::id_map::IdMap;
use crate::events::{Readers, Tags};

/// What events need.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) readers: Readers,
    /// What events say of tasks whose changes are not all visible, besides the changes.
    origins: IdMap<u64, Origin>,
}

impl Events {
    /// What was noted of a task.
    pub(in crate::core) fn origin(&self, id: u64) -> Option<&Origin> {
        self.origins.get(&id)
    }

    /// What was noted of a task, to be changed.
    pub(in crate::core) fn origin_mut(&mut self, id: u64) -> Option<&mut Origin> {
        self.origins.get_mut(&id)
    }

    /// As `origin_mut`, or a new note.
    pub(in crate::core) fn origin_or_new(&mut self, id: u64) -> &mut Origin {
        self.origins.entry(id).or_default()
    }

    /// Forgets what was noted of a task.
    #[inline]
    pub(in crate::core) fn forget(&mut self, id: u64) {
        self.origins.remove(&id);
    }

    /// Whether something is noted of any task.
    #[inline]
    pub(in crate::core) fn has_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    /// The tasks of which something is noted.
    pub(in crate::core) fn tasks(&self) -> impl Iterator<Item = u64> {
        self.origins.keys().copied()
    }
}

/// Where the changes of a task come from. It is forgotten when the last change of the task is visible.
#[derive(Debug, Default)]
pub(in crate::core) struct Origin {
    /// The key of the task.
    pub(in crate::core) key: Option<Arc<str>>,
    /// Its priority, if a filter asks for details.
    pub(in crate::core) priority: Option<u32>,
    /// The tags of the task.
    pub(in crate::core) tags: Option<Tags>,
    /// The label of the session whose claim has ended. No taker gets the task before all its
    /// changes are visible, so there is one at most.
    pub(in crate::core) owner: Option<Arc<str>>,
    /// Why that claim has ended.
    pub(in crate::core) cause: Option<Arc<str>>,
}
