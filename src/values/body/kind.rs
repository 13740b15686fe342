//! Kinds of bodies: JSON objects with one member, whose name is the kind.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};

use super::{BoxError, Codec, Json};

/// The codec of the bodies of one kind.
pub trait OfKind<T>: Codec<T> {
    fn kind(&self) -> &Arc<str>;
}

/// JSON objects with one member, which has this name.
pub(super) struct JsonOfKind(pub(super) Arc<str>);

impl<T: Serialize + DeserializeOwned> OfKind<T> for JsonOfKind {
    fn kind(&self) -> &Arc<str> {
        &self.0
    }
}

impl<T: Serialize + DeserializeOwned> Codec<T> for JsonOfKind {
    fn name(&self) -> &str {
        Codec::<T>::name(&Json)
    }

    fn encode(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        let mut body = Vec::new();
        serde_json::Serializer::new(&mut body).collect_map([(&*self.0, value)])?;
        Ok(body)
    }

    fn decode(&self, body: &[u8]) -> Result<T, BoxError> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let value = json.deserialize_map(ValueOf(&self.0, PhantomData))?;
        json.end()?;
        Ok(value)
    }
}

/// The kind of a body; `None` if the body is not an object with one member.
pub(crate) fn kind_of(body: &[u8]) -> Option<String> {
    // An error about another value would have a copy of the value.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    serde_json::Deserializer::from_slice(body).deserialize_map(OnlyName).ok()?
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

/// Returns the name of the only member of an object; `None` if there are others.
struct OnlyName;

impl<'de> Visitor<'de> for OnlyName {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one member")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        let first = map.next_entry::<String, IgnoredAny>()?;
        let mut has_more = false;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            has_more = true;
        }
        Ok(first.map(|(name, _)| name).filter(|_| !has_more))
    }
}
