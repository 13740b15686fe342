//! Deferred calls that change or delete chosen tasks.

use super::{Deferred, Ticket};
use crate::core::distinct_tags;
use crate::core::list::{AddTags, CancelTask, DeleteIf, DeleteMany, RemoveTags, SetPriority};
use crate::{Receipt, Result, TaskState, Update};

impl<T> Deferred<T> {
    /// As [`Tube::set_priority`](crate::Tube::set_priority), except that a missing task is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::set_priority`](crate::Tube::set_priority) that are known before the flush,
    /// and [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn set_priority(&self, id: u64, priority: u32) -> Result<Ticket<Receipt>> {
        self.make(&SetPriority { id, pri: priority })
    }

    /// As [`Tube::update`](crate::Tube::update), except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::update`](crate::Tube::update) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn update(&self, id: u64, update: Update<T>) -> Result<Ticket<Receipt>> {
        self.make(&self.tube.update_verb(id, update)?)
    }

    /// As [`Tube::add_tags`](crate::Tube::add_tags), except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::add_tags`](crate::Tube::add_tags) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn add_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Ticket<Receipt>> {
        self.make(&AddTags { id, tags: distinct_tags(tags) })
    }

    /// As [`Tube::remove_tags`](crate::Tube::remove_tags), except that a refusal is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`add_tags`](Deferred::add_tags).
    pub fn remove_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Ticket<Receipt>> {
        self.make(&RemoveTags { id, tags: distinct_tags(tags) })
    }

    /// As [`Tube::cancel`](crate::Tube::cancel), except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::cancel`](crate::Tube::cancel) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn cancel(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.make(&CancelTask { id })
    }

    /// As [`Tube::delete_if`](crate::Tube::delete_if), except that a refusal is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::delete_if`](crate::Tube::delete_if) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn delete_if(&self, id: u64, states: &[TaskState]) -> Result<Ticket<Receipt>> {
        self.make(&DeleteIf { id, states: states.to_vec() })
    }

    /// As [`Tube::delete_many`](crate::Tube::delete_many). The ticket has the number of deleted
    /// tasks.
    ///
    /// # Errors
    /// Those of [`Tube::delete_many`](crate::Tube::delete_many) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing was deleted.
    pub fn delete_many(&self, ids: &[u64]) -> Result<Ticket<u64>> {
        self.make(&DeleteMany { ids: ids.to_vec() })
    }
}
