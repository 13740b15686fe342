//! Cron expressions: which moments of the wall clock they name in a time zone (feature `cron`).
//!
//! croner parses and searches, jiff knows the time zones. Times are microseconds since 1970 UTC.

use croner::parser::{CronParser, Year};
use croner::{Cron, Direction};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::{Error, Result};

/// Seconds in microseconds: croner knows whole seconds only.
const SECOND: u64 = 1_000_000;

/// Refuses an expression or a time zone that is not known, and an expression that names no moment,
/// which takes some milliseconds to find out.
pub(crate) fn check(expression: &str, zone: &str) -> Result<()> {
    match next(expression, zone, 0)? {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "the cron expression {expression:?} names no moment; use a day that the month has"
        ))),
    }
}

/// The first moment of an expression in a time zone that is after this one; `None` if there is none.
pub(crate) fn next(expression: &str, zone: &str, after: u64) -> Result<Option<u64>> {
    // The second in which `after` is has begun already.
    find(expression, zone, after - after % SECOND, Direction::Forward)
}

/// The last moment that is not after this one.
pub(crate) fn last(expression: &str, zone: &str, until: u64) -> Result<Option<u64>> {
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
        Error::invalid(format!(
            "{expression:?} is not a cron expression ({error}); use minute, hour, day of the month, month \
             and day of the week, as in 0 9 * * 1-5"
        ))
    })
}

fn time_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).map_err(|error| {
        Error::invalid(format!(
            "time zone {name:?} is not known ({error}); use a name of the IANA time zone database, as \
             Europe/Berlin"
        ))
    })
}

