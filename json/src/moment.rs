//! Moments of the wall clock as text: RFC 3339, such as `2026-12-24T09:00:00+01:00`.
//!
//! jiff has the calendar and the text that is shown. It accepts more than RFC 3339, and what it says of a text
//! that it refuses does not say what to write: so the parts of a text are taken apart here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp, civil};

/// The hint for text that is not a moment.
const SHAPE: &str = "write a date and a time with a zone, such as 2026-12-24T09:00:00Z or \
                     2026-12-24T09:00:00+01:00";

/// Why a moment is refused that the calendar does not have.
const LATE: &str = "it is after 9999-12-30T22:00:00Z, the last moment that can be given; use never";

/// The text of a moment that never comes.
pub const NEVER: &str = "never";

/// Parses a moment of the command line or of an imported task.
pub fn parse(text: &str) -> Result<SystemTime, String> {
    let text = text.trim();
    if text == NEVER {
        return UNIX_EPOCH
            .checked_add(Duration::from_micros(u64::MAX))
            .ok_or_else(|| "this system has no such moment".into());
    }
    let moment = timestamp(text).map_err(|why| match why {
        "" => SHAPE.to_owned(),
        why => format!("{why}: {SHAPE}"),
    })?;
    let since = moment.as_duration();
    let moment = if since.is_negative() {
        UNIX_EPOCH.checked_sub(since.unsigned_abs())
    } else {
        UNIX_EPOCH.checked_add(since.unsigned_abs())
    };
    moment.ok_or_else(|| SHAPE.into())
}

/// The moment that an update sets, or `none` for removing it.
pub fn parse_or_none(text: &str) -> Result<Option<SystemTime>, String> {
    if text.trim() == "none" { Ok(None) } else { parse(text).map(Some) }
}

/// What the wall clock shows.
#[expect(clippy::disallowed_methods, reason = "moments are of the wall clock")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// How long it is until a moment: zero if it has come, `Duration::MAX` if it never comes.
pub fn time_until(moment: SystemTime) -> Duration {
    let left = moment.duration_since(now()).unwrap_or_default();
    since_1970(moment).map_or(Duration::MAX, |_| left)
}

/// How long ago a moment was, at another one: zero if it was later.
pub fn age(moment: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(moment).unwrap_or_default()
}

/// The time from 1970 to a moment: zero if it is earlier, `None` if it never comes, which is what
/// the last one of 64 bits of microseconds stands for.
fn since_1970(moment: SystemTime) -> Option<Duration> {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(since).filter(|since| since.as_micros() < u128::from(u64::MAX))
}

/// A moment as text, in UTC. One that never comes is `never`, and so is one after the years of the
/// calendar, which end with 9999. One before 1970 is that of 1970.
pub fn show(moment: SystemTime) -> String {
    let micros = since_1970(moment).and_then(|since| i64::try_from(since.as_micros()).ok());
    let shown = micros.and_then(|micros| Timestamp::from_microsecond(micros).ok());
    shown.map_or_else(|| NEVER.into(), |moment| moment.to_string())
}

/// The moment of a text of RFC 3339. Otherwise what is wrong with it; an empty text if it is no moment at
/// all.
fn timestamp(text: &str) -> Result<Timestamp, &'static str> {
    let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let date = date_of(date)?;
    if rest.is_empty() {
        return Err("it has no time");
    }
    let at = rest.find(['Z', 'z', '+', '-']).ok_or("it has no zone")?;
    let (time, zone) = rest.split_at(at);
    let (time, leap) = time_of(time)?;
    let offset = offset_of(zone).ok_or("there is no such zone")?;
    let moment = offset.to_timestamp(date.to_datetime(time));
    moment.and_then(|moment| moment.checked_add(leap)).map_err(|_| LATE)
}

fn date_of(text: &str) -> Result<civil::Date, &'static str> {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return Err("") };
    if !(4..=9).contains(&year.len()) || month.len() != 2 || day.len() != 2 {
        return Err("");
    }
    let (year, month, day) =
        (number(year).ok_or("")?, number(month).ok_or("")?, number(day).ok_or("")?);
    let year = i16::try_from(year).ok().filter(|year| *year <= 9999).ok_or(LATE)?;
    if !(1..=12).contains(&month) {
        return Err("there is no such month");
    }
    let of_month = |number: i32| i8::try_from(number).map_err(|_| "");
    civil::Date::new(year, of_month(month)?, of_month(day)?)
        .map_err(|_| "the month has no such day")
}

