//! What may be printed to a terminal: the one place that decides it.
//!
//! Names, bodies, messages, paths and arguments come from users and from other programs. Control
//! characters in them could move the cursor, change the title, or make the terminal type an answer.
//! Invisible ones could make one name look like another. So each text goes through here.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// Whether a character is printed as it is. Others are control characters (C0, DEL, C1), those that
/// change the direction of the text, and those that take no space.
pub fn is_printable(c: char) -> bool {
    let is_invisible = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !is_invisible
}

/// A text on one line, in which all other characters are escaped: `\u{1b}`.
pub fn on_one_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| push(c, is_printable(c), &mut shown));
    shown
}

/// As `on_one_line`, for lines of text: line ends and tabs stay. A byte that is not UTF-8 is `\xff`.
pub fn lines(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|c| {
            push(c, is_printable(c) || c == '\n' || c == '\t', &mut shown);
        });
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// A value as JSON on one line. What `on_one_line` escapes is escaped in the way of JSON, `\u001b`, so
/// that the value is the same.
pub fn json(value: &impl Serialize) -> io::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, Printable))?;
    String::from_utf8(text).map_err(io::Error::other)
}

fn push(c: char, as_it_is: bool, shown: &mut String) {
    if as_it_is { shown.push(c) } else { shown.extend(c.escape_default()) }
}

/// JSON without spaces. `serde_json` itself escapes C0 only.
struct Printable;

impl Formatter for Printable {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        to: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c| !is_printable(c)) {
            to.write_all(&rest.as_bytes()[..at])?;
            let mut after = rest[at..].chars();
            for unit in after.next().into_iter().flat_map(utf16) {
                write!(to, "\\u{unit:04x}")?;
            }
            rest = after.as_str();
        }
        to.write_all(rest.as_bytes())
    }
}

fn utf16(c: char) -> Vec<u16> {
    c.encode_utf16(&mut [0; 2]).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control characters, and characters that nobody sees.
    const HIDDEN: &[char] = &[
        '\0',
        '\u{7}',
        '\u{8}',
        '\r',
        '\u{1b}',
        '\u{1f}',
        '\u{7f}',
        '\u{80}',
        '\u{9b}',
        '\u{9f}',
        '\u{ad}',
        '\u{61c}',
        '\u{180e}',
        '\u{200b}',
        '\u{200d}',
        '\u{200e}',
        '\u{200f}',
        '\u{2028}',
        '\u{2029}',
        '\u{202a}',
        '\u{202e}',
        '\u{2060}',
        '\u{2066}',
        '\u{2069}',
        '\u{206f}',
        '\u{feff}',
        '\u{fff9}',
        '\u{e0001}',
        '\u{e0041}',
    ];

    #[test]
    fn control_bidirectional_and_zero_width_characters_are_escaped() {
        for c in HIDDEN {
            let text = format!("a{c}b");
            let escaped = format!("a{}b", c.escape_default());
            assert_eq!(on_one_line(&text), escaped);
            assert_eq!(lines(text.as_bytes()), escaped);
            let json = json(&text).unwrap();
            assert!(json.chars().all(is_printable), "{json:?}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }

    #[test]
    fn other_characters_stay() {
        let text = "Grüße, Привет, 日本語, שלום, e\u{301}, \u{2764}\u{fe0f}, {\"a\": \\1}";
        assert_eq!(on_one_line(text), text);
        assert_eq!(lines(format!("{text}\n\tx\n").as_bytes()), format!("{text}\n\tx\n"));
        assert_eq!(on_one_line("a\nb\tc"), r"a\nb\tc");
        assert_eq!(lines(b"a\xff\xc3(\r\n"), "a\\xff\\xc3(\\r\n");
        assert_eq!(json(&["a\n", text]).unwrap(), serde_json::to_string(&["a\n", text]).unwrap());
    }
}
