//! The texts of durations within other texts.

use std::time::Duration;

/// Units with their nanoseconds, the largest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
];
/// The units of a durability are those from seconds on.
const DURABILITY_UNITS: std::ops::RangeFrom<usize> = 3..;
/// More digits than this behind the point would not change a duration.
const FRACTION_MAX: usize = 18;

/// A duration in the largest unit of which it is a whole number: `250ms`, `90s`, `2m`, `1d`.
pub(super) fn text(duration: Duration) -> String {
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

/// Parses numbers with units, as the command does: `250ms`, `1.5s`, `1h30m`.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut nanos = 0_u128;
    let mut rest = text;
    loop {
        let is_number = |char: char| char.is_ascii_digit() || char == '.';
        let (number, tail) = rest.split_at(rest.find(|char| !is_number(char))?);
        let end = tail.find(is_number).unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        let (_, unit) = UNITS.iter().find(|(known, _)| *known == name)?;
        nanos = nanos.checked_add(scaled(number, *unit)?)?;
        rest = tail;
        if rest.is_empty() {
            return from_nanos(nanos);
        }
    }
}

/// Parses the time of a durability: a whole number with its unit.
pub(super) fn durability_time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(digits);
    let units = &UNITS[DURABILITY_UNITS];
    let (_, unit) = units.iter().find(|(known, _)| *known == name)?;
    from_nanos(number.parse::<u128>().ok()?.checked_mul(*unit)?)
}

/// A decimal number of units in nanoseconds, computed without floats.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_valid = !fraction.is_empty() && fraction.len() <= FRACTION_MAX;
    let parts: u128 = fraction.parse().ok().filter(|_| is_valid)?;
    let scale = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole: u128 = whole.parse().ok()?;
    whole.checked_mul(unit)?.checked_add(parts.checked_mul(unit)? / scale)
}

fn from_nanos(nanos: u128) -> Option<Duration> {
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).ok()?))
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

    #[test]
    fn parse_accepts_decimal_numbers_and_several_units() {
        for (text, millis) in [
            ("0s", 0),
            ("1.5s", 1500),
            ("1h30m", 5_400_000),
            ("1m0.25s", 60_250),
            ("0s1ms", 1),
            ("1.000000000000000000s", 1000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "1", "s", "1S", "1w", " 1s", "1s ", "-1s", "+1s", "1..5s", ".5s", "1.s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in ["1s5", "1.0000000000000000001s", "18446744073709551616s", "1e3s", "1,5s"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{}d", "9".repeat(60))), None);
    }

    proptest! {
        #[test]
        fn every_duration_survives_the_round_trip(duration in duration()) {
            prop_assert_eq!(parse(&text(duration)), Some(duration));
            prop_assert_eq!(durability_time(&durability_time_text(duration)), Some(duration));
        }
    }
}
