//! The text forms of small values: `Display`, `FromStr`, and serde by the same text.
//!
//! Stored texts outlive a release: a text that was once written must stay readable. The same holds
//! for the types that derive serde: a field that is added later needs `#[serde(default)]`.

use std::fmt::{self, Display, Formatter, Write};
use std::str::FromStr;
use std::time::Duration;

use tubewell_drivers::{Position, SUB_QUEUE_MAX, Shelf, TUBE_NAME_MAX};

use crate::{ClaimToken, Cursor, Durability, Error, EventKind, Result, SessionId, State};

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
fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

const STATES: [State; 5] = [State::Ready, State::Taken, State::Delayed, State::Buried, State::Done];

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<State> {
        named(text, "a state", &STATES, State::as_str)
    }
}

const EVENT_KINDS: [EventKind; 15] = [
    EventKind::Put,
    EventKind::Take,
    EventKind::Ack,
    EventKind::Release,
    EventKind::Touch,
    EventKind::Checkpoint,
    EventKind::Fail,
    EventKind::Snooze,
    EventKind::Lost,
    EventKind::Bury,
    EventKind::Kick,
    EventKind::Delete,
    EventKind::Ttl,
    EventKind::Ttr,
    EventKind::Delay,
];

impl EventKind {
    /// The name of the kind: `put`, `take`, `ack`, `release`, `touch`, `checkpoint`, `fail`,
    /// `snooze`, `lost`, `bury`, `kick`, `delete`, `ttl`, `ttr` or `delay`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Put => "put",
            EventKind::Take => "take",
            EventKind::Ack => "ack",
            EventKind::Release => "release",
            EventKind::Touch => "touch",
            EventKind::Checkpoint => "checkpoint",
            EventKind::Fail => "fail",
            EventKind::Snooze => "snooze",
            EventKind::Lost => "lost",
            EventKind::Bury => "bury",
            EventKind::Kick => "kick",
            EventKind::Delete => "delete",
            EventKind::Ttl => "ttl",
            EventKind::Ttr => "ttr",
            EventKind::Delay => "delay",
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

/// Units of a duration's text, in nanoseconds, the largest first.
const UNITS: [(&str, u128); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];

impl Display for Durability {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Flush => f.pad("flush"),
            Durability::Write { flush_within } => {
                f.pad(&format!("write({})", duration_text(*flush_within)))
            }
            Durability::Relaxed { max_delay } => {
                f.pad(&format!("relaxed({})", duration_text(*max_delay)))
            }
        }
    }
}

/// A duration in the largest unit of which it is a whole number.
fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let unit = UNITS.into_iter().find(|(_, unit)| nanos.is_multiple_of(*unit));
    let (name, unit) = unit.unwrap_or(("ns", 1));
    format!("{}{name}", nanos / unit)
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
        if let Some(flush_within) = time("write").and_then(parse_duration) {
            return Ok(Durability::Write { flush_within });
        }
        if let Some(max_delay) = time("relaxed").and_then(parse_duration) {
            return Ok(Durability::Relaxed { max_delay });
        }
        let text = quoted(text);
        Err(Error::invalid(format!(
            "{text} is not a durability; use flush, write(50ms) or relaxed(50ms)"
        )))
    }
}

/// A whole number with its unit.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(digits);
    let (_, unit) = UNITS.into_iter().find(|(known, _)| *known == name)?;
    let nanos = number.parse::<u128>().ok()?.checked_mul(unit)?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, u32::try_from(nanos % 1_000_000_000).ok()?))
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

/// The first character of a cursor's text: the version of what follows.
const CURSOR_VERSION: char = '1';
/// Longest text of a cursor: version, shelf, two numbers, two dots, and a sub-queue of which each
/// byte is escaped.
const CURSOR_MAX: usize = 1 + 1 + 20 + 1 + 20 + 1 + 3 * SUB_QUEUE_MAX;

fn letter_of(shelf: Shelf) -> char {
    match shelf {
        Shelf::Ready => 'r',
        Shelf::Delayed => 'd',
        Shelf::Buried => 'b',
        Shelf::Done => 'k',
    }
}

/// `1r0.107`, or `1r0.107.example.org` with a sub-queue: version and shelf, order, id, and the
/// bytes of the sub-queue, of which those that a URL may not have are written as `~` and two
/// digits.
impl Display for Cursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Position { shelf, order, id, sub } = &self.0;
        write!(f, "{CURSOR_VERSION}{}{order}.{id}", letter_of(*shelf))?;
        if sub.is_empty() {
            return Ok(());
        }
        f.write_char('.')?;
        escape(sub, f)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Cursor> {
        // Only the text that the cursor would write is accepted: one cursor has one text.
        let cursor = if text.len() <= CURSOR_MAX { parse_cursor(text) } else { None };
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| {
            let text = quoted(text);
            Error::invalid(format!("{text} is not a cursor; list again from the first page"))
        })
    }
}

