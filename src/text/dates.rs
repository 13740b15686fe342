//! The texts of dates and moments: those of ISO 8601.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::quoted;
use crate::base::moment::Moment;
use crate::values::date::Date;
use crate::{Error, Result};

impl Display for Date {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&self.civil().to_string())
    }
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Date> {
        // jiff accepts other forms of a date, too. Here each date has one text.
        let civil = text.parse::<jiff::civil::Date>().ok();
        let date = civil.and_then(Date::of_civil).filter(|date| date.to_string() == text);
        date.ok_or_else(|| {
            let text = quoted(text);
            Error::invalid(format!("{text} is not a date; write it as 2026-11-23"))
        })
    }
}

/// A moment in UTC, such as `2026-11-23T09:00:00Z`.
pub(crate) fn moment(moment: Moment) -> String {
    // One after the year 9999 is not in the calendar.
    jiff::Timestamp::try_from(moment)
        .map_or_else(|_| format!("{moment:?}"), |timestamp| timestamp.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_invalid, assert_round_trip};
    use super::*;

    #[test]
    fn date_is_written_as_in_iso_8601() {
        let date = Date::new(2026, 1, 2).unwrap();
        assert_eq!(
            (date.to_string(), format!("{date:>12}")),
            ("2026-01-02".into(), "  2026-01-02".into())
        );
        assert_invalid::<Date>(&[
            "",
            "2026",
            "2026-1-2",
            "2026-01-32",
            "2026-02-29",
            "26-01-02",
            "2026-01-02 ",
            "+026-01-02",
            "2026/01/02",
            "1969-12-31",
            "10000-01-01",
            "2026-01-02-03",
            "20260102",
            "2026-01-02T00:00:00",
            "2026-W01-5",
        ]);
    }

    proptest! {
        #[test]
        fn every_date_survives_the_round_trip(year in 1970..10_000_u32, month in 1..13_u32, day in 1..29_u32) {
            assert_round_trip(Date::new(year, month, day).unwrap());
        }

        /// Parsing never panics.
        #[test]
        fn every_text_is_rejected_or_parsed(text in any::<String>()) {
            let _ = text.parse::<Date>();
        }
    }
}
