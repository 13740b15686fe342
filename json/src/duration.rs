//! Durations as text, whose forms the library has, and as numbers of seconds.

use std::time::Duration;

pub use tubewell::duration::show;

/// From this many seconds on a duration stands for "never". A store can hold the number.
pub const NEVER_SECONDS: f64 = 1.8e13;

/// Parses a duration of the command line or of an imported task.
pub fn parse(text: &str) -> Result<Duration, String> {
    tubewell::duration::parse(text).map_err(|error| error.to_string())
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
        assert_eq!(parse("1500us"), Ok(Duration::from_micros(1500)));
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
