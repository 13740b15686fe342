//! The texts of the policies of tubes. They need no quotes in a shell.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use super::{durations, quoted};
use crate::values::policy::LONGEST_BACKOFF;
use crate::{Backoff, Error, Keep, Rate, Result};

impl Display for Backoff {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Backoff::none() {
            return f.pad("none");
        }
        let Backoff { first, factor, cap, jitter } = *self;
        let fields = [
            (factor != 1000).then(|| format!("factor={}", decimal(factor))),
            (cap != LONGEST_BACKOFF).then(|| format!("cap={}", durations::text(cap))),
            (jitter != 0).then(|| format!("jitter={}", decimal(jitter))),
        ];
        let parts: Vec<String> =
            std::iter::once(durations::text(first)).chain(fields.into_iter().flatten()).collect();
        f.pad(&parts.join(","))
    }
}

impl FromStr for Backoff {
    type Err = Error;

    fn from_str(text: &str) -> Result<Backoff> {
        let backoff = parse_backoff(text).ok_or_else(|| {
            Error::invalid(format!(
                "{} is not a backoff; use none, a delay such as 10s, or \
                 1s,factor=2,cap=1h,jitter=0.5",
                quoted(text)
            ))
        })?;
        backoff.check()?;
        Ok(backoff)
    }
}

fn parse_backoff(text: &str) -> Option<Backoff> {
    if text == "none" {
        return Some(Backoff::none());
    }
    let (first, rest) = text.split_once(',').map_or((text, None), |(one, rest)| (one, Some(rest)));
    let mut backoff = Backoff::constant(durations::length(first).ok()?);
    let [mut factor, mut cap, mut jitter]: [Option<&str>; 3] = [None; 3];
    fields(rest, &mut [("factor", &mut factor), ("cap", &mut cap), ("jitter", &mut jitter)])?;
    if let Some(factor) = factor {
        backoff.factor = thousandths(factor)?;
    }
    if let Some(cap) = cap {
        backoff.cap = durations::length(cap).ok()?;
    }
    if let Some(jitter) = jitter {
        backoff.jitter = thousandths(jitter)?;
    }
    Some(backoff)
}

impl Display for Keep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let count = self.count.map(|count| format!("count={count}"));
        let age = self.age.map(|age| format!("age={}", durations::text(age)));
        match (count, age) {
            (None, None) => f.pad("all"),
            (Some(limit), None) | (None, Some(limit)) => f.pad(&limit),
            (Some(count), Some(age)) => f.pad(&format!("{count},{age}")),
        }
    }
}

impl FromStr for Keep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Keep> {
        parse_keep(text).ok_or_else(|| {
            Error::invalid(format!(
                "{} is not a retention; use all, count=1000, age=1d, or count=1000,age=1d",
                quoted(text)
            ))
        })
    }
}

fn parse_keep(text: &str) -> Option<Keep> {
    if text == "all" {
        return Some(Keep::new());
    }
    let [mut count, mut age]: [Option<&str>; 2] = [None; 2];
    fields(Some(text), &mut [("count", &mut count), ("age", &mut age)])?;
    let count = count.map(|text| whole(text).ok_or(())).transpose().ok()?;
    let age: Option<Duration> = age.map(durations::length).transpose().ok()?;
    Some(Keep { count, age })
}

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.count, durations::text(self.period)))
    }
}

impl FromStr for Rate {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rate> {
        let rate = parse_rate(text).ok_or_else(|| {
            Error::invalid(format!(
                "{} is not a rate; use a number and a time, as 10/1s or 5000/h",
                quoted(text)
            ))
        })?;
        rate.check()?;
        Ok(rate)
    }
}

fn parse_rate(text: &str) -> Option<Rate> {
    let (count, period) = text.split_once('/')?;
    let count = u32::try_from(whole(count)?).ok()?;
    // A unit alone is one of it.
    let period = if period.starts_with(|char: char| char.is_ascii_alphabetic()) {
        durations::length(&format!("1{period}"))
    } else {
        durations::length(period)
    };
    let period = period.ok()?;
    Some(Rate { count, period })
}

