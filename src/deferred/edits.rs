//! Deferred calls that change or delete chosen tasks.

use super::{Deferred, Ticket};
use crate::core::verbs::SetPriority;
use crate::core::{TagEdit, UpdateRequest, Verb, check_tags};
use crate::{Receipt, Result, State, Update};

impl Deferred {
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
    pub fn update(&self, id: u64, update: Update) -> Result<Ticket<Receipt>> {
        let request = UpdateRequest::new(update, self.tube.max_body())?;
        self.defer(Verb::Update { id, request: &request })
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
        self.defer(Verb::EditTags { id, edit: TagEdit::Add(&check_tags(tags)?) })
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
        self.defer(Verb::EditTags { id, edit: TagEdit::Remove(&check_tags(tags)?) })
    }

    /// As [`Tube::cancel`](crate::Tube::cancel), except that a refusal is reported immediately.
    ///
    /// # Errors
    /// Those of [`Tube::cancel`](crate::Tube::cancel) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn cancel(&self, id: u64) -> Result<Ticket<Receipt>> {
        self.defer(Verb::Cancel(id))
    }

    /// As [`Tube::delete_if`](crate::Tube::delete_if), except that a refusal is reported
    /// immediately.
    ///
    /// # Errors
    /// Those of [`Tube::delete_if`](crate::Tube::delete_if) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    /// [`NotFound`](crate::Error::NotFound) as in [`bury`](Deferred::bury).
    pub fn delete_if(&self, id: u64, states: &[State]) -> Result<Ticket<Receipt>> {
        self.defer(Verb::DeleteIf { id, states })
    }

    /// As [`Tube::delete_many`](crate::Tube::delete_many). The ticket has the number of deleted
    /// tasks.
    ///
    /// # Errors
    /// Those of [`Tube::delete_many`](crate::Tube::delete_many) that are known before the flush, and
    /// [`Overloaded`](crate::Error::Overloaded). Nothing was deleted.
    pub fn delete_many(&self, ids: &[u64]) -> Result<Ticket<u64>> {
        self.defer(Verb::DeleteMany(ids))
    }
}
