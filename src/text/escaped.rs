//! The texts of cursors and of the tokens of parked claims. They need no quotes in a URL and in a
//! shell. Applications do not look into them: the first character is the version of what follows.

use std::fmt::{self, Display, Formatter, Write};
use std::str::FromStr;
use std::sync::Arc;

use tubewell_drivers::{FAILURE_GROUP_MAX, Position, SUB_QUEUE_MAX, Shelf, TAG_MAX, TUBE_NAME_MAX};

use super::quoted;
use crate::values::task::CursorOf;
use crate::{ClaimToken, Cursor, Error, Result};

/// The first character of a cursor's text: the version of what follows.
const CURSOR_VERSION: char = '1';
/// The letter of the cursors of failure groups, in place of that of a shelf.
const GROUP_LETTER: char = 'g';
/// The letter of the cursors of tags.
const TAG_LETTER: char = 't';
/// The letter of the cursors of delayed tasks by their times.
const SOONEST_LETTER: char = 's';
/// The letter before that of a cursor of all tubes.
const TUBES_LETTER: char = 'x';
/// What is before the tube of a cursor of all tubes. No escaped name has it.
const TUBE_SIGN: &str = "~.";
/// Longest text of a cursor: version, shelf, two numbers, two dots, and a sub-queue of which each
/// byte is escaped, with the letter of all tubes, the sign and the name of one, escaped likewise. The name of a failure
/// group and a tag are not longer than a sub-queue.
const CURSOR_MAX: usize =
    1 + 1 + 1 + 20 + 1 + 20 + 1 + 3 * SUB_QUEUE_MAX + TUBE_SIGN.len() + 3 * TUBE_NAME_MAX;
const _: () = assert!(FAILURE_GROUP_MAX <= SUB_QUEUE_MAX && TAG_MAX <= SUB_QUEUE_MAX);

fn letter_of(shelf: Shelf) -> char {
    match shelf {
        Shelf::Ready => 'r',
        Shelf::Delayed => 'd',
        Shelf::Buried => 'b',
        Shelf::Blocked => 'w',
        Shelf::Done => 'k',
        Shelf::Recurring => 'e',
    }
}

/// `1r0.107`, or `1r0.107.example.org` with a sub-queue: version and shelf, order, id, and the
/// bytes of the sub-queue, of which those that a URL may not have are written as `~` and two
/// digits. That of a page of a failure group is `1g0.107.timeout`, with the name of the group, and that
/// of a page of a tag is `1t0.107.urgent`. That of a delayed task by its time is `1s1763900000000000.107`.
/// In pages of all tubes, `1b0.107` of the tube `mails` is `1xb0.107~.mails`.
impl Display for Cursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Position { shelf, order, id, sub } = &self.position;
        let (letter, name) = match &self.of {
            Some(CursorOf::Group(group)) => (GROUP_LETTER, group),
            Some(CursorOf::Tag(tag)) => (TAG_LETTER, tag),
            Some(CursorOf::Soonest) => (SOONEST_LETTER, sub),
            None => (letter_of(*shelf), sub),
        };
        f.write_char(CURSOR_VERSION)?;
        if self.tube.is_some() {
            f.write_char(TUBES_LETTER)?;
        }
        write!(f, "{letter}{order}.{id}")?;
        if !name.is_empty() {
            f.write_char('.')?;
            escape(name, f)?;
        }
        let Some(tube) = &self.tube else { return Ok(()) };
        f.write_str(TUBE_SIGN)?;
        escape(tube, f)
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
    let rest = text.strip_prefix(CURSOR_VERSION)?;
    let Some(rest) = rest.strip_prefix(TUBES_LETTER) else { return parse_place(rest) };
    let (place, tube) = rest.split_once(TUBE_SIGN)?;
    let tube = unescape(tube).filter(|tube| (1..=TUBE_NAME_MAX).contains(&tube.len()))?;
    Some(parse_place(place)?.in_tube(&tube.into()))
}