/// Reads `name=value` fields, separated by commas, each at most once and in any order.
fn fields<'t>(text: Option<&'t str>, known: &mut [(&str, &mut Option<&'t str>)]) -> Option<()> {
    for field in text.into_iter().flat_map(|text| text.split(',')) {
        let (name, value) = field.split_once('=')?;
        let (_, place) = known.iter_mut().find(|(known, _)| *known == name)?;
        if place.replace(value).is_some() {
            return None;
        }
    }
    Some(())
}

/// Thousandths as a decimal number without trailing zeros.
fn decimal(thousandths: u32) -> String {
    let (whole, rest) = (thousandths / 1000, thousandths % 1000);
    let text = format!("{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A decimal number with up to three digits behind the point, in thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let (number, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if !(1..=3).contains(&fraction.len()) {
        return None;
    }
    let rest = u32::try_from(whole(&format!("{fraction:0<3}"))?).ok()?;
    u32::try_from(whole(number)?).ok()?.checked_mul(1000)?.checked_add(rest)
}

/// A number of digits only.
fn whole(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::*;

    use super::super::testing::{assert_invalid, assert_round_trip, duration};
    use super::*;
    use crate::{Counting, OnKey};

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = Duration::from_secs(86_400);

    /// Applications store these texts, and scripts contain them.
    #[test]
    fn texts_of_policies_stay_the_same() {
        let exponential = Backoff::exponential(SECOND);
        for (backoff, text) in [
            (Backoff::none(), "none"),
            (Backoff::constant(SECOND * 10), "10s"),
            (Backoff::constant(SECOND * 90), "90s"),
            (exponential, "1s,factor=2"),
            (exponential.factor(1.5), "1s,factor=1.5"),
            (exponential.cap(SECOND * 60), "1s,factor=2,cap=1m"),
            (exponential.factor(3.0).cap(DAY).jitter(0.5), "1s,factor=3,cap=1d,jitter=0.5"),
            (exponential.factor(1000.0).jitter(1.0), "1s,factor=1000,jitter=1"),
            (exponential.factor(1.001).jitter(0.001), "1s,factor=1.001,jitter=0.001"),
            (Backoff::exponential(Duration::ZERO), "0s,factor=2"),
        ] {
            assert_eq!(backoff.to_string(), text);
            assert_eq!(text.parse(), Ok(backoff));
        }
        let keep = Keep::new();
        for (keep, text) in [
            (keep, "all"),
            (keep.count(1000), "count=1000"),
            (keep.age(DAY), "age=1d"),
            (keep.count(0).age(Duration::ZERO), "count=0,age=0s"),
            (keep.count(u64::MAX).age(SECOND * 90), "count=18446744073709551615,age=90s"),
        ] {
            assert_eq!(keep.to_string(), text);
            assert_eq!(text.parse(), Ok(keep));
        }
        for (rate, text) in [
            (Rate::per(10, SECOND), "10/1s"),
            (Rate::per(1, SECOND / 2), "1/500ms"),
            (Rate::per(u32::MAX, DAY), "4294967295/1d"),
        ] {
            assert_eq!(rate.to_string(), text);
            assert_eq!(text.parse(), Ok(rate));
        }
        assert_eq!(format!("{:>8}|{:<8}|", Counting::Lazily, Keep::new()), "  lazily|all     |");
    }

    #[test]
    fn fields_have_any_order_and_durations_of_the_command() {
        let keep = Keep::new().count(5).age(SECOND * 5400);
        assert_eq!("age=1h30m,count=5".parse(), Ok(keep));
        let backoff = Backoff::constant(SECOND * 3 / 2).cap(DAY * 2).jitter(0.25);
        assert_eq!("1.5s,jitter=0.250,cap=48h,factor=1.0".parse(), Ok(backoff));
        assert_eq!("0s".parse(), Ok(Backoff::none()));
        assert_eq!("0".parse(), Ok(Backoff::none()));
        assert_eq!("age=0,count=5".parse(), Ok(keep.age(Duration::ZERO)));
        assert_eq!("age=.5s".parse(), Ok(Keep::new().age(SECOND / 2)));
        assert_eq!("10/.5s".parse(), Ok(Rate::per(10, SECOND / 2)));
        assert_eq!("10/s".parse(), Ok(Rate::per(10, SECOND)));
        assert_eq!("5000/1h30m".parse(), Ok(Rate::per(5000, SECOND * 5400)));
    }

    #[test]
    fn other_texts_are_refused_with_what_is_expected() {
        assert_invalid::<OnKey>(&["", "Keep", "keep "]);
        assert_invalid::<Counting>(&["", "Written", "write", "lazily "]);
        assert_invalid::<Backoff>(&[
            "",
            "never",
            "10",
            "none,cap=1s",
            "1s,",
            "1s,2s",
            "1s,factor",
            "1s,factor=",
            "1s,factor=2,factor=2",
            "1s,factor=0.5",
            "1s,factor=1001",
            "1s,factor=1.2345",
            "1s,factor=2.",
            "1s,factor=.5",
            "1s,factor=-2",
            "1s,factor=+2",
            "1s,factor=1e2",
            "1s,factor=NaN",
            "1s,factor=4294968",
            "1s,jitter=1.001",
            "1s,cap=5",
            "1s, cap=5s",
            "1s,cap=never",
            "factor=2,1s",
        ]);
        assert_invalid::<Keep>(&[
            "",
            "none",
            "all,count=1",
            "count",
            "count=",
            "count=-1",
            "count=+1",
            "count=1,count=2",
            "count=18446744073709551616",
            "age=1",
            "age=1d,",
            "age=never",
            "1000",
        ]);
        assert_invalid::<Rate>(&[
            "",
            "10",
            "/s",
            "10/",
            "0/s",
            "10/0s",
            "10/366d",
            "-1/s",
            "+1/s",
            "1.5/s",
            "4294967296/s",
            "10/s/s",
            "10/0",
            "10/1",
            "10/never",
            "10 / s",
            "10/S",
        ]);
        let message = |error: Error| error.to_string();
        assert_eq!(
            message("fast".parse::<Rate>().unwrap_err()),
            "\"fast\" is not a rate; use a number and a time, as 10/1s or 5000/h"
        );
        assert_eq!(
            message("soon".parse::<Backoff>().unwrap_err()),
            "\"soon\" is not a backoff; use none, a delay such as 10s, or \
             1s,factor=2,cap=1h,jitter=0.5"
        );
        assert_eq!(
            message("1s,factor=0.5".parse::<Backoff>().unwrap_err()),
            "the factor of a backoff must be from 1 to 1000"
        );
        assert_eq!(
            message("few".parse::<Keep>().unwrap_err()),
            "\"few\" is not a retention; use all, count=1000, age=1d, or count=1000,age=1d"
        );
        assert_eq!(
            message("later".parse::<Counting>().unwrap_err()),
            "\"later\" is not a counting; use one of lazily, written, flushed"
        );
    }

    proptest! {
        #[test]
        fn every_backoff_survives_the_round_trip(
            (first, cap) in (duration(), duration()),
            (factor, jitter) in (1000..=1_000_000_u32, 0..=1000_u32),
        ) {
            for factor in [factor, 1000] {
                for cap in [cap, LONGEST_BACKOFF] {
                    assert_round_trip(Backoff { first, factor, cap, jitter });
                }
            }
        }

        #[test]
        fn every_retention_survives_the_round_trip(
            count in option::of(any::<u64>()),
            age in option::of(duration()),
        ) {
            assert_round_trip(Keep { count, age });
        }

        #[test]
        fn every_rate_survives_the_round_trip(
            (count, nanos) in (1..=u32::MAX, 1..=31_536_000_000_000_000_u64),
        ) {
            assert_round_trip(Rate::per(count, Duration::from_nanos(nanos)));
        }

        /// Parsing never panics, and what it accepts is written in a form that parses.
        #[test]
        fn every_text_is_rejected_or_has_a_value(
            text in prop_oneof![any::<String>(), "[0-9.,=a-z]{0,30}", "1s(,(factor|cap|jitter)=[0-9.smh]{0,6}){0,4}", "[0-9]{0,11}/[0-9.smhd]{0,6}"],
        ) {
            if let Ok(backoff) = text.parse::<Backoff>() {
                assert_round_trip(backoff);
            }
            if let Ok(keep) = text.parse::<Keep>() {
                assert_round_trip(keep);
            }
            if let Ok(rate) = text.parse::<Rate>() {
                assert_round_trip(rate);
            }
            let _ = text.parse::<Counting>();
            let _ = text.parse::<OnKey>();
        }
    }
}