fn parse_cursor(text: &str) -> Option<Cursor> {
    let mut rest = text.strip_prefix(CURSOR_VERSION)?.chars();
    let letter = rest.next()?;
    let shelf = Shelf::ALL.into_iter().find(|shelf| letter_of(*shelf) == letter)?;
    let mut fields = rest.as_str().splitn(3, '.');
    let order = fields.next()?.parse().ok()?;
    let id = fields.next()?.parse().ok()?;
    let sub = unescape(fields.next().unwrap_or_default())?;
    (sub.len() <= SUB_QUEUE_MAX).then(|| Cursor(Position { shelf, order, id, sub: sub.into() }))
}

/// The first character of a token's text: the version of what follows.
const TOKEN_VERSION: char = '1';
/// Longest text of a token: version, two numbers, two dots, and a tube of which each byte is
/// escaped.
const TOKEN_MAX: usize = 1 + 20 + 1 + 16 + 1 + 3 * TUBE_NAME_MAX;

/// `1107.00000000deadbeef.mail`: version and id, epoch, and the name of the tube, escaped as in a
/// cursor.
impl Display for ClaimToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{TOKEN_VERSION}{}.{:016x}.", self.id, self.epoch)?;
        escape(&self.tube, f)
    }
}

impl FromStr for ClaimToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<ClaimToken> {
        // One token has one text, as with cursors.
        let token = if text.len() <= TOKEN_MAX { parse_token(text) } else { None };
        token.filter(|token| token.to_string() == text).ok_or_else(|| {
            let text = quoted(text);
            Error::invalid(format!("{text} is not the token of a parked claim"))
        })
    }
}

fn parse_token(text: &str) -> Option<ClaimToken> {
    let mut fields = text.strip_prefix(TOKEN_VERSION)?.splitn(3, '.');
    let id = fields.next()?.parse().ok()?;
    let epoch = u64::from_str_radix(fields.next()?, 16).ok()?;
    let tube = unescape(fields.next()?)?;
    Some(ClaimToken { tube, id, epoch })
}

fn escape(text: &str, f: &mut Formatter<'_>) -> fmt::Result {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                f.write_char(char::from(byte))?;
            }
            _ => write!(f, "~{byte:02X}")?,
        }
    }
    Ok(())
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'~' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let value = digit()? * 16 + digit()?;
            bytes.push(u8::try_from(value).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(feature = "serde")]
mod by_text {
    use std::fmt;
    use std::marker::PhantomData;
    use std::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::{ClaimToken, Cursor, Durability, EventKind, SessionId, State};
    use crate::Error;

    struct Text<T>(&'static str, PhantomData<T>);

    impl<T: FromStr<Err = Error>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }

