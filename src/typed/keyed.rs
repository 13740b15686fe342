//! Tasks of typed tubes that are put anew by their keys.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::deferred::TypedDeferred;
use crate::{Codec, Put, Receipt, Result, Ticket, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// Puts the task anew that has this key, with a value. As [`Tube::requeue`](crate::Tube::requeue).
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Tube::requeue`](crate::Tube::requeue). Nothing changed.
    pub fn requeue(&self, key: &str, value: &T) -> Result<Receipt> {
        self.tube().requeue(key, self.task(value)?)
    }
}

impl<T: Serialize + DeserializeOwned, C: Codec> TypedDeferred<T, C> {
    /// As [`Deferred::requeue`](crate::Deferred::requeue), with a value.
    ///
    /// # Errors
    /// [`Codec`](crate::Error::Codec) if the value cannot be encoded, and those of
    /// [`Deferred::requeue`](crate::Deferred::requeue). Nothing changed.
    pub fn requeue(&self, key: &str, value: &T) -> Result<Ticket<Receipt>> {
        self.untyped().requeue(key, Put::new(C::encode(value)?))
    }
}
