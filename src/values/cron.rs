//! Cron expressions: which moments of the wall clock they name in a time zone (feature `cron`).
//!
//! croner parses an expression and searches for local times that match it. jiff knows the time zones.
//! croner searches as if the local time were UTC, which has no gap and no repeated hour: what becomes
//! of those is decided here. Times are microseconds since 1970 UTC, inside of this file seconds.

mod syntax;

use croner::parser::{CronParser, Year};
use croner::{Cron, Direction};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::base::moment::Moments;
use crate::{Error, Result};

/// Seconds in microseconds: croner knows whole seconds only.
const SECOND: u64 = 1_000_000;

/// Refuses an expression or a time zone that is not known, and an expression that names no moment,
/// which takes some milliseconds to find out.
pub(crate) fn check(expression: &str, zone: &str) -> Result<()> {
    match ZonedCron::new(expression, zone)?.next(0) {
        Some(_) => Ok(()),
        None => Err(Error::invalid(format!(
            "the cron expression {expression:?} names no moment; use a day that the month has"
        ))),
    }
}

/// Reads an expression in a time zone.
pub(crate) fn read(expression: &str, zone: &str) -> Result<Box<dyn Moments>> {
    Ok(Box::new(ZonedCron::new(expression, zone)?))
}

/// An expression and the time zone in which it is read.
struct ZonedCron {
    cron: Cron,
    zone: TimeZone,
    zone_name: String,
    /// Whether it is an interval, which skips the local times of a gap and has a repeated hour twice.
    is_interval: bool,
}

/// A time between two changes of the offset of a zone. `start` is in it, and `end` is not.
struct Period {
    start: i64,
    end: i64,
    /// How far the local time is ahead of UTC.
    offset: i64,
    /// The offset until `start`. If it is smaller, the local times between `start + before` and `start +
    /// offset` do not exist. If it is larger, those between `start + offset` and `start + before` are
    /// repeated.
    before: i64,
}

impl Moments for ZonedCron {
    fn next(&self, after: u64) -> Option<u64> {
        // The second in which `after` is has begun already.
        let from = seconds(after).map(|after| after + 1)?;
        self.first_from(from).and_then(micros)
    }

    fn last(&self, until: u64) -> Option<u64> {
        self.last_until(seconds(until)?.min(END_OF_MOMENTS)).and_then(micros)
    }

    fn is_interval(&self) -> bool {
        self.is_interval
    }

    fn is_current(&self) -> bool {
        // jiff reads a time zone again if its file has changed.
        time_zone(&self.zone_name).is_ok_and(|zone| zone == self.zone)
    }
}

/// The begin of the year 5000, in seconds: croner finds nothing from there on. A clock may be beyond it.
const END_OF_MOMENTS: i64 = 95_617_584_000;

impl ZonedCron {
    fn new(expression: &str, zone: &str) -> Result<ZonedCron> {
        let cron = parse(expression)?;
        let (zone, zone_name) = (time_zone(zone)?, zone.to_owned());
        let pattern = &cron.pattern;
        let fields = [&pattern.seconds, &pattern.minutes, &pattern.hours];
        let is_interval =
            fields.into_iter().any(|field| field.from_wildcard) || syntax::has_step(expression);
        Ok(ZonedCron { cron, zone, zone_name, is_interval })
    }

    /// The first moment that is not before this one.
    fn first_from(&self, mut time: i64) -> Option<i64> {
        loop {
            let period = self.period(time)?;
            let first = self.first_local(&period);
            let is_at_start = time == period.start;
            let from = if is_at_start { first } else { first.max(time + period.offset) };
            let moment = period.moment_of(self.match_of(from, Direction::Forward)?);
            if moment < period.end {
                return Some(moment);
            }
            time = period.end;
        }
    }

    /// The last moment that is not after this one.
    fn last_until(&self, mut time: i64) -> Option<i64> {
        loop {
            let period = self.period(time)?;
            let local = self.match_of(time + period.offset, Direction::Backward)?;
            if local >= self.first_local(&period) {
                return Some(period.moment_of(local));
            }
            time = period.start - 1;
        }
    }

    /// The first local time that counts for a period. That of a fixed time includes the gap before the
    /// period, and leaves out what is repeated.
    fn first_local(&self, period: &Period) -> i64 {
        period.start + if self.is_interval { period.offset } else { period.before }
    }

    /// The nearest local time that matches the expression, from this one on.
    fn match_of(&self, local: i64, direction: Direction) -> Option<i64> {
        let local = Timestamp::from_second(local).ok()?.to_zoned(TimeZone::UTC);
        let found = match direction {
            Direction::Forward => self.cron.find_next_occurrence(&local, true),
            Direction::Backward => self.cron.find_previous_occurrence(&local, true),
        };
        // It is parsed: an error means that there is none within the years that croner can name.
        found.ok().map(|found| found.timestamp().as_second())
    }

