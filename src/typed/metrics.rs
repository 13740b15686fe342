//! The numbers of a typed tube, by day.

use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Codec, Date, Day, Result, TypedTube};

impl<T: Serialize + DeserializeOwned, C: Codec> TypedTube<T, C> {
    /// The numbers of a day. As [`Tube::day`](crate::Tube::day).
    ///
    /// # Errors
    /// Those of [`Tube::day`](crate::Tube::day).
    pub fn day(&self, date: Date) -> Result<Day> {
        self.tube().day(date)
    }

    /// The numbers of several days. As [`Tube::days`](crate::Tube::days).
    ///
    /// # Errors
    /// Those of [`Tube::days`](crate::Tube::days).
    pub fn days(&self, range: RangeInclusive<Date>) -> Result<Vec<Day>> {
        self.tube().days(range)
    }
}
