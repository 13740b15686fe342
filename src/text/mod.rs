//! The text forms of small values: `Display`, `FromStr`, and serde by the same text.
//!
//! Stored texts outlive a release: a text that was once written must stay readable. The same holds
//! for the types that derive serde: a field that is added later needs `#[serde(default)]`.
//!
//! This folder knows the values and nothing above them. The command reads and prints the same texts, and
//! `durations.rs` is the one parser and printer of durations.

#[cfg(feature = "serde")]
mod by_text;
mod dates;
pub(crate) mod durations;
mod escaped;
mod policies;
mod schedules;
#[cfg(test)]
mod testing;

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::values::step::StepKind;
use crate::{Durability, Error, EventKind, OnParent, Result, SessionId, TaskState};
use durations::{durability_time, durability_time_text};

/// The longest part of a rejected text that an error repeats, in characters.
const QUOTED_MAX: usize = 40;

/// The value whose name is `text`.
fn named<T: Copy>(text: &str, of: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T> {
    all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|value| name(*value)).collect();
        Error::invalid(format!("{} is not {of}; use one of {}", quoted(text), names.join(", ")))
    })
}

/// The text in quotes, cut off if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

const STATES: [TaskState; 7] = [
    TaskState::Ready,
    TaskState::Taken,
    TaskState::Delayed,
    TaskState::Blocked,
    TaskState::Buried,
    TaskState::Done,
    TaskState::Recurring,
];

impl Display for TaskState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TaskState {
    type Err = Error;

    fn from_str(text: &str) -> Result<TaskState> {
        named(text, "a state", &STATES, TaskState::as_str)
    }
}

const EVENT_KINDS: [EventKind; 29] = [
    EventKind::Put,
    EventKind::Replace,
    EventKind::Take,
    EventKind::Ack,
    EventKind::Release,
    EventKind::Revoke,
    EventKind::Touch,
    EventKind::Checkpoint,
    EventKind::Progress,
    EventKind::Fail,
    EventKind::Snooze,
    EventKind::Lost,
    EventKind::Bury,
    EventKind::Kick,
    EventKind::Delete,
    EventKind::Ttl,
    EventKind::Ttr,
    EventKind::Delay,
    EventKind::Block,
    EventKind::Unblock,
    EventKind::Resolve,
    EventKind::Forget,
    EventKind::Schedule,
    EventKind::Spawn,
    EventKind::Advance,
    EventKind::Move,
    EventKind::Update,
    EventKind::Log,
    EventKind::Step,
];

impl EventKind {
    /// The name of the kind: `put`, `replace`, `take`, `ack`, `release`, `revoke`, `touch`,
    /// `checkpoint`, `progress`, `fail`, `snooze`, `lost`, `bury`, `kick`, `delete`, `ttl`, `ttr`,
    /// `delay`, `block`, `unblock`, `resolve`, `forget`, `schedule`, `spawn`, `advance`, `move`,
    /// `update`, `log` or `step`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Put => "put",
            EventKind::Replace => "replace",
            EventKind::Take => "take",
            EventKind::Ack => "ack",
            EventKind::Release => "release",
            EventKind::Revoke => "revoke",
            EventKind::Touch => "touch",
            EventKind::Checkpoint => "checkpoint",
            EventKind::Progress => "progress",
            EventKind::Fail => "fail",
            EventKind::Snooze => "snooze",
            EventKind::Lost => "lost",
            EventKind::Bury => "bury",
            EventKind::Kick => "kick",
            EventKind::Delete => "delete",
            EventKind::Ttl => "ttl",
            EventKind::Ttr => "ttr",
            EventKind::Delay => "delay",
            EventKind::Block => "block",
            EventKind::Unblock => "unblock",
            EventKind::Resolve => "resolve",
            EventKind::Forget => "forget",
            EventKind::Schedule => "schedule",
            EventKind::Spawn => "spawn",
            EventKind::Advance => "advance",
            EventKind::Move => "move",
            EventKind::Update => "update",
            EventKind::Log => "log",
            EventKind::Step => "step",
        }
    }
}

impl Display for EventKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<EventKind> {
        named(text, "an event kind", &EVENT_KINDS, EventKind::as_str)
    }
}

impl Display for StepKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for StepKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<StepKind> {
        named(text, "a kind of step", &StepKind::ALL, StepKind::as_str)
    }
}

const ON_PARENTS: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

impl Display for OnParent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OnParent {
    type Err = Error;

    fn from_str(text: &str) -> Result<OnParent> {
        named(text, "a rule for parents", &ON_PARENTS, OnParent::as_str)
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
    fn states_and_event_kinds_are_parsed_from_their_names_only() {
        STATES.into_iter().for_each(assert_round_trip);
        EVENT_KINDS.into_iter().for_each(assert_round_trip);
        StepKind::ALL.into_iter().for_each(assert_round_trip);
        assert_invalid::<TaskState>(&["", "Ready", "r", "ready ", "gone"]);
        assert_invalid::<EventKind>(&["", "PUT", "puts"]);
        assert_eq!(format!("{:>8}|{:<8}", TaskState::Ready, EventKind::Ack), "   ready|ack     ");
        let error = "gone".parse::<TaskState>().unwrap_err();
        let text = r#""gone" is not a state; use one of ready, taken, delayed, blocked, buried, done, recurring"#;
        assert_eq!(error.to_string(), text);
    }

    /// The text of a name is stored by applications.
    #[test]
    fn names_of_states_and_event_kinds_stay_the_same() {
        let states: Vec<&str> = STATES.into_iter().map(TaskState::as_str).collect();
        assert_eq!(states.join(" "), "ready taken delayed blocked buried done recurring");
        let kinds: Vec<&str> = EVENT_KINDS.into_iter().map(EventKind::as_str).collect();
        let names = "put replace take ack release revoke touch checkpoint progress fail snooze lost \
             bury kick delete ttl ttr delay block unblock resolve forget schedule spawn advance move \
             update log step";
        assert_eq!(kinds.join(" "), names);
        let kinds = StepKind::ALL.map(StepKind::as_str);
        assert_eq!(kinds.join(" "), "value spawned sleep join");
    }

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
            let _ = (text.parse::<Durability>(), text.parse::<SessionId>(), text.parse::<TaskState>());
        }
    }
}
