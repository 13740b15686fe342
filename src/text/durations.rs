//! Durations as text: `250ms`, `1.5s`, `10m`, `1h30m`, `never`.
//!
//! The one parser of the library and of the command. Two forms are written: [`text`] loses nothing, and
//! [`show`] is for people.

use std::ops::RangeFrom;
use std::time::Duration;

use crate::{Error, Result};

/// Units with their nanoseconds, the largest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
/// The units of a durability are those from seconds on.
const DURABILITY_UNITS: RangeFrom<usize> = 3..;
/// A second in nanoseconds.
const SECOND: u128 = 1_000_000_000;
/// More digits than this behind the point would not change a duration.
const FRACTION_MAX: usize = 18;
/// The text of a duration without an end.
const NEVER: &str = "never";
/// The hint for a text that is not a duration.
const SHAPE: &str =
    "write a number with a unit (ns, us, ms, s, m, h, d), such as 250ms, 1.5s, 10m, 1h30m";
const TOO_LONG: &str = "it is too long: use never";

/// Parses a duration: numbers with units, such as `250ms`, `1.5s` or `1h30m`, where `m` is a minute; `0`; or
/// `never`, which is [`Duration::MAX`]. White space around it is ignored.
///
/// # Errors
/// [`Invalid`](Error::Invalid): it is not a duration, or longer than a store can count, 2⁶⁴ µs. The text says
/// what is wrong with it.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::duration;
///
/// assert_eq!(duration::parse("1h30m")?, Duration::from_secs(5400));
/// assert_eq!(duration::parse("never")?, Duration::MAX);
/// assert!(duration::parse("10").is_err());
/// # Ok::<(), tubewell::Error>(())
/// ```
pub fn parse(text: &str) -> Result<Duration> {
    let text = text.trim();
    if text == NEVER {
        return Ok(Duration::MAX);
    }
    let duration = length(text).map_err(Error::invalid)?;
    if duration.as_micros() >= u128::from(u64::MAX) {
        return Err(Error::invalid(TOO_LONG));
    }
    Ok(duration)
}

/// A duration as people read it: in its two largest units, rounded down, such as `1h30m`, `1.5s` or `250ms`;
/// `never` for [`Duration::MAX`]. What is shown is a duration for [`parse`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::duration;
///
/// assert_eq!(duration::show(Duration::from_secs(100_000)), "1d3h");
/// ```
#[must_use]
pub fn show(duration: Duration) -> String {
    match duration.as_secs() {
        _ if duration == Duration::MAX => NEVER.into(),
        0 => format!("{}ms", duration.as_millis()),
        seconds @ 1..60 if duration.subsec_millis() == 0 => format!("{seconds}s"),
        seconds @ 1..60 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        _ => in_two_units(duration),
    }
}

fn in_two_units(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let mut units = UNITS.iter().skip_while(|(_, unit)| nanos < *unit);
    let (Some((large, unit)), Some((small, part))) = (units.next(), units.next()) else {
        return text(duration);
    };
    match nanos % unit / part {
        0 => format!("{}{large}", nanos / unit),
        parts => format!("{}{large}{parts}{small}", nanos / unit),
    }
}

/// A duration in the largest unit of which it is a whole number: `250ms`, `90s`, `2m`, `1d`.
pub(crate) fn text(duration: Duration) -> String {
    in_units(duration, &UNITS)
}

/// The time of a durability: as [`text`], but at most in seconds.
pub(super) fn durability_time_text(duration: Duration) -> String {
    in_units(duration, &UNITS[DURABILITY_UNITS])
}

fn in_units(duration: Duration, units: &[(&str, u128)]) -> String {
    let nanos = duration.as_nanos();
    // Zero seconds is `0s`.
    let fits = |(_, unit): &&(&str, u128)| nanos.is_multiple_of(*unit) && nanos >= *unit;
    let (name, unit) = units.iter().find(fits).unwrap_or(&("s", 1_000_000_000));
    format!("{}{name}", nanos / unit)
}

