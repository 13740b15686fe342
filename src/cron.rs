//! Cron expressions: which moments of the wall clock they name in a time zone (feature `cron`).
//!
//! croner parses and searches, jiff knows the time zones. Times are microseconds since 1970 UTC.

use croner::parser::{CronParser, Year};
use croner::{Cron, Direction};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::core::Calendar;
use crate::text::quoted;
use crate::{Error, Result};

/// The calendar of the core.
pub(crate) const CALENDAR: Calendar = Calendar { next, last };

/// Seconds in microseconds: croner knows whole seconds only.
const SECOND: u64 = 1_000_000;

fn next(expression: &str, zone: &str, after: u64) -> Result<Option<u64>> {
    // The second in which `after` is has begun already.
    find(expression, zone, after - after % SECOND, Direction::Forward)
}

fn last(expression: &str, zone: &str, until: u64) -> Result<Option<u64>> {
    let second = until - until % SECOND;
    find(expression, zone, second.saturating_add(SECOND), Direction::Backward)
}

/// The nearest moment on one side of a whole second; `None` if there is none that jiff can name.
fn find(expression: &str, zone: &str, from: u64, direction: Direction) -> Result<Option<u64>> {
    let cron = parse(expression)?;
    let zone = time_zone(zone)?;
    let Some(from) = zoned(from, zone) else { return Ok(None) };
    let found = match direction {
        Direction::Forward => cron.find_next_occurrence(&from, false),
        Direction::Backward => cron.find_previous_occurrence(&from, false),
    };
    // It is parsed: an error means that there is no moment within the years that it can name.
    let found = found.ok().map(|found| found.timestamp().as_microsecond());
    Ok(found.and_then(|micros| u64::try_from(micros).ok()))
}

fn parse(expression: &str) -> Result<Cron> {
    // A year would end the schedule: that is what `times` is for.
    let parser = CronParser::builder().year(Year::Disallowed).build();
    parser.parse(expression).map_err(|error| {
        let what = quoted(expression);
        Error::invalid(format!(
            "{what} is not a cron expression ({error}); use minute, hour, day of the month, month \
             and day of the week, as in 0 9 * * 1-5"
        ))
    })
}

fn time_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).map_err(|error| {
        let what = quoted(name);
        Error::invalid(format!(
            "time zone {what} is not known ({error}); use a name of the IANA time zone database, as \
             Europe/Berlin"
        ))
    })
}

fn zoned(micros: u64, zone: TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()?;
    Some(timestamp.to_zoned(zone))
}
