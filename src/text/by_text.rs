//! The serde form of values with a text: the text.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::values::date::Date;
use crate::values::ending::FailureKind;
use crate::values::step::StepKind;
use crate::{
    Backoff, ClaimToken, Counting, Cursor, Durability, Error, EventKind, Keep, Missed, OnKey,
    Overlap, Rate, SessionId, TaskState,
};

struct Text<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = Error>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! by_text {
    ($($type:ty: $expected:literal),+ $(,)?) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text($expected, PhantomData))
            }
        }
    )+};
}

by_text! {
    TaskState: "the name of a state",
    StepKind: "the name of a kind of step",
    EventKind: "the name of an event kind",
    FailureKind: "the name of a kind of failure",
    Durability: "a durability, as flush, write(50ms) or relaxed(50ms)",
    SessionId: "a session id of 32 hexadecimal digits",
    ClaimToken: "the token of a parked claim",
    Cursor: "the text of a cursor",
    Counting: "a counting, as lazily, written or flushed",
    Backoff: "a backoff, as none, 10s or 1s,factor=2,cap=1h",
    OnKey: "an answer to a key in use, as reject, keep or replace",
    Keep: "a retention, as all, count=1000 or age=1d",
    Missed: "which missed runs are made up for, as 1, all or skip",
    Overlap: "a rule for runs that overlap, as allow or skip",
    Rate: "a rate, as 10/1s or 5000/1h",
    Date: "a date, as 2026-11-23",
}
