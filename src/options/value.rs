//! The value of an option, whatever its type.

use std::fmt;
use std::time::Duration;

use crate::text::durations;
use crate::{Backoff, Counting, Durability, Error, Keep, Rate, Result, duration};

/// The value of an option of a tube; see [`TubeOptions::set`](crate::TubeOptions::set).
///
/// Its text is that of the type of the option: `2`, `true`, `1h30m`, or the text of a
/// [`Backoff`], a [`Counting`], a [`Durability`], a [`Keep`] or a [`Rate`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptionValue {
    /// No value. The word says what that means: `unlimited`, `none`, `all`, `the store's`.
    Without(&'static str),
    /// Whether it is on.
    Flag(bool),
    /// A number. For an option that is a time it is a number of seconds.
    Number(u64),
    /// A time; `Duration::MAX` is without a limit.
    Time(Duration),
    /// A text. An option of any type takes its text.
    Text(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Without(word) => f.pad(word),
            OptionValue::Flag(flag) => flag.fmt(f),
            OptionValue::Number(number) => number.fmt(f),
            OptionValue::Time(Duration::MAX) => f.pad("never"),
            OptionValue::Time(time) => f.pad(&durations::text(*time)),
            OptionValue::Text(text) => f.pad(text),
        }
    }
}

impl From<&str> for OptionValue {
    fn from(text: &str) -> OptionValue {
        OptionValue::Text(text.to_owned())
    }
}

/// The type of an option.
pub(super) trait Value: Sized {
    fn value(&self) -> OptionValue;

    fn of(value: OptionValue) -> Result<Self>;
}

/// The given value of an option; `None` for its default.
pub(super) fn given<T: Value>(name: &str, value: OptionValue) -> Result<Option<T>> {
    if matches!(value, OptionValue::Without(_)) {
        return Ok(None);
    }
    let given = T::of(value).map_err(|error| match error {
        Error::Invalid { what } => Error::invalid(format!("{name}: {what}")),
        error => error,
    });
    given.map(Some)
}

impl Value for bool {
    fn value(&self) -> OptionValue {
        OptionValue::Flag(*self)
    }

    fn of(value: OptionValue) -> Result<bool> {
        match &value {
            OptionValue::Flag(flag) => Ok(*flag),
            OptionValue::Text(text) if text == "true" => Ok(true),
            OptionValue::Text(text) if text == "false" => Ok(false),
            _ => Err(unlike(&value, "true or false")),
        }
    }
}

impl Value for u64 {
    fn value(&self) -> OptionValue {
        OptionValue::Number(*self)
    }

    fn of(value: OptionValue) -> Result<u64> {
        let number = match &value {
            OptionValue::Number(number) => Some(*number),
            OptionValue::Text(text) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| unlike(&value, "a whole number"))
    }
}

impl Value for u32 {
    fn value(&self) -> OptionValue {
        OptionValue::Number((*self).into())
    }

    fn of(value: OptionValue) -> Result<u32> {
        let number = u64::of(value)?;
        let refused = |_| Error::invalid(format!("{number} is above {}", u32::MAX));
        u32::try_from(number).map_err(refused)
    }
}

impl Value for Duration {
    fn value(&self) -> OptionValue {
        OptionValue::Time(*self)
    }

    fn of(value: OptionValue) -> Result<Duration> {
        match &value {
            OptionValue::Time(time) => Ok(*time),
            OptionValue::Number(seconds) => Ok(Duration::from_secs(*seconds)),
            OptionValue::Text(text) => duration::parse(text),
            _ => Err(unlike(&value, "a time")),
        }
    }
}

macro_rules! by_text {
    ($($type:ty: $expected:literal),+ $(,)?) => {$(
        impl Value for $type {
            fn value(&self) -> OptionValue {
                OptionValue::Text(self.to_string())
            }

            fn of(value: OptionValue) -> Result<$type> {
                match &value {
                    OptionValue::Text(text) => text.parse(),
                    _ => Err(unlike(&value, $expected)),
                }
            }
        }
    )+};
}

by_text! {
    Backoff: "a backoff, such as \"10s\"",
    Counting: "a counting, such as \"written\"",
    Durability: "a durability, such as \"flush\" or \"write(50ms)\"",
    Keep: "a retention, such as \"all\"",
    Rate: "a rate, such as \"10/1s\"",
}

fn unlike(value: &OptionValue, expected: &str) -> Error {
    Error::invalid(format!("{value} is not {expected}"))
}

/// The type of an option in effect.
pub(super) trait InEffect: Copy {
    type Given: Value;

    /// The given value that leads to this one; `None` for the default.
    fn given(self, default: Self) -> Option<Self::Given>;

    fn value(self) -> Option<OptionValue>;
}

impl<T: Value + Copy> InEffect for Option<T> {
    type Given = T;

    fn given(self, _: Option<T>) -> Option<T> {
        self
    }

    fn value(self) -> Option<OptionValue> {
        self.as_ref().map(Value::value)
    }
}

macro_rules! always_there {
    ($($type:ty),+) => {$(
        impl InEffect for $type {
            type Given = $type;

            fn given(self, default: $type) -> Option<$type> {
                Some(self).filter(|value| *value != default)
            }

            fn value(self) -> Option<OptionValue> {
                Some(Value::value(&self))
            }
        }
    )+};
}

always_there!(bool, u32, u64, Backoff, Counting);

/// The value, or what the lack of one means.
pub(super) fn value_or<const N: usize>(
    value: Option<OptionValue>,
    lack: [OptionValue; N],
) -> OptionValue {
    value.or_else(|| lack.into_iter().next()).unwrap_or(OptionValue::Without("none"))
}
