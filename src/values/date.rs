//! A day of the calendar, in UTC. jiff has the calendar: its years end with 9999.

use std::fmt::{self, Debug, Formatter};
use std::time::SystemTime;

use jiff::{SignedDuration, civil};

use crate::base::moment::{micros_of, system_time};
use crate::{Error, Result};

/// A day in microseconds.
const DAY: u64 = 86_400_000_000;
/// The first day.
const FIRST: civil::Date = civil::date(1970, 1, 1);
/// The last day that the calendar has, 9999-12-31, counted from the first one.
const LAST_DAY: u32 = 2_932_896;

/// A day of the calendar, in UTC, from 1970 to 9999.
///
/// The metrics of a tube are counted by days of UTC, and not by those of a time zone: every day has 24
/// hours then, and no change of the clocks, and no journey, moves a number to another day. The day of a
/// change is that of the [timeline](crate::expert::ClockReport::timeline) of the store.
///
/// The text of a date is that of ISO 8601: `2026-11-23`.
///
/// # Example
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tubewell::expert::Date;
///
/// let date: Date = "2026-11-23".parse()?;
/// assert_eq!(date.year_month_day(), (2026, 11, 23));
/// assert_eq!(date.plus_days(8).to_string(), "2026-12-01");
/// assert_eq!(Date::of(date.begin() + Duration::from_secs(86_399)), date);
/// assert!(date > Date::of(UNIX_EPOCH));
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The days since the beginning of 1970, at most [`LAST_DAY`].
    days: u32,
}

impl Date {
    /// The day of a year from 1970 to 9999, a month from 1 to 12, and a day of the month from 1 on.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) if there is no such day.
    pub fn new(year: u32, month: u32, day: u32) -> Result<Date> {
        let civil = || {
            let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
            civil::Date::new(i16::try_from(year).ok()?, month, day).ok()
        };
        civil().and_then(Date::of_civil).ok_or_else(|| {
            Error::invalid(format!(
                "{year:04}-{month:02}-{day:02} is not a date from {FIRST} to {}",
                civil::Date::MAX
            ))
        })
    }

    /// The day of a moment. A moment before 1970 has the first day of 1970, and one after 9999 the last
    /// day of 9999.
    #[must_use]
    pub fn of(moment: SystemTime) -> Date {
        Date::of_micros(micros_of(moment))
    }

    /// The first moment of the day.
    #[must_use]
    pub fn begin(self) -> SystemTime {
        system_time(begin_of(self.days))
    }

    /// The year, the month from 1 to 12, and the day of the month from 1 on, as [`new`](Date::new) takes
    /// them.
    #[must_use]
    pub fn year_month_day(self) -> (u32, u32, u32) {
        let date = self.civil();
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        (date.year().unsigned_abs().into(), month.into(), day.into())
    }

    /// The date so many days later, or earlier if the number is negative. Not before 1970, and not after
    /// 9999.
    #[must_use]
    pub fn plus_days(self, days: i32) -> Date {
        Date::of_day(self.days.saturating_add_signed(days))
    }

    /// The day of a moment, in microseconds since 1970.
    pub(crate) fn of_micros(micros: u64) -> Date {
        Date::of_day(u32::try_from(micros / DAY).unwrap_or(u32::MAX))
    }

    /// A day counted from the beginning of 1970. One after 9999 is the last day of 9999.
    pub(crate) fn of_day(days: u32) -> Date {
        Date { days: days.min(LAST_DAY) }
    }

    /// `None` for a day before 1970.
    pub(crate) fn of_civil(date: civil::Date) -> Option<Date> {
        u32::try_from(date.duration_since(FIRST).as_hours() / 24).ok().map(Date::of_day)
    }

    pub(crate) fn civil(self) -> civil::Date {
        FIRST.saturating_add(SignedDuration::from_hours(24 * i64::from(self.days)))
    }

    /// The days since the beginning of 1970.
    pub(crate) fn days(self) -> u32 {
        self.days
    }
}

/// The first moment of a day that is counted from the beginning of 1970, in microseconds.
pub(crate) fn begin_of(day: u32) -> u64 {
    u64::from(day).saturating_mul(DAY)
}

/// The first moment after such a day. The last day has no end.
pub(crate) fn end_of(day: u32) -> u64 {
    if day < LAST_DAY { begin_of(day + 1) } else { u64::MAX }
}

impl Debug for Date {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Date({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_each_other_as_in_the_calendar() {
        let is_leap = |year: u32| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut date = Date::of_day(0);
        for year in 1970..=2500 {
            let february = if is_leap(year) { 29 } else { 28 };
            let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(months) {
                for day in 1..=length {
                    assert_eq!(Date::new(year, month, day), Ok(date));
                    assert_eq!(date.year_month_day(), (year, month, day));
                    date = date.plus_days(1);
                }
                assert!(Date::new(year, month, length + 1).is_err());
            }
        }
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        let bad = [(1969, 12, 31), (10_000, 1, 1), (2026, 0, 1), (2026, 13, 1), (2026, 1, 0)];
        for (year, month, day) in bad.into_iter().chain([(2026, 4, 31), (2026, 2, 29)]) {
            assert!(Date::new(year, month, day).is_err(), "{year}-{month}-{day}");
        }
        assert!(Date::new(9999, 12, 31).is_ok());
    }

    #[test]
    fn day_begins_at_midnight() {
        let date = Date::new(2026, 11, 23).unwrap();
        let begin = micros_of(date.begin());
        assert_eq!(Date::of_micros(begin), date);
        assert_eq!(Date::of_micros(begin - 1), date.plus_days(-1));
        assert_eq!(Date::of_micros(begin + DAY - 1), date);
        assert_eq!(Date::of_day(3).plus_days(-9), Date::of_day(0));
        assert_eq!((begin_of(date.days()), end_of(date.days())), (begin, begin + DAY));
    }

    #[test]
    fn last_day_is_that_of_9999() {
        let last = Date::new(9999, 12, 31).unwrap();
        assert_eq!((last.civil(), last.days()), (civil::Date::MAX, LAST_DAY));
        for later in [Date::of_day(u32::MAX), Date::of_micros(u64::MAX), last.plus_days(i32::MAX)] {
            assert_eq!(later, last);
        }
        assert_eq!((Date::of(last.begin()), end_of(last.days())), (last, u64::MAX));
    }
}
