//! Deferred calls that change the parents of a task.

use super::{Deferred, Ticket};
use crate::core::list::RemoveParents;
use crate::{Receipt, Result, Tube};

impl<T> Deferred<T> {
    /// As [`Tube::add_parents`], except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::add_parents`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn add_parents<U>(
        &self,
        id: u64,
        of: &Tube<U>,
        parents: &[u64],
    ) -> Result<Ticket<Receipt>> {
        self.make(&self.tube.add_parents_verb(id, of, parents)?)
    }

    /// As [`Tube::remove_parents`], except that a missing task is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::remove_parents`] that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn remove_parents(&self, id: u64, parents: Option<&[u64]>) -> Result<Ticket<Receipt>> {
        self.make(&RemoveParents { id, parents: parents.map(<[u64]>::to_vec) })
    }
}
