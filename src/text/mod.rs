//! The text forms of small values: `Display`, `FromStr`, and serde by the same text.
//!
//! Stored texts outlive a release: a text that was once written must stay readable. The same holds
//! for the types that derive serde: a field that is added later needs `#[serde(default)]`.
//!
//! This folder knows the values and nothing above them. The command reads and prints the same texts, and
//! `durations.rs` is the one parser and printer of durations, `names.rs` the one list of the names of enum
//! values.

#[cfg(feature = "serde")]
mod by_text;
pub(crate) mod dates;
pub(crate) mod durations;
mod escaped;
mod exposition;
mod names;
mod policies;
mod schedules;
pub(crate) mod scrape;
#[cfg(test)]
mod testing;

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::{Durability, Error, Result, SessionId};
use durations::{durability_time, durability_time_text};

/// The longest part of a rejected text that an error repeats, in characters.
const QUOTED_MAX: usize = 40;

/// The text in quotes, cut off if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

impl Display for Durability {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Flush => f.pad("flush"),
            Durability::Write { flush_within } => {
                f.pad(&format!("write({})", durability_time_text(*flush_within)))
            }
            Durability::Relaxed { max_delay } => {
                f.pad(&format!("relaxed({})", durability_time_text(*max_delay)))
            }
        }
    }
}

impl FromStr for Durability {
    type Err = Error;

    fn from_str(text: &str) -> Result<Durability> {
        match text {
            "flush" => return Ok(Durability::Flush),
            "write" => return Ok(Durability::write()),
            "relaxed" => return Ok(Durability::relaxed()),
            _ => {}
        }
        let time = |name| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(flush_within) = time("write").and_then(durability_time) {
            return Ok(Durability::Write { flush_within });
        }
        if let Some(max_delay) = time("relaxed").and_then(durability_time) {
            return Ok(Durability::Relaxed { max_delay });
        }
        let text = quoted(text);
        Err(Error::invalid(format!(
            "{text} is not a durability; use flush, write(50ms) or relaxed(50ms)"
        )))
    }
}

impl FromStr for SessionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<SessionId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| digits)
            .map(|number| SessionId::from_bytes(number.to_be_bytes()))
            .ok_or_else(|| {
                let text = quoted(text);
                Error::invalid(format!("{text} is not a session id; one has 32 hexadecimal digits"))
            })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::testing::{assert_invalid, assert_round_trip, duration};
    use super::*;

    #[test]
    fn durability_is_written_with_the_largest_whole_unit() {
        let text = |max_delay| Durability::Relaxed { max_delay }.to_string();
        assert_eq!(Durability::Flush.to_string(), "flush");
        assert_eq!(text(Duration::ZERO), "relaxed(0s)");
        assert_eq!(text(Duration::from_secs(2)), "relaxed(2s)");
        assert_eq!(text(Duration::from_millis(1500)), "relaxed(1500ms)");
        assert_eq!(text(Duration::from_micros(10)), "relaxed(10us)");
        assert_eq!(text(Duration::from_nanos(7)), "relaxed(7ns)");
        assert_eq!("relaxed".parse(), Ok(Durability::relaxed()));
        assert_eq!(Durability::write().to_string(), "write(50ms)");
        assert_eq!("write".parse(), Ok(Durability::write()));
        assert_round_trip(Durability::Flush);
        assert_round_trip(Durability::Relaxed { max_delay: Duration::MAX });
        assert_round_trip(Durability::Write { flush_within: Duration::MAX });
    }

    #[test]
    fn durability_rejects_other_texts() {
        assert_invalid::<Durability>(&[
            "",
            "Flush",
            "write()",
            "write(50)",
            "write(1s",
            "relaxed()",
            "relaxed(50)",
            "relaxed(ms)",
            "relaxed(-1s)",
            "relaxed(+1s)",
            "relaxed(1.5s)",
            "relaxed(1s) ",
            "relaxed(1m)",
            "relaxed(18446744073709551616s)",
            "relaxed(999999999999999999999999999999999999999999s)",
        ]);
    }

    proptest! {
        #[test]
        fn every_durability_survives_the_round_trip(max_delay in duration()) {
            assert_round_trip(Durability::Relaxed { max_delay });
        }

        #[test]
        fn every_session_id_survives_the_round_trip(bytes in any::<[u8; 16]>()) {
            assert_round_trip(SessionId::from_bytes(bytes));
        }

        /// Parsing never panics.
        #[test]
        fn every_text_is_rejected_or_parsed(text in any::<String>()) {
            let _ = (text.parse::<Durability>(), text.parse::<SessionId>());
        }
    }
}
