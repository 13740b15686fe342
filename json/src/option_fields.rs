//! The options of tubes as JSON. The library has the list of them.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tubewell::expert::OptionValue;
use tubewell::{TubeInfo, TubeOptions};

use crate::duration::{self, NEVER_SECONDS};
use crate::unique_fields::UniqueFields;

/// The fields of an object that are options of a tube: times are seconds or `"never"`, and null is what
/// the lack of a value means.
#[derive(Debug, Default)]
pub struct OptionFields(Vec<(Cow<'static, str>, Value)>);

impl OptionFields {
    /// All options of a tube.
    pub fn all(tube: &TubeInfo) -> OptionFields {
        OptionFields::of(tube.option_values())
    }

    /// Those that are not the default.
    pub fn given(tube: &TubeInfo) -> OptionFields {
        OptionFields::of(tube.options().given())
    }

    fn of(values: impl IntoIterator<Item = (&'static str, OptionValue)>) -> OptionFields {
        OptionFields(values.into_iter().map(|(name, value)| (name.into(), json(value))).collect())
    }

    /// Whether the object names no option.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Options, changed by these.
    pub fn over(self, mut options: TubeOptions) -> Result<TubeOptions, String> {
        for (name, value) in self.0 {
            let value = option_value(value).map_err(|why| format!("{name}: {why}"))?;
            options = options.set(&name, value).map_err(|error| error.to_string())?;
        }
        Ok(options)
    }
}

impl Serialize for OptionFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for OptionFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionFields, D::Error> {
        let UniqueFields(fields) = UniqueFields::deserialize(deserializer)?;
        Ok(OptionFields(fields.into_iter().map(|(name, value)| (name.into(), value)).collect()))
    }
}

fn json(value: OptionValue) -> Value {
    match value {
        OptionValue::Flag(flag) => flag.into(),
        OptionValue::Number(number) => number.into(),
        OptionValue::Time(time) if time.as_secs_f64() < NEVER_SECONDS => time.as_secs_f64().into(),
        OptionValue::Time(_) => "never".into(),
        OptionValue::Text(text) => text.into(),
        _ => Value::Null,
    }
}

fn option_value(value: Value) -> Result<OptionValue, String> {
    Ok(match value {
        Value::Null => OptionValue::Without("none"),
        Value::Bool(flag) => OptionValue::Flag(flag),
        Value::String(text) => OptionValue::Text(text),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(number), _) => OptionValue::Number(number),
            (None, Some(seconds)) => OptionValue::Time(duration::from_seconds(seconds)?),
            (None, None) => return Err(format!("{number} is not a number of seconds")),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err("it is neither a text nor a number".into());
        }
    })
}
