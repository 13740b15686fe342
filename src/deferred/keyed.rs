//! Deferred calls on tasks by their keys.

use super::Deferred;
use crate::core::PutRequest;
use crate::core::list::Requeue;
use crate::{IntoPut, Receipt, Result, Ticket};

impl<T> Deferred<T> {
    /// As [`Tube::requeue`](crate::Tube::requeue), except that a missing task is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::requeue`](crate::Tube::requeue) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`KeyNotFound`](crate::Error::KeyNotFound): no task has the key; if the end of the task that
    /// had it is still to be flushed, a crash may bring it back.
    pub fn requeue(&self, key: &str, task: impl IntoPut<T>) -> Result<Ticket<Receipt>> {
        self.make(&Requeue { request: PutRequest::requeue(key, self.tube.encode(task)?)? })
    }
}
