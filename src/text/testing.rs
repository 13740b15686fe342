//! What the tests of texts share.

use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use proptest::prelude::*;

use crate::Error;

pub(super) fn assert_round_trip<T: FromStr<Err = Error> + Display + PartialEq + Debug>(value: T) {
    assert_eq!(value.to_string().parse::<T>(), Ok(value));
}

pub(super) fn assert_invalid<T: FromStr<Err = Error> + Debug>(texts: &[&str]) {
    for text in texts {
        let error = text.parse::<T>().unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{text:?}: {error:?}");
    }
}

pub(super) fn duration() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanos)| Duration::new(seconds >> (nanos % 64), nanos))
}
