//! The fields of an object, none of which it has twice.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The fields of an object. Of a field that it has twice, a parser would silently use one.
#[derive(Debug, Default, PartialEq)]
pub struct UniqueFields(pub Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueFields, D::Error> {
        deserializer.deserialize_map(FieldsVisitor).map(UniqueFields)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = object.next_entry::<String, Value>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            fields.insert(name, value);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_that_an_object_has_twice_is_refused() {
        let once: UniqueFields = serde_json::from_str(r#"{"a": 1, "b": null}"#).unwrap();
        assert_eq!(once.0.len(), 2);
        let twice = serde_json::from_str::<UniqueFields>(r#"{"a": 1, "a": 1}"#);
        assert!(twice.unwrap_err().to_string().contains("duplicate field `a`"));
    }
}
