//! Moments of the wall clock as text: RFC 3339, such as `2026-12-24T09:00:00+01:00`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The hint for text that is not a moment.
const SHAPE: &str = "write a date and a time with a zone, such as 2026-12-24T09:00:00Z or \
                     2026-12-24T09:00:00+01:00";

const DAY: i128 = 86_400;

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
    let (seconds, nanos) = fields(text).map_err(|why| match why {
        "" => SHAPE.to_owned(),
        why => format!("{why}: {SHAPE}"),
    })?;
    let whole = u64::try_from(seconds.unsigned_abs()).map_err(|_| SHAPE)?;
    let (whole, part) = (Duration::from_secs(whole), Duration::from_nanos(nanos));
    let moment =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    moment.and_then(|moment| moment.checked_add(part)).ok_or_else(|| SHAPE.into())
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

/// A moment as text, in UTC. One that never comes is `never`, one before 1970 is that of 1970.
pub fn show(moment: SystemTime) -> String {
    let Some(since) = since_1970(moment) else { return NEVER.into() };
    let seconds = i128::from(since.as_secs());
    let (year, month, day) = date_of(seconds.div_euclid(DAY));
    let of_day = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if since.subsec_micros() > 0 {
        let micros = format!(".{:06}", since.subsec_micros());
        text.push_str(micros.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// The seconds since 1970, and the nanoseconds of the last one, of a text of RFC 3339. Otherwise what is
/// wrong with it; an empty text if it is no moment at all.
fn fields(text: &str) -> Result<(i128, u64), &'static str> {
    let (date, rest) = text.split_once(['T', 't', ' ']).unwrap_or((text, ""));
    let days = days_of(date)?;
    if rest.is_empty() {
        return Err("it has no time");
    }
    let at = rest.find(['Z', 'z', '+', '-']).ok_or("it has no zone")?;
    let (time, zone) = rest.split_at(at);
    let (time, fraction) = time.split_once('.').map_or((time, None), |(t, f)| (t, Some(f)));
    let [hour, minute, second] = three(time).ok_or("its time is not hours, minutes and seconds")?;
    // A leap second is the first one of the next minute.
    if hour > 23 || minute > 59 || second > 60 {
        return Err("there is no such time of a day");
    }
    let offset = offset_of(zone).ok_or("there is no such zone")?;
    let nanos = match fraction {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) => {
            let nanos = number(&format!("{digits:0<9}")).and_then(|nanos| nanos.try_into().ok());
            nanos.ok_or("the part of its second is no number")?
        }
        Some(_) => return Err("the part of its second has one to nine digits"),
    };
    Ok((days * DAY + hour * 3600 + minute * 60 + second - offset, nanos))
}

/// The days from 1970 to a date as text.
fn days_of(text: &str) -> Result<i128, &'static str> {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return Err("") };
    if !(4..=9).contains(&year.len()) || month.len() != 2 || day.len() != 2 {
        return Err("");
    }
    let (Some(year), Some(month), Some(day)) = (number(year), number(month), number(day)) else {
        return Err("");
    };
    if !(1..=12).contains(&month) {
        return Err("there is no such month");
    }
    let days = days_to(year, month, day);
    if day < 1 || date_of(days) != (year, month, day) {
        return Err("the month has no such day");
    }
    Ok(days)
}

/// The seconds that the clocks of a zone are ahead of UTC.
fn offset_of(zone: &str) -> Option<i128> {
    if zone.eq_ignore_ascii_case("Z") {
        return Some(0);
    }
    let [hours, minutes, _] = three(&format!("{}:00", zone.get(1..)?))?;
    let offset = hours * 3600 + minutes * 60;
    let is_offset = hours <= 23 && minutes <= 59;
    is_offset.then_some(if zone.starts_with('-') { -offset } else { offset })
}

/// Three numbers of two digits, between colons.
fn three(text: &str) -> Option<[i128; 3]> {
    let mut parts = text.split(':').map(|part| number(part).filter(|_| part.len() == 2));
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

fn number(digits: &str) -> Option<i128> {
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all { digits.parse().ok() } else { None }
}

/// The days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that
/// a leap day is the last one of its year.
fn days_to(year: i128, month: i128, day: i128) -> i128 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719,468 days from 0000-03-01 to 1970-01-01.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// The date so many days after 1970-01-01.
fn date_of(days: i128) -> (i128, i128, i128) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (of_year * 5 + 2) / 153;
    let day = of_year - (month * 153 + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
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
            ("12026-01-01T00:00:00Z", 317_336_745_600),
        ] {
            let moment = parse(text).unwrap().duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(moment, Duration::from_secs(seconds), "{text}");
        }
        let part = parse("2026-01-01T00:00:00.25Z").unwrap();
        assert_eq!(part, UNIX_EPOCH + Duration::from_millis(1_767_225_600_250));
        assert!(parse("1969-12-31T23:59:59Z").unwrap() < UNIX_EPOCH);
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
            let last = never - Duration::from_micros(1);
            assert_eq!(parse(&show(last)), Ok(last));
        }
        assert_eq!(parse_or_none("none"), Ok(None));
    }
}