fn zoned(micros: u64, zone: TimeZone) -> Option<Zoned> {
    let timestamp = Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()?;
    Some(timestamp.to_zoned(zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The microseconds of a moment in RFC 3339.
    fn micros(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_microsecond().try_into().unwrap()
    }

    /// The moments of an expression after one, in UTC, without their date's zone.
    fn moments(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let mut moment = micros(after);
        let next = |moment: &mut u64| {
            *moment = super::next(expression, zone, *moment).unwrap().unwrap();
            Timestamp::from_microsecond(i64::try_from(*moment).unwrap()).unwrap().to_string()
        };
        (0..count).map(|_| next(&mut moment)).collect()
    }

    #[test]
    fn moments_are_read_in_their_time_zone() {
        let berlin = moments("0 9 * * 1-5", "Europe/Berlin", "2026-07-03T00:00:00Z", 3);
        // A Friday, and the Monday and the Tuesday after it; it is summer.
        assert_eq!(
            berlin,
            ["2026-07-03T07:00:00Z", "2026-07-06T07:00:00Z", "2026-07-07T07:00:00Z"]
        );
        let kolkata = moments("30 18 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 2);
        assert_eq!(kolkata, ["2026-01-01T13:00:00Z", "2026-01-02T13:00:00Z"]);
        let seconds = moments("*/20 * * * * *", "UTC", "2026-01-01T00:00:10.5Z", 3);
        assert_eq!(
            seconds,
            ["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z", "2026-01-01T00:01:00Z"]
        );
        // Either of both days.
        let days = moments("0 0 13 * 5", "UTC", "2026-02-01T00:00:00Z", 3);
        assert_eq!(days, ["2026-02-06T00:00:00Z", "2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"]);
        let leap = moments("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2);
        assert_eq!(leap, ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
        assert_eq!(
            moments("0 0 * * 7", "UTC", "2026-01-01T00:00:00Z", 1),
            ["2026-01-04T00:00:00Z"]
        );
    }

    /// The clocks of Berlin go from 02:00 to 03:00 on 2026-03-29, and those of New York on 2026-03-08.
    /// Those of Lord Howe go forward by half an hour, on 2026-10-04.
    #[test]
    fn moment_in_a_gap_comes_once_right_after_it() {
        for (zone, day, expression, after_gap) in [
            ("Europe/Berlin", "2026-03-29", "30 2 * * *", "2026-03-29T01:00:00Z"),
            ("America/New_York", "2026-03-08", "15 2 * * *", "2026-03-08T07:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03", "10 2 * * *", "2026-10-03T15:30:00Z"),
        ] {
            let found = moments(expression, zone, &format!("{day}T00:00:00Z"), 2);
            assert_eq!(found[0], after_gap, "{zone}");
            let next = micros(&found[1]) - micros(after_gap);
            assert!(next > 22 * 3_600_000_000, "{zone}: {found:?}");
        }
        // A moment outside of it is where it is on other days.
        let around = moments("0 4 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
        assert_eq!(
            around,
            ["2026-03-28T03:00:00Z", "2026-03-29T02:00:00Z", "2026-03-30T02:00:00Z"]
        );
    }

    /// The clocks of Berlin go from 03:00 back to 02:00 on 2026-10-25.
    #[test]
    fn moment_in_a_fold_comes_once() {
        let found = moments("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
        assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        // From within the second half of the fold.
        let later = moments("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", 1);
        assert_eq!(later, ["2026-10-26T01:30:00Z"]);
        let new_york = moments("30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", 2);
        assert_eq!(new_york, ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]);
        // An interval goes on in both halves.
        let quarters = moments("*/30 * * * *", "Europe/Berlin", "2026-10-24T23:59:00Z", 5);
        let expected = ["00:00", "00:30", "01:00", "01:30", "02:00"];
        assert_eq!(quarters, expected.map(|time| format!("2026-10-25T{time}:00Z")));
    }

    #[test]
    fn last_moment_is_not_after_the_given_one() {
        let last = |until: &str| {
            let found = super::last("0 9 * * *", "Europe/Berlin", micros(until)).unwrap().unwrap();
            Timestamp::from_microsecond(i64::try_from(found).unwrap()).unwrap().to_string()
        };
        assert_eq!(last("2026-07-03T07:00:00Z"), "2026-07-03T07:00:00Z");
        assert_eq!(last("2026-07-03T07:00:00.5Z"), "2026-07-03T07:00:00Z");
        assert_eq!(last("2026-07-03T06:59:59.9Z"), "2026-07-02T07:00:00Z");
        assert_eq!(last("2026-03-29T12:00:00Z"), "2026-03-29T07:00:00Z");
    }

    /// Each moment that `next` finds, over a summer and its changes, is the last one then.
    #[test]
    fn next_and_last_agree() {
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
            for expression in ["30 2 * * *", "15 1 * * 0", "45 2 1 * *"] {
                let mut moment = micros("2026-02-20T00:00:00Z");
                while moment < micros("2026-11-10T00:00:00Z") {
                    let found = super::next(expression, zone, moment).unwrap().unwrap();
                    assert!(found > moment, "{expression} in {zone}");
                    let last = super::last(expression, zone, found).unwrap();
                    assert_eq!(last, Some(found), "{expression} in {zone}");
                    let before = super::last(expression, zone, found - 1).unwrap().unwrap();
                    assert!(before < found, "{expression} in {zone}");
                    moment = found;
                }
            }
        }
    }

    #[test]
    fn unknown_expressions_and_zones_are_refused() {
        for expression in [
            "",
            "x",
            "* * * *",
            "61 * * * *",
            "* * * 13 *",
            "* * * * * * *",
            "@reboot",
            "0 25 * * *",
        ] {
            let refused = super::next(expression, "UTC", 0);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{expression:?}: {refused:?}");
        }
        for zone in ["", "Nowhere", "Europe/berlin\0", "../../etc/passwd"] {
            let refused = super::next("0 9 * * *", zone, 0);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{zone:?}: {refused:?}");
        }
    }

    #[test]
    fn expression_that_names_no_moment_is_refused() {
        for expression in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            let refused = check(expression, "Europe/Berlin").unwrap_err();
            assert!(refused.to_string().contains("names no moment"), "{refused}");
        }
        let now = micros("2026-01-01T00:00:00Z");
        assert_eq!(super::last("0 0 30 2 *", "UTC", now), Ok(None));
        assert_eq!(super::next("0 9 * * *", "UTC", u64::MAX), Ok(None));
        assert!(super::next("0 9 * * *", "UTC", 0).unwrap().is_some());
    }
}
