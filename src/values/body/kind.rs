//! Kinds of bodies: JSON objects with one member, whose name is the kind.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};

use super::BoxError;

/// The codec of a kind, with the name of its type taken away.
pub trait OfKind<T>: Send + Sync {
    fn encode(&self, kind: &str, value: &T) -> Result<Vec<u8>, BoxError>;
    fn decode(&self, kind: &str, body: &[u8]) -> Result<T, BoxError>;
}

/// JSON, for every type.
pub(super) struct JsonOfKind;

impl<T: Serialize + DeserializeOwned> OfKind<T> for JsonOfKind {
    fn encode(&self, kind: &str, value: &T) -> Result<Vec<u8>, BoxError> {
        let mut body = Vec::new();
        serde_json::Serializer::new(&mut body).collect_map([(kind, value)])?;
        Ok(body)
    }

    fn decode(&self, kind: &str, body: &[u8]) -> Result<T, BoxError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = json.deserialize_map(ValueOf(kind, PhantomData))?;
        json.end()?;
        Ok(value)
    }
}

/// The kind of a body; `None` if its beginning is not that of an object with a member. Reads no further than its
/// name.
pub(crate) fn kind_of(body: &[u8]) -> Option<String> {
    let mut kind = None;
    // The visitor leaves the rest of the object, which is an error.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(FirstName(&mut kind));
    kind
}

/// Visits an object whose only member has this name.
struct ValueOf<'a, T>(&'a str, PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for ValueOf<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with the member {:?}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        match map.next_key::<String>()? {
            Some(kind) if kind == self.0 => {}
            Some(kind) => {
                return Err(A::Error::custom(format!(
                    "the kind is {kind:?}, and not {:?}",
                    self.0
                )));
            }
            None => return Err(A::Error::invalid_length(0, &self)),
        }
        let value = map.next_value()?;
        match map.next_key::<IgnoredAny>()? {
            None => Ok(value),
            Some(_) => Err(A::Error::invalid_length(2, &self)),
        }
    }
}

/// Stores the name of the first member of an object.
struct FirstName<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for FirstName<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        *self.0 = map.next_key()?;
        Ok(())
    }
}