    /// The period of a moment; `None` if jiff cannot name the moment.
    fn period(&self, time: i64) -> Option<Period> {
        let time = Timestamp::from_second(time).ok()?;
        let offset = |at: Timestamp| i64::from(self.zone.to_offset(at).seconds());
        let second = SignedDuration::from_secs(1);
        // jiff looks for changes that are before a moment, and not at it.
        let start = time
            .checked_add(second)
            .ok()
            .and_then(|after| self.zone.preceding(after).next().map(|change| change.timestamp()));
        let start = start.unwrap_or(Timestamp::MIN);
        let end = self.zone.following(time).next().map(|change| change.timestamp());
        Some(Period {
            start: start.as_second(),
            end: end.unwrap_or(Timestamp::MAX).as_second(),
            offset: offset(time),
            before: offset(start.checked_sub(second).unwrap_or(time)),
        })
    }
}

impl Period {
    /// The moment of a local time. That of one in the gap before the period is its start.
    fn moment_of(&self, local: i64) -> i64 {
        (local - self.offset).max(self.start)
    }
}

/// The whole seconds of a time; `None` if there are too many for jiff.
fn seconds(micros: u64) -> Option<i64> {
    i64::try_from(micros / SECOND).ok()
}

/// `None` for a time before 1970.
fn micros(seconds: i64) -> Option<u64> {
    u64::try_from(seconds).ok()?.checked_mul(SECOND)
}

fn parse(expression: &str) -> Result<Cron> {
    let refused =
        |why: &str| Error::invalid(format!("{expression:?} is not a cron expression: {why}"));
    syntax::check(expression).map_err(|why| refused(&why))?;
    // A year would end the schedule: that is what `times` is for.
    let parser = CronParser::builder().year(Year::Disallowed).build();
    parser.parse(expression).map_err(|_| refused("use other fields, as in 0 9 * * 1-5"))
}