    macro_rules! by_text {
        ($($type:ty: $expected:literal),+ $(,)?) => {$(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    deserializer.deserialize_str(Text($expected, PhantomData))
                }
            }
        )+};
    }

    by_text! {
        State: "the name of a state",
        EventKind: "the name of an event kind",
        Durability: "a durability, as flush, write(50ms) or relaxed(50ms)",
        SessionId: "a session id of 32 hexadecimal digits",
        ClaimToken: "the token of a parked claim",
        Cursor: "the text of a cursor",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn assert_round_trip<T: FromStr<Err = Error> + Display + PartialEq + Debug>(value: T) {
        assert_eq!(value.to_string().parse::<T>(), Ok(value));
    }

    fn assert_invalid<T: FromStr<Err = Error> + Debug>(texts: &[&str]) {
        for text in texts {
            let error = text.parse::<T>().unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{text:?}: {error:?}");
        }
    }

    fn cursor(shelf: Shelf, order: u64, id: u64, sub: &str) -> Cursor {
        Cursor(Position { shelf, order, id, sub: sub.into() })
    }

    fn duration() -> impl Strategy<Value = Duration> {
        (any::<u64>(), 0..1_000_000_000_u32)
            .prop_map(|(seconds, nanos)| Duration::new(seconds >> (nanos % 64), nanos))
    }

    /// Texts of which some are cursors, and the others nearly are.
    const LIKE_A_CURSOR: &str = "1[rdbk][0-9]{1,21}\\.[0-9]{1,21}(\\.[ -~]{0,20})?";

    fn shelf() -> impl Strategy<Value = Shelf> {
        prop::sample::select(Shelf::ALL.to_vec())
    }

    /// A name of a sub-queue: any UTF-8 of at most 255 bytes.
    fn sub_queue() -> impl Strategy<Value = String> {
        vec(any::<char>(), 0..=255).prop_map(|chars| {
            let mut name = String::new();
            for char in chars {
                if name.len() + char.len_utf8() <= SUB_QUEUE_MAX {
                    name.push(char);
                }
            }
            name
        })
    }

    #[test]
    fn states_and_event_kinds_are_parsed_from_their_names_only() {
        STATES.into_iter().for_each(assert_round_trip);
        EVENT_KINDS.into_iter().for_each(assert_round_trip);
        assert_invalid::<State>(&["", "Ready", "r", "ready ", "gone"]);
        assert_invalid::<EventKind>(&["", "PUT", "puts"]);
        assert_eq!(format!("{:>8}|{:<8}", State::Ready, EventKind::Ack), "   ready|ack     ");
        let error = "gone".parse::<State>().unwrap_err();
        let text = r#""gone" is not a state; use one of ready, taken, delayed, buried, done"#;
        assert_eq!(error.to_string(), text);
        let error = "ä".repeat(1000).parse::<Cursor>().unwrap_err().to_string();
        assert!(
            error.ends_with("ä\"... is not a cursor; list again from the first page"),
            "{error}"
        );
        assert!(error.len() < 200, "{error}");
    }

    /// The text of a name is stored by applications.
    #[test]
    fn names_of_states_and_event_kinds_stay_the_same() {
        let states: Vec<&str> = STATES.into_iter().map(State::as_str).collect();
        assert_eq!(states.join(" "), "ready taken delayed buried done");
        let kinds: Vec<&str> = EVENT_KINDS.into_iter().map(EventKind::as_str).collect();
        let names =
            "put take ack release touch checkpoint fail snooze lost bury kick delete ttl ttr delay";
        assert_eq!(kinds.join(" "), names);
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

    /// Applications store these texts, and links contain them.
    #[test]
    fn text_of_cursor_stays_the_same() {
        for (cursor, text) in [
            (cursor(Shelf::Ready, 0, 107, ""), "1r0.107"),
            (cursor(Shelf::Delayed, 7, 8, ""), "1d7.8"),
            (cursor(Shelf::Buried, u64::MAX, 0, ""), "1b18446744073709551615.0"),
            (cursor(Shelf::Ready, 1, 2, "example.org"), "1r1.2.example.org"),
            (cursor(Shelf::Ready, 1, 2, "."), "1r1.2.."),
            (cursor(Shelf::Ready, 1, 2, "a/b ~ä"), "1r1.2.a~2Fb~20~7E~C3~A4"),
        ] {
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
    }

    #[test]
    fn cursor_rejects_other_texts() {
        let long = format!("1r0.0.{}", "a".repeat(SUB_QUEUE_MAX + 1));
        let longer = "1".repeat(10 << 20);
        assert_invalid::<Cursor>(&[
            "",
            "1",
            "1r",
            "1r0",
            "2r0.107",
            "1x0.107",
            "1r0.107.",
            "1r.107",
            "1r00.107",
            "1r+0.107",
            "1r-1.107",
            "1r0.18446744073709551616",
            "1r0.107 ",
            "1r0.107.a b",
            "1r0.107.~",
            "1r0.107.~2",
            "1r0.107.~2f",
            "1r0.107.~41",
            "1r0.107.~+1",
            "1r0.107.~FF",
            "1r0.107.ä",
            &long,
            &longer,
        ]);
    }

    #[test]
    fn longest_cursor_has_the_documented_length() {
        let longest = cursor(Shelf::Ready, u64::MAX, u64::MAX, &"\u{1}".repeat(SUB_QUEUE_MAX));
        assert_eq!((longest.to_string().len(), CURSOR_MAX), (809, 809));
        assert_round_trip(longest);
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

        #[test]
        fn every_cursor_survives_the_round_trip_as_part_of_a_url(
            shelf in shelf(),
            order in any::<u64>(),
            id in any::<u64>(),
            sub in sub_queue(),
        ) {
            let cursor = cursor(shelf, order, id, &sub);
            let text = cursor.to_string();
            prop_assert!(text.len() <= CURSOR_MAX);
            let unreserved = |char: char| char.is_ascii_alphanumeric() || "-._~".contains(char);
            prop_assert!(text.chars().all(unreserved), "{}", text);
            prop_assert_eq!(text.parse(), Ok(cursor));
        }

        /// Parsing never panics, and accepts only what it would write.
        #[test]
        fn every_text_is_rejected_or_the_text_of_its_cursor(
            text in prop_oneof![any::<String>(), LIKE_A_CURSOR],
        ) {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.to_string(), text.clone());
            }
            let _ = (text.parse::<Durability>(), text.parse::<SessionId>(), text.parse::<State>());
        }
    }
}