/// Parses the length of a time, up to the longest [`Duration`]. Otherwise what is wrong with the text.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(format!("it is empty: {SHAPE}"));
    }
    let mut nanos = 0_u128;
    let mut rest = if text == "0" { "" } else { text };
    while !rest.is_empty() {
        let (part, tail) = first_part(rest)?;
        nanos = nanos.checked_add(part).ok_or(TOO_LONG)?;
        rest = tail;
    }
    let seconds = u64::try_from(nanos / SECOND).map_err(|_| TOO_LONG)?;
    let below = u32::try_from(nanos % SECOND).map_err(|_| TOO_LONG)?;
    Ok(Duration::new(seconds, below))
}

/// The first number with its unit, in nanoseconds, and what follows.
fn first_part(text: &str) -> Result<(u128, &str), String> {
    let is_number = |char: char| char.is_ascii_digit() || char == '.';
    let digits = text.find(|char| !is_number(char)).unwrap_or(text.len());
    let (number, tail) = text.split_at(digits);
    let letters = tail.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(tail.len());
    let (unit, tail) = tail.split_at(letters);
    if number.is_empty() {
        let is_negative = text.strip_prefix('-').is_some_and(|text| text.starts_with(is_number));
        return Err(if is_negative { format!("it is negative: {SHAPE}") } else { SHAPE.into() });
    }
    if unit.is_empty() {
        return Err(format!("{number} has no unit: {SHAPE}"));
    }
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    let (_, size) = known.ok_or_else(|| format!("unknown unit {unit:?}: {SHAPE}"))?;
    let part = scaled(number, *size).ok_or_else(|| format!("{number:?}: {SHAPE}"))?;
    Ok((part, tail))
}

/// Parses the time of a durability: a whole number of seconds or of a smaller unit.
pub(super) fn durability_time(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|char: char| char.is_ascii_digit());
    let mut units = UNITS[DURABILITY_UNITS].iter();
    units.any(|(name, _)| *name == unit).then(|| length(text).ok())?
}

