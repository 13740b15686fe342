//! Durations as text: `250ms`, `1.5s`, `10m`, `1h30m`, `never`.

use std::time::Duration;

/// The hint for text that is not a duration.
const SHAPE: &str = "write a number with a unit (ms, s, m, h, d), such as 250ms, 1.5s, 10m, 1h30m";

/// From this many seconds on a duration stands for "never". A store can hold the number.
pub const NEVER_SECONDS: f64 = 1.8e13;

const UNITS: [(&str, u128); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Parses a duration of the command line or of an imported task.
pub fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    match text {
        "never" => return Ok(Duration::MAX),
        "0" => return Ok(Duration::ZERO),
        "" => return Err(format!("it is empty: {SHAPE}")),
        _ => {}
    }
    let mut nanos = 0_u128;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        if number.is_empty() {
            let is_digit = |c: char| c.is_ascii_digit() || c == '.';
            let negative = rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(is_digit));
            let why = if negative { format!("it is negative: {SHAPE}") } else { SHAPE.into() };
            return Err(why);
        }
        if unit.is_empty() {
            return Err(format!("{number} has no unit: {SHAPE}"));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("unknown unit {unit:?}: {SHAPE}"));
        };
        let part = scaled(number, *scale).ok_or_else(|| format!("{number:?}: {SHAPE}"))?;
        nanos = nanos.checked_add(part).ok_or("it is too long: use never")?;
        rest = tail;
    }
    // The store counts microseconds in 64 bits.
    if nanos / 1000 >= u128::from(u64::MAX) {
        return Err("it is too long: use never".into());
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| "it is too long: use never")?;
    let below = u32::try_from(nanos % 1_000_000_000).map_err(|_| SHAPE)?;
    Ok(Duration::new(seconds, below))
}

/// The duration of a number of seconds, as in JSON, rounded to the nearest microsecond. The store
/// would round it up, and a binary fraction may be a little more than its decimal number.
pub fn from_seconds(seconds: f64) -> Result<Duration, String> {
    let none = || format!("{seconds:?} seconds is not a duration");
    let nanos = Duration::try_from_secs_f64(seconds).map_err(|_| none())?.as_nanos();
    let micros = ((nanos + 500) / 1000).max(u128::from(nanos > 0));
    let micros = u64::try_from(micros).ok().filter(|micros| *micros < u64::MAX);
    micros.map(Duration::from_micros).ok_or_else(none)
}

/// A duration as text, in its two largest units, rounded down.
pub fn show(duration: Duration) -> String {
    if duration == Duration::MAX {
        return "never".into();
    }
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |large: u64, name, small: u64, below| match small {
        0 => format!("{large}{name}"),
        _ => format!("{large}{name}{small}{below}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..60 if duration.subsec_millis() == 0 => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        60..3600 => two(minutes, "m", seconds % 60, "s"),
        3600..86_400 => two(hours, "h", minutes, "m"),
        _ => two(days, "d", hours, "h"),
    }
}

/// `number` units in nanoseconds, computed without floats.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let size = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    whole.checked_mul(scale)?.checked_add(parts.checked_mul(scale)? / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reads_numbers_with_units() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1500),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            (".5s", 500),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("never"), Ok(Duration::MAX));
    }

    #[test]
    fn parse_refuses_other_text_with_a_hint() {
        for text in ["10", "", "s", "5 m", "1.2.3s", "-5s", "10x", "1h30", "99999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("10").err().map(|why| why.starts_with("10 has no unit")), Some(true));
        assert!(from_seconds(-1.0).is_err() && from_seconds(f64::NAN).is_err());
    }

    #[test]
    fn from_seconds_rounds_to_the_nearest_microsecond() {
        for micros in [0, 1, 345_671, 8_640_000_001_000, 3_155_695_212_345_671, 1 << 53] {
            let time = Duration::from_micros(micros);
            assert_eq!(from_seconds(time.as_secs_f64()), Ok(time));
        }
        assert_eq!(from_seconds(1e-9), Ok(Duration::from_micros(1)));
        assert!(from_seconds(1e300).is_err() && from_seconds(1.845e13).is_err());
    }

    #[test]
    fn show_uses_the_two_largest_units() {
        for (millis, text) in [
            (0, "0ms"),
            (250, "250ms"),
            (1500, "1.5s"),
            (2000, "2s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (100_000_000, "1d3h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