fn time_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).map_err(|error| {
        Error::invalid(format!(
            "time zone {name:?} is not known ({error}); use a name of the IANA time zone database, as \
             Europe/Berlin"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_after(expression: &str, zone: &str, after: u64) -> Result<Option<u64>> {
        Ok(read(expression, zone)?.next(after))
    }

    fn last_until(expression: &str, zone: &str, until: u64) -> Result<Option<u64>> {
        Ok(read(expression, zone)?.last(until))
    }

    /// The microseconds of a moment in RFC 3339.
    fn micros(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_microsecond().try_into().unwrap()
    }

    /// The moments of an expression after one, in UTC, without their date's zone.
    fn moments(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let mut moment = micros(after);
        let next = |moment: &mut u64| {
            *moment = next_after(expression, zone, *moment).unwrap().unwrap();
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

    /// Apia left out 2011-12-30, a Friday: its clocks went from UTC-10 to UTC+14.
    #[test]
    fn moment_in_a_gap_of_a_day_comes_right_after_it() {
        let found =
            |expression, count| moments(expression, "Pacific/Apia", "2011-12-29T19:00:00Z", count);
        let after_gap = "2011-12-30T10:00:00Z";
        assert_eq!(
            found("0 9 * * *", 3),
            [after_gap, "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"]
        );
        assert_eq!(found("0 9 * * 5", 2), [after_gap, "2012-01-05T19:00:00Z"]);
        assert_eq!(found("0 9,17 30 12 *", 2), [after_gap, "2012-12-29T19:00:00Z"]);
        assert_eq!(found("0 0 * * *", 2), [after_gap, "2011-12-31T10:00:00Z"]);
        // An interval leaves the day out.
        let three = ["2011-12-30T07:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T13:00:00Z"];
        assert_eq!(found("0 */3 * * *", 6)[3..], three);
        assert_eq!(found("0 */6 * * 5", 1), ["2012-01-05T10:00:00Z"]);
    }

    /// The clocks of Nuuk go from 23:00 to 00:00 of the next day, on 2024-03-30, a Saturday.
    #[test]
    fn moment_in_a_gap_before_midnight_comes_on_the_next_day() {
        let found = moments("30 23 * * 6", "America/Nuuk", "2024-03-30T00:00:00Z", 2);
        assert_eq!(found, ["2024-03-31T01:00:00Z", "2024-04-07T00:30:00Z"]);
    }

    /// Two moments in a gap are one after it.
    #[test]
    fn list_of_times_is_no_interval() {
        let spring = moments("0,30 2,14 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 3);
        let times = ["01:00", "12:00", "12:30"];
        assert_eq!(spring, times.map(|time| format!("2026-03-29T{time}:00Z")));
        let autumn = moments("0,30 1-2 * * *", "Europe/Berlin", "2026-10-24T23:00:00Z", 4);
        let times = ["24T23:30", "25T00:00", "25T00:30", "26T00:00"];
        assert_eq!(autumn, times.map(|time| format!("2026-10-{time}:00Z")));
    }

    /// Regression: what came behind the step in its list decided.
    #[test]
    fn list_with_a_step_anywhere_is_an_interval() {
        for minutes in ["10-20/5,40", "10-20/5,30-40/1", "5,10-20/5", "10-20/1"] {
            let cron = ZonedCron::new(&format!("{minutes} 2 * * *"), "Europe/Berlin").unwrap();
            assert!(cron.is_interval(), "{minutes}");
        }
        for fields in ["10,20 2 * * *", "10 2 */5 */2 1-5/2", "0 10 2 */5 * *"] {
            let cron = ZonedCron::new(fields, "Europe/Berlin").unwrap();
            assert!(!cron.is_interval(), "{fields}");
        }
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
            let found = last_until("0 9 * * *", "Europe/Berlin", micros(until)).unwrap().unwrap();
            Timestamp::from_microsecond(i64::try_from(found).unwrap()).unwrap().to_string()
        };
        assert_eq!(last("2026-07-03T07:00:00Z"), "2026-07-03T07:00:00Z");
        assert_eq!(last("2026-07-03T07:00:00.5Z"), "2026-07-03T07:00:00Z");
        assert_eq!(last("2026-07-03T06:59:59.9Z"), "2026-07-02T07:00:00Z");
        assert_eq!(last("2026-03-29T12:00:00Z"), "2026-03-29T07:00:00Z");
    }

    /// Regression: all moments since the last run were missed ones, a million of them.
    #[test]
    fn clock_beyond_all_moments_has_a_last_one() {
        for until in ["6000-01-01T00:00:00Z", "9999-12-30T00:00:00Z"] {
            let last = last_until("0 12 * * *", "UTC", micros(until)).unwrap();
            assert_eq!(last, Some(micros("4999-12-31T12:00:00Z")), "{until}");
        }
        let last = last_until("0 12 * * *", "UTC", u64::MAX / 4).unwrap();
        assert_eq!(last, Some(micros("4999-12-31T12:00:00Z")));
    }

    /// Each moment that `next` finds, over a summer and its changes, is the last one then.
    #[test]
    fn next_and_last_agree() {
        let zones = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"];
        let expressions =
            ["30 2 * * *", "15 1 * * 0", "45 2 1 * *", "*/30 1-3 * * 0", "0 1,2,9 * * 5"];
        for zone in zones {
            let year = if zone == "Pacific/Apia" { 2011 } else { 2026 };
            for expression in expressions {
                let mut moment = micros(&format!("{year}-02-20T00:00:00Z"));
                while moment < micros(&format!("{}-01-10T00:00:00Z", year + 1)) {
                    let found = next_after(expression, zone, moment).unwrap().unwrap();
                    assert!(found > moment, "{expression} in {zone}");
                    let last = last_until(expression, zone, found).unwrap();
                    assert_eq!(last, Some(found), "{expression} in {zone}");
                    let before = last_until(expression, zone, found - 1).unwrap().unwrap();
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
            let refused = next_after(expression, "UTC", 0);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{expression:?}: {refused:?}");
        }
        for zone in ["", "Nowhere", "Europe/berlin\0", "../../etc/passwd"] {
            let refused = next_after("0 9 * * *", zone, 0);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{zone:?}: {refused:?}");
        }
    }

    /// The parser agrees with the check, which gives the reason: random expressions of the parts that fields
    /// have.
    #[test]
    fn every_refusal_is_our_own() {
        const PARTS: [&str; 24] = [
            "*", "?", "0", "1", "5", "7", "12", "31", "59", "90", "-", "-", ",", ",", "/", "L",
            "W", "#", "MON", "SUN", "JAN", "+", "2", "@",
        ];
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        let mut accepted = 0;
        for _ in 0..5000 {
            let at = random(5);
            let mut fields = ["0", "0", "*", "*", "*"].map(str::to_owned);
            fields[at] = (0..=random(4)).map(|_| PARTS[random(PARTS.len())]).collect();
            let expression = fields.join(" ");
            match parse(&expression) {
                Ok(_) => accepted += 1,
                Err(refused) => {
                    assert!(syntax::check(&expression).is_err(), "{expression:?}: {refused}");
                }
            }
        }
        assert!(accepted > 300, "{accepted}");
    }

    #[test]
    fn expression_that_names_no_moment_is_refused() {
        for expression in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            let refused = check(expression, "Europe/Berlin").unwrap_err();
            assert!(refused.to_string().contains("names no moment"), "{refused}");
        }
        let now = micros("2026-01-01T00:00:00Z");
        assert_eq!(last_until("0 0 30 2 *", "UTC", now), Ok(None));
        assert_eq!(next_after("0 9 * * *", "UTC", u64::MAX), Ok(None));
        assert!(next_after("0 9 * * *", "UTC", 0).unwrap().is_some());
    }
}
