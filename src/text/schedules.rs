//! The texts of what schedules have.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::{durations, quoted};
use crate::values::schedule::Recurrence;
use crate::{Error, Missed, Result};

impl Display for Recurrence {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Recurrence::Every(interval) => f.pad(&format!("every {}", durations::text(*interval))),
            Recurrence::Cron { expression, zone } => f.pad(&format!("cron {expression} in {zone}")),
        }
    }
}

impl Display for Missed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Missed::Latest(runs) => f.pad(&runs.to_string()),
            Missed::All => f.pad("all"),
            Missed::Skip => f.pad("skip"),
        }
    }
}

impl FromStr for Missed {
    type Err = Error;

    fn from_str(text: &str) -> Result<Missed> {
        let missed = match text {
            "all" => Some(Missed::All),
            "skip" => Some(Missed::Skip),
            // One text for each number.
            number => number
                .parse::<u32>()
                .ok()
                .filter(|runs| runs.to_string() == number)
                .map(Missed::Latest),
        };
        missed.filter(|missed| missed.check().is_ok()).ok_or_else(|| {
            let text = quoted(text);
            Error::invalid(format!(
                "{text} does not say which missed runs are made up for; use a number from 1 to 100 \
                 of the newest ones, all, or skip"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{assert_invalid, assert_round_trip};
    use super::*;

    #[test]
    fn rules_of_schedules_have_texts() {
        for missed in [Missed::All, Missed::Skip, Missed::Latest(1), Missed::Latest(100)] {
            assert_round_trip(missed);
        }
        assert_invalid::<Missed>(&["", "0", "101", "+1", "01", "All", "latest"]);
        let every = Recurrence::Every(Duration::from_secs(3600));
        assert_eq!(every.to_string(), "every 1h");
        let (expression, zone) = ("0 9 * * *".to_owned(), "UTC".to_owned());
        assert_eq!(Recurrence::Cron { expression, zone }.to_string(), "cron 0 9 * * * in UTC");
    }
}
