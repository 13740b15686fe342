//! A day of the calendar, in UTC.

use std::fmt::{self, Debug, Formatter};
use std::time::SystemTime;

use crate::moment::{micros_of, system_time};
use crate::{Error, Result};

/// A day in microseconds.
const DAY: u64 = 86_400_000_000;
/// The last year that a date is given with.
const LAST_YEAR: u32 = 9999;

/// A day of the calendar, in UTC, from 1970 on.
///
/// The metrics of a tube are counted by days of UTC, and not by those of a time zone: every day has 24
/// hours then, and no change of the clocks, and no journey, moves a number to another day. The day of a
/// change is that of the [timeline](crate::ClockReport::timeline) of the store.
///
/// The text of a date is that of ISO 8601: `2026-11-23`.
///
/// # Example
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tubewell::Date;
///
/// let date: Date = "2026-11-23".parse()?;
/// assert_eq!((date.year(), date.month(), date.day()), (2026, 11, 23));
/// assert_eq!(date.plus_days(8).to_string(), "2026-12-01");
/// assert_eq!(Date::of(date.begin() + Duration::from_secs(86_399)), date);
/// assert!(date > Date::of(UNIX_EPOCH));
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// The days since the beginning of 1970.
    days: u32,
}

impl Date {
    /// The day of a year from 1970 to 9999, a month from 1 to 12, and a day of the month from 1 on.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) if there is no such day.
    pub fn new(year: u32, month: u32, day: u32) -> Result<Date> {
        let date = (1970..=LAST_YEAR).contains(&year).then(|| days_of(year, month, day)).flatten();
        // A day that the month does not have would be one of the next month.
        let date = date.map(Date::of_day).filter(|date| date.civil() == (year, month, day));
        date.ok_or_else(|| {
            Error::invalid(format!(
                "{year:04}-{month:02}-{day:02} is not a date from 1970-01-01 to {LAST_YEAR}-12-31"
            ))
        })
    }

    /// The day of a moment. A moment before 1970 has the first day of 1970.
    #[must_use]
    pub fn of(moment: SystemTime) -> Date {
        Date::of_micros(micros_of(moment))
    }

    /// The first moment of the day.
    #[must_use]
    pub fn begin(self) -> SystemTime {
        system_time(u64::from(self.days).saturating_mul(DAY))
    }

    /// The year.
    #[must_use]
    pub fn year(self) -> u32 {
        self.civil().0
    }

    /// The month, from 1 to 12.
    #[must_use]
    pub fn month(self) -> u32 {
        self.civil().1
    }

    /// The day of the month, from 1 on.
    #[must_use]
    pub fn day(self) -> u32 {
        self.civil().2
    }

    /// The date so many days later, or earlier if the number is negative. Not before 1970.
    #[must_use]
    pub fn plus_days(self, days: i32) -> Date {
        Date::of_day(self.days.saturating_add_signed(days))
    }

    /// The day of a moment, in microseconds since 1970.
    pub(crate) fn of_micros(micros: u64) -> Date {
        Date::of_day(u32::try_from(micros / DAY).unwrap_or(u32::MAX))
    }

    pub(crate) fn of_day(days: u32) -> Date {
        Date { days }
    }

    /// The days since the beginning of 1970.
    pub(crate) fn days(self) -> u32 {
        self.days
    }

    /// Year, month and day. The calendar repeats after 400 years, which begin on a first of March here,
    /// so that a leap day is the last one of its year.
    fn civil(self) -> (u32, u32, u32) {
        // From 0000-03-01 on.
        let days = u64::from(self.days) + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        (small(year), small(month), small(day))
    }
}

impl Debug for Date {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Date({self})")
    }
}

/// The days since 1970 of a day; `None` if no month has it. The inverse of `civil`.
fn days_of(year: u32, month: u32, day: u32) -> Option<u32> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - u32::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
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
                    assert_eq!((date.year(), date.month(), date.day()), (year, month, day));
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
        assert!(Date::of_day(u32::MAX).year() > 11_000_000);
        let _ = (Date::of_micros(u64::MAX).begin(), Date::of_day(u32::MAX).begin());
    }
}
