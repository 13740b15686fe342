//! The names of enum values, each written once. Applications store and compare them, so a name never changes.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::quoted;
use crate::values::ending::FailureKind;
use crate::values::step::StepKind;
use crate::{Counting, Error, EventKind, OnKey, OnParent, Overlap, Result, TaskState};

/// `as_str`, `Display` and `FromStr` of an enum, from the names of its values.
macro_rules! names {
    ($(#[$doc:meta])* $visible:vis $type:ident, $what:literal: $($value:ident $name:literal,)*) => {
        impl $type {
            pub(crate) const NAMED: &[$type] = &[$($type::$value,)*];

            $(#[$doc])*
            #[must_use]
            $visible fn as_str(self) -> &'static str {
                match self {
                    $($type::$value => $name,)*
                }
            }
        }

        impl Display for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<$type> {
                let all = $type::NAMED;
                let found = all.iter().copied().find(|value| value.as_str() == text);
                found.ok_or_else(|| {
                    let names: Vec<&str> = all.iter().map(|value| value.as_str()).collect();
                    Error::invalid(format!(
                        "{} is not {}; use one of {}", quoted(text), $what, names.join(", ")
                    ))
                })
            }
        }
    };
}

names! {
    /// The name of the state, such as `ready`. It is also its text.
    pub TaskState, "a state":
    Ready "ready",
    Taken "taken",
    Delayed "delayed",
    Blocked "blocked",
    Buried "buried",
    Done "done",
    Recurring "recurring",
}

names! {
    /// The name of the kind in lower case, such as `put`. It is also its text.
    pub EventKind, "an event kind":
    Put "put",
    Replace "replace",
    Take "take",
    Ack "ack",
    Release "release",
    Revoke "revoke",
    Touch "touch",
    Checkpoint "checkpoint",
    Progress "progress",
    Fail "fail",
    Snooze "snooze",
    Lost "lost",
    Bury "bury",
    Kick "kick",
    Delete "delete",
    Ttl "ttl",
    Ttr "ttr",
    Delay "delay",
    Block "block",
    Unblock "unblock",
    Resolve "resolve",
    Forget "forget",
    Schedule "schedule",
    Spawn "spawn",
    Advance "advance",
    Move "move",
    Update "update",
    Log "log",
    Step "step",
}

names! {
    /// The name of the kind in lower case, such as `reported`. It is also its text.
    pub FailureKind, "a kind of failure":
    Reported "reported",
    Call "call",
    Expired "expired",
    Lost "lost",
    Released "released",
    Parent "parent",
}

names! {
    pub(crate) StepKind, "a kind of step":
    Value "value",
    Spawned "spawned",
    Sleep "sleep",
    Join "join",
}

names! {
    pub(crate) OnParent, "a rule for parents":
    Wait "wait",
    Release "release",
    Bury "bury",
}

names! {
    pub(crate) OnKey, "an answer to a key in use":
    Reject "reject",
    Keep "keep",
    Replace "replace",
}

names! {
    pub(crate) Overlap, "a rule for runs that overlap":
    Allow "allow",
    Skip "skip",
}

names! {
    pub(crate) Counting, "a counting":
    Lazily "lazily",
    Written "written",
    Flushed "flushed",
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{assert_invalid, assert_round_trip};
    use super::*;

    #[test]
    fn values_are_parsed_from_their_names_only() {
        TaskState::NAMED.iter().copied().for_each(assert_round_trip);
        EventKind::NAMED.iter().copied().for_each(assert_round_trip);
        FailureKind::NAMED.iter().copied().for_each(assert_round_trip);
        StepKind::NAMED.iter().copied().for_each(assert_round_trip);
        OnParent::NAMED.iter().copied().for_each(assert_round_trip);
        OnKey::NAMED.iter().copied().for_each(assert_round_trip);
        Overlap::NAMED.iter().copied().for_each(assert_round_trip);
        Counting::NAMED.iter().copied().for_each(assert_round_trip);
        assert_invalid::<TaskState>(&["", "Ready", "r", "ready ", "gone"]);
        assert_invalid::<EventKind>(&["", "PUT", "puts"]);
        assert_invalid::<Overlap>(&["", "Allow", "no"]);
        assert_eq!(format!("{:>8}|{:<8}", TaskState::Ready, EventKind::Ack), "   ready|ack     ");
        let error = "gone".parse::<TaskState>().unwrap_err();
        let text = r#""gone" is not a state; use one of ready, taken, delayed, blocked, buried, done, recurring"#;
        assert_eq!(error.to_string(), text);
    }

    proptest! {
        /// Parsing never panics.
        #[test]
        fn every_text_is_rejected_or_parsed(text in any::<String>()) {
            let _ = (text.parse::<TaskState>(), text.parse::<EventKind>(), text.parse::<OnKey>());
        }
    }

    /// The text of a name is stored by applications.
    #[test]
    fn names_stay_the_same() {
        fn names<T: Display>(all: &[T]) -> String {
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }
        let states = "ready taken delayed blocked buried done recurring";
        assert_eq!(names(TaskState::NAMED), states);
        let kinds = "put replace take ack release revoke touch checkpoint progress fail snooze lost \
             bury kick delete ttl ttr delay block unblock resolve forget schedule spawn advance move \
             update log step";
        assert_eq!(names(EventKind::NAMED), kinds);
        let failures = "reported call expired lost released parent";
        assert_eq!(names(FailureKind::NAMED), failures);
        assert_eq!(names(StepKind::NAMED), "value spawned sleep join");
        assert_eq!(names(OnParent::NAMED), "wait release bury");
        assert_eq!(names(OnKey::NAMED), "reject keep replace");
        assert_eq!(names(Overlap::NAMED), "allow skip");
        assert_eq!(names(Counting::NAMED), "lazily written flushed");
    }
}
