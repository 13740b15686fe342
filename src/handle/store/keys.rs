//! Tasks by their keys.

use super::Store;
use crate::Mode;
use crate::core::list::ByKey;
use crate::values::task::TaskInfo;

impl<M: Mode> Store<M> {
    /// The task that has this [key](crate::Put::key), with its tube; `None` if no task
    /// has it. A task that is done and [kept](crate::TubeOptions::keep_done) has its key.
    ///
    /// If the last change of the task is still to be flushed, the call blocks for that flush, so
    /// that in a tube with durability flush it returns nothing that a crash could undo. In a written
    /// tube it blocks for a write, and returns nothing that a killed process could undo. In a relaxed
    /// tube it does not block, and a crash may undo what it returns. If no task has the key, it blocks
    /// for the flush of changes of flushed tubes that is under way. Otherwise it does not block.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): no key has so many bytes, or none.
    /// [`Corrupt`](crate::Error::Corrupt) if the task is damaged. [`Closed`](crate::Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put(Put::new("to: ann").key("welcome ann"))?.id;
    /// let task = store.by_key("welcome ann")?.unwrap();
    /// assert_eq!((task.tube.as_str(), task.id, task.state), ("mails", id, TaskState::Ready));
    /// assert_eq!(store.by_key("welcome bob")?, None);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn by_key(&self, key: &str) -> M::Answer<Option<TaskInfo>> {
        self.make(ByKey { key: key.into() })
    }
}
