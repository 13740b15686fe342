//! The codec of a handle.

use std::sync::Arc;

use super::kind::{JsonOfKind, OfKind};
use super::{Bytes, Codec, Json};
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How a handle makes values of bodies.
pub enum Coder<T: 'static> {
    /// `T` is `Bytes`, which no codec copies.
    Same(&'static Same<T>),
    /// A codec without fields: cloning it counts no reference.
    Static(&'static dyn Codec<T>),
    Shared(Arc<dyn Codec<T>>),
    /// The bodies of one kind, in JSON.
    Kind(Arc<dyn OfKind<T>>),
}

/// The identity, for `T` = `Bytes`.
pub struct Same<T> {
    value: fn(Bytes) -> T,
    bytes: fn(&T) -> &Bytes,
}

static BYTES: Same<Bytes> = Same { value: |bytes| bytes, bytes: |value| value };

/// A value, and its body unless the value has it.
pub(crate) type Decoded<T> = (T, Option<Bytes>);

impl Coder<Bytes> {
    pub(crate) const BYTES: Coder<Bytes> = Coder::Same(&BYTES);
}

impl<T: Serialize + DeserializeOwned> Coder<T> {
    pub(crate) fn json() -> Coder<T> {
        Coder::Static(&Json)
    }

    pub(crate) fn of_kind(kind: Arc<str>) -> Coder<T> {
        Coder::Kind(Arc::new(JsonOfKind(kind)))
    }
}

impl<T> Coder<T> {
    pub(crate) fn new(codec: impl Codec<T>) -> Coder<T> {
        Coder::Shared(Arc::new(codec))
    }

    /// Whether values are their bodies.
    #[inline]
    pub(crate) fn is_identity(&self) -> bool {
        matches!(self, Coder::Same(_))
    }

    /// The kind of its bodies, if it has one kind only.
    pub(crate) fn kind(&self) -> Option<&Arc<str>> {
        match self {
            Coder::Kind(codec) => Some(codec.kind()),
            Coder::Same(_) | Coder::Static(_) | Coder::Shared(_) => None,
        }
    }

    pub(crate) fn encode(&self, value: &T) -> Result<Vec<u8>> {
        let encoded = match self {
            Coder::Same(same) => return Ok((same.bytes)(value).to_vec()),
            Coder::Static(codec) => codec.encode(value),
            Coder::Shared(codec) => codec.encode(value),
            Coder::Kind(codec) => codec.encode(value),
        };
        encoded.map_err(|error| self.error(&*error))
    }

    /// Gives the body back with the error if it cannot be decoded.
    #[inline]
    pub(crate) fn decode(&self, body: Bytes) -> Result<Decoded<T>, (Bytes, Error)> {
        let decoded = match self {
            Coder::Same(same) => return Ok(((same.value)(body), None)),
            Coder::Static(codec) => codec.decode(&body),
            Coder::Shared(codec) => codec.decode(&body),
            Coder::Kind(codec) => codec.decode(&body),
        };
        match decoded {
            Ok(value) => Ok((value, Some(body))),
            Err(error) => {
                let error = self.error(&*error);
                Err((body, error))
            }
        }
    }

    /// The body that a value is, if it is its body.
    pub(crate) fn bytes<'a>(&self, value: &'a T) -> Option<&'a Bytes> {
        match self {
            Coder::Same(same) => Some((same.bytes)(value)),
            Coder::Static(_) | Coder::Shared(_) | Coder::Kind(_) => None,
        }
    }

    fn error(&self, error: &(dyn std::error::Error + Send + Sync)) -> Error {
        let name = match self {
            Coder::Same(_) => "bytes",
            Coder::Static(codec) => codec.name(),
            Coder::Shared(codec) => codec.name(),
            Coder::Kind(codec) => codec.name(),
        };
        Error::Codec { what: format!("{name}: {error}") }
    }
}

impl<T> Clone for Coder<T> {
    fn clone(&self) -> Coder<T> {
        match self {
            Coder::Same(same) => Coder::Same(same),
            Coder::Static(codec) => Coder::Static(*codec),
            Coder::Shared(codec) => Coder::Shared(codec.clone()),
            Coder::Kind(codec) => Coder::Kind(codec.clone()),
        }
    }
}