/// A decimal number of units in nanoseconds, computed without floats.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.len() > FRACTION_MAX {
        return None;
    }
    let number = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    let (whole, parts): (u128, u128) = (number(whole)?, number(fraction)?);
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    whole.checked_mul(unit)?.checked_add(parts.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::duration;
    use super::*;

    #[test]
    fn duration_is_written_with_the_largest_whole_unit() {
        for (nanos, expected) in [
            (0, "0s"),
            (7, "7ns"),
            (1500, "1500ns"),
            (10_000, "10us"),
            (250_000_000, "250ms"),
            (90_000_000_000, "90s"),
            (120_000_000_000, "2m"),
            (86_400_000_000_000, "1d"),
            (90_000_000_000_000, "25h"),
        ] {
            assert_eq!(text(Duration::from_nanos(nanos)), expected);
        }
        assert_eq!(durability_time_text(Duration::from_secs(120)), "120s");
        assert_eq!(durability_time_text(Duration::ZERO), "0s");
    }

    /// What the library and the command accept, and what is wrong with all else.
    #[test]
    fn table_of_texts_of_durations() {
        const S: u64 = 1_000_000_000;
        for (text, nanos) in [
            ("0", 0),
            ("0s", 0),
            ("1ns", 1),
            ("1500us", 1_500_000),
            ("250ms", 250_000_000),
            ("1.5s", S + S / 2),
            (".5s", S / 2),
            ("1.s", S),
            ("1.000000000000000000s", S),
            ("10m", 600 * S),
            ("2h", 7200 * S),
            ("1d", 86_400 * S),
            ("1h30m", 5400 * S),
            ("1m0.25s", 60 * S + S / 4),
            ("0s1ms", 1_000_000),
            // In any order, and more than once.
            ("1ms2h1ms", 7200 * S + 2_000_000),
        ] {
            assert_eq!(length(text), Ok(Duration::from_nanos(nanos)), "{text}");
            assert_eq!(parse(&format!(" {text}\t")), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for (text, why) in [
            ("", "it is empty: write"),
            ("10", "10 has no unit: write"),
            ("00", "00 has no unit: write"),
            ("5 m", "5 has no unit: write"),
            ("1s5", "5 has no unit: write"),
            ("1,5s", "1 has no unit: write"),
            ("s", "write a number with a unit (ns, us, ms, s, m, h, d)"),
            ("+1s", "write a number"),
            ("\u{b5}s", "write a number"),
            ("-5s", "it is negative: write"),
            ("10x", "unknown unit \"x\": write"),
            ("1S", "unknown unit \"S\": write"),
            ("1w", "unknown unit \"w\": write"),
            ("1e3s", "unknown unit \"e\": write"),
            ("1.2.3s", "\"1.2.3\": write"),
            ("1..5s", "\"1..5\": write"),
            (".s", "\".\": write"),
            ("1.0000000000000000001s", "\"1.0000000000000000001\": write"),
            ("99999999999999999d", "it is too long: use never"),
            ("18446744073709551616s", "it is too long: use never"),
        ] {
            let refused = length(text).expect_err(text);
            assert!(refused.starts_with(why), "{text:?}: {refused}");
            assert_eq!(parse(text), Err(Error::invalid(refused)), "{text:?}");
        }
        assert!(length(&format!("{}d", "9".repeat(60))).is_err());
    }

    /// `never` and white space are of the whole text: they have no place within the texts of others.
    #[test]
    fn only_parse_accepts_never_and_white_space() {
        assert_eq!((parse("never"), parse(" never ")), (Ok(Duration::MAX), Ok(Duration::MAX)));
        for text in ["never", " 1s", "1s ", "1s\n"] {
            assert!(length(text).is_err(), "{text:?}");
        }
        for text in ["Never", "never1s", "1snever", "1s never"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    /// A store counts microseconds in 64 bits.
    #[test]
    fn parse_refuses_more_than_a_store_can_count() {
        let last = Duration::from_micros(u64::MAX - 1);
        assert_eq!(parse(&text(last)), Ok(last));
        let longer = text(last + Duration::from_micros(1));
        assert_eq!(parse(&longer), Err(Error::invalid(TOO_LONG)));
        assert_eq!(length(&longer), Ok(last + Duration::from_micros(1)));
        assert_eq!(length(&text(Duration::MAX)), Ok(Duration::MAX));
    }

    #[test]
    fn show_uses_the_two_largest_units_and_rounds_down() {
        for (nanos, text) in [
            (0, "0ms"),
            (1_999_999, "1ms"),
            (1_990_000_000, "1.9s"),
            (59_999_999_999, "59.9s"),
            (60_000_000_000, "1m"),
            (3_659_000_000_000, "1h"),
            (3_660_000_000_000, "1h1m"),
            (100_000_000_000_000, "1d3h"),
        ] {
            assert_eq!(show(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(show(Duration::MAX), "never");
        assert_eq!(show(Duration::new(u64::MAX, 0)), "213503982334601d7h");
    }

    proptest! {
        #[test]
        fn every_duration_survives_the_round_trip(duration in duration()) {
            prop_assert_eq!(length(&text(duration)), Ok(duration));
            prop_assert_eq!(durability_time(&durability_time_text(duration)), Some(duration));
        }

        /// Parsing never panics, and what is shown is not longer.
        #[test]
        fn every_text_is_rejected_or_shown(text in prop_oneof![any::<String>(), "([0-9.]{1,22}(d|h|m|s|ms|us|ns)){1,3}"]) {
            if let Ok(duration) = parse(&text) {
                let shown = parse(&show(duration)).unwrap();
                let lost = duration.checked_sub(shown);
                prop_assert!(lost.is_some_and(|lost| lost < Duration::from_secs(3600)));
            }
        }
    }
}
