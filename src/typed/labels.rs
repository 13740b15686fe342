//! Tags and listings of typed tubes.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::task::{Cursor, Task, TaskInfo};
use crate::{Codec, Filter, Page, Receipt, Result, Ticket, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Adds tags to a task. As [`Tube::add_tags`](crate::Tube::add_tags).
    ///
    /// # Errors
    /// Those of [`Tube::add_tags`](crate::Tube::add_tags).
    pub fn add_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Receipt> {
        self.tube().add_tags(id, tags)
    }

    /// Removes tags of a task. As [`Tube::remove_tags`](crate::Tube::remove_tags).
    ///
    /// # Errors
    /// Those of [`Tube::remove_tags`](crate::Tube::remove_tags).
    pub fn remove_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Receipt> {
        self.tube().remove_tags(id, tags)
    }

    /// The tasks that meet all conditions of `filter`, a page at a time. As
    /// [`Tube::list`](crate::Tube::list).
    ///
    /// # Errors
    /// Those of [`Tube::list`](crate::Tube::list).
    pub fn list(
        &self,
        filter: impl Into<Filter>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<TaskInfo>> {
        self.tube().list(filter, after, limit)
    }

    /// As [`list`](TypedTube::list), with the bodies as bytes. As
    /// [`Tube::list_bodies`](crate::Tube::list_bodies).
    ///
    /// # Errors
    /// Those of [`Tube::list_bodies`](crate::Tube::list_bodies).
    pub fn list_bodies(
        &self,
        filter: impl Into<Filter>,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Page<Task>> {
        self.tube().list_bodies(filter, after, limit)
    }

    /// The next tasks that takes would get now. As [`Tube::peek_ready`](crate::Tube::peek_ready).
    ///
    /// # Errors
    /// Those of [`Tube::peek_ready`](crate::Tube::peek_ready).
    pub fn peek_ready(&self, count: usize) -> Result<Vec<TaskInfo>> {
        self.tube().peek_ready(count)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::add_tags`](crate::Deferred::add_tags).
    ///
    /// # Errors
    /// Those of [`Deferred::add_tags`](crate::Deferred::add_tags).
    pub fn add_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Ticket<Receipt>> {
        self.untyped().add_tags(id, tags)
    }

    /// As [`Deferred::remove_tags`](crate::Deferred::remove_tags).
    ///
    /// # Errors
    /// Those of [`Deferred::remove_tags`](crate::Deferred::remove_tags).
    pub fn remove_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Ticket<Receipt>> {
        self.untyped().remove_tags(id, tags)
    }
}