/// A cursor without its version and its tube.
fn parse_place(text: &str) -> Option<Cursor> {
    let mut rest = text.chars();
    let letter = rest.next()?;
    let mut fields = rest.as_str().splitn(3, '.');
    let order = fields.next()?.parse().ok()?;
    let id = fields.next()?.parse().ok()?;
    let name: Arc<str> = unescape(fields.next().unwrap_or_default())?.into();
    if letter == GROUP_LETTER {
        let position = Position { shelf: Shelf::Buried, order, id, sub: Arc::default() };
        let is_name = (1..=FAILURE_GROUP_MAX).contains(&name.len());
        return is_name.then_some(Cursor { of: Some(CursorOf::Group(name)), ..position.into() });
    }
    if letter == TAG_LETTER {
        let is_tag = order == 0 && (1..=TAG_MAX).contains(&name.len());
        return is_tag.then_some(Cursor::of_tag(name, id));
    }
    if letter == SOONEST_LETTER {
        return name.is_empty().then(|| Cursor::of_soonest(order, id));
    }
    let shelf = Shelf::ALL.into_iter().find(|shelf| letter_of(*shelf) == letter)?;
    (name.len() <= SUB_QUEUE_MAX).then(|| Position { shelf, order, id, sub: name }.into())
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::testing::{assert_invalid, assert_round_trip};
    use super::*;

    fn cursor(shelf: Shelf, order: u64, id: u64, sub: &str) -> Cursor {
        Position { shelf, order, id, sub: sub.into() }.into()
    }

    fn cursor_of_group(order: u64, id: u64, name: &str) -> Cursor {
        Cursor { of: Some(CursorOf::Group(name.into())), ..cursor(Shelf::Buried, order, id, "") }
    }

    /// Texts of which some are cursors, and the others nearly are.
    const LIKE_A_CURSOR: &str =
        "1x?[rdbg][0-9]{1,21}\\.[0-9]{1,21}(\\.[ -~]{0,20})?(~\\.[a-z.~]{0,9})?";

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
    fn error_quotes_the_start_of_a_long_text() {
        let error = "ä".repeat(1000).parse::<Cursor>().unwrap_err().to_string();
        assert!(
            error.ends_with("ä\"... is not a cursor; list again from the first page"),
            "{error}"
        );
        assert!(error.len() < 200, "{error}");
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
            (cursor_of_group(7, 8, "timeout"), "1g7.8.timeout"),
            (cursor_of_group(0, 1, "a/b ~ä"), "1g0.1.a~2Fb~20~7E~C3~A4"),
            (Cursor::of_tag("urgent".into(), 8), "1t0.8.urgent"),
            (Cursor::of_tag("a/b ~ä".into(), 8), "1t0.8.a~2Fb~20~7E~C3~A4"),
            (cursor(Shelf::Buried, 0, 107, "").in_tube(&"mails".into()), "1xb0.107~.mails"),
            (cursor(Shelf::Ready, 0, 1, "x.y").in_tube(&"a ~.".into()), "1xr0.1.x.y~.a~20~7E."),
            (cursor_of_group(7, 8, "timeout").in_tube(&"m".into()), "1xg7.8.timeout~.m"),
        ] {
            assert_eq!(cursor.to_string(), text);
            assert_eq!(text.parse(), Ok(cursor));
        }
    }

    #[test]
    fn cursor_rejects_other_texts() {
        let long = format!("1r0.0.{}", "a".repeat(SUB_QUEUE_MAX + 1));
        let group = long.replace('r', "g");
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
            "1xb0.107",
            "1xb0.107~.",
            "1xb0.107~.a b",
            "1xxb0.107~.a",
            "1b0.107~.a",
            "1xb0.107~.a~.b",
            "1g0.107",
            "1g0.107.",
            &group,
            &long,
            &longer,
        ]);
    }

    #[test]
    fn longest_cursor_has_the_documented_length() {
        let name = |length| "\u{1}".repeat(length);
        let longest = cursor(Shelf::Ready, u64::MAX, u64::MAX, &name(SUB_QUEUE_MAX))
            .in_tube(&name(TUBE_NAME_MAX).into());
        assert_eq!((longest.to_string().len(), CURSOR_MAX), (1577, 1577));
        assert_round_trip(longest);
    }

    proptest! {
        #[test]
        fn every_cursor_survives_the_round_trip_as_part_of_a_url(
            shelf in shelf(),
            order in any::<u64>(),
            id in any::<u64>(),
            sub in sub_queue(),
            is_of_group in any::<bool>(),
            tube in prop::option::of("[ -~]{1,20}"),
        ) {
            let cursor = if is_of_group && !sub.is_empty() {
                cursor_of_group(order, id, &sub)
            } else {
                cursor(shelf, order, id, &sub)
            };
            let cursor = Cursor { tube: tube.map(Arc::from), ..cursor };
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
        }
    }
}