/// A time of a day, and what is to be added to it: a leap second is the first one of the next minute.
fn time_of(text: &str) -> Result<(civil::Time, SignedDuration), &'static str> {
    let (time, fraction) = text.split_once('.').map_or((text, None), |(t, f)| (t, Some(f)));
    let [hour, minute, second] = three(time).ok_or("its time is not hours, minutes and seconds")?;
    let nanos = match fraction {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) => {
            number(&format!("{digits:0<9}")).ok_or("the part of its second is no number")?
        }
        Some(_) => return Err("the part of its second has one to nine digits"),
    };
    let leap = i8::from(second == 60);
    let time = civil::Time::new(hour, minute, second - leap, nanos);
    let time = time.map_err(|_| "there is no such time of a day")?;
    Ok((time, SignedDuration::from_secs(leap.into())))
}

/// How far the clocks of a zone are ahead of UTC.
fn offset_of(zone: &str) -> Option<Offset> {
    if zone.eq_ignore_ascii_case("Z") {
        return Some(Offset::UTC);
    }
    let [hours, minutes, _] = three(&format!("{}:00", zone.get(1..)?))?;
    let ahead = i32::from(hours) * 3600 + i32::from(minutes) * 60;
    let is_offset = hours <= 23 && minutes <= 59;
    Offset::from_seconds(if zone.starts_with('-') { -ahead } else { ahead })
        .ok()
        .filter(|_| is_offset)
}

/// Three numbers of two digits, between colons.
fn three(text: &str) -> Option<[i8; 3]> {
    let two = |part: &str| number(part).filter(|_| part.len() == 2)?.try_into().ok();
    let mut parts = text.split(':').map(two);
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

/// A number of digits only.
fn number(digits: &str) -> Option<i32> {
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_any_zone() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T01:00:00+01:00", 0),
            ("2026-01-01T00:00:00Z", 1_767_225_600),
            ("2026-01-01t02:30:00+02:30", 1_767_225_600),
            ("2025-12-31 19:00:00-05:00", 1_767_225_600),
            ("2024-02-29T12:00:00z", 1_709_208_000),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2016-12-31T23:59:60Z", 1_483_228_800),
            ("9999-12-30T22:00:00Z", 253_402_207_200),
        ] {
            let moment = parse(text).unwrap().duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(moment, Duration::from_secs(seconds), "{text}");
        }
        let part = parse("2026-01-01T00:00:00.25Z").unwrap();
        assert_eq!(part, UNIX_EPOCH + Duration::from_millis(1_767_225_600_250));
        let leap = parse("2016-12-31T23:59:60.25Z").unwrap();
        assert_eq!(leap, UNIX_EPOCH + Duration::from_millis(1_483_228_800_250));
        let early = parse("1969-12-31T23:59:59.75Z").unwrap();
        assert_eq!(early, UNIX_EPOCH - Duration::from_millis(250));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "tomorrow",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-02-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+01",
            "2026-01-01T00:00:00é01:00",
            "26-01-01T00:00:00Z",
            "2026-1-1T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "9999999999-01-01T00:00:00Z",
            // jiff accepts these.
            "20260101T000000Z",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00+01:00:30",
            "2026-01-01T00:00:00+00:00[UTC]",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (text, why) in [
            ("2026-02-29", "the month has no such day"),
            ("2026-02-29T00:00:00Z", "the month has no such day"),
            ("2026-13-01", "there is no such month"),
            ("2026-02-28", "it has no time"),
            ("2026-02-28T09:00:00", "it has no zone"),
            ("2026-02-28T24:00:00Z", "there is no such time of a day"),
            ("2026-02-28T09:00Z", "its time is not hours, minutes and seconds"),
            ("2026-02-28T09:00:00+25:00", "there is no such zone"),
            ("2026-02-28T09:00:00.Z", "the part of its second has one to nine digits"),
        ] {
            assert_eq!(parse(text), Err(format!("{why}: {SHAPE}")), "{text}");
        }
        assert_eq!(parse("tomorrow"), Err(SHAPE.to_owned()));
        for late in ["9999-12-30T22:00:01Z", "9999-12-31T00:00:00Z", "12026-01-01T00:00:00Z"] {
            assert_eq!(parse(late), Err(format!("{LATE}: {SHAPE}")), "{late}");
        }
    }

    #[test]
    fn shown_moments_are_read_back() {
        for days in (0..200_000).step_by(37) {
            let moment = UNIX_EPOCH + Duration::from_micros(days * 86_400_000_000 + days * 12_345);
            assert_eq!(parse(&show(moment)), Ok(moment), "{days}");
        }
        assert_eq!(show(UNIX_EPOCH + Duration::from_millis(1500)), "1970-01-01T00:00:01.5Z");
        assert_eq!(show(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
        if let Ok(never) = parse("never") {
            assert_eq!(show(never), "never");
            // The calendar has no such years.
            assert_eq!(show(never - Duration::from_micros(1)), "never");
        }
        let last = parse("9999-12-30T22:00:00Z").unwrap();
        assert_eq!(show(last), "9999-12-30T22:00:00Z");
        assert_eq!(show(last + Duration::from_secs(1)), "never");
        assert_eq!(parse_or_none("none"), Ok(None));
    }
}
