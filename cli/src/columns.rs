//! Texts in the columns of a terminal. A character may take no column, one or two.
//!
//! A text is measured and cut by what is seen as one character, a grapheme cluster: an accent stays with
//! its letter, a flag is not cut in half. Terminals may still disagree about some emoji.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Stands for what was cut.
const MARK: &str = "…";

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// The longest beginning of a text that fits into so many columns.
pub fn beginning(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.grapheme_indices(true).find(|(_, character)| {
        taken += character.width();
        taken > columns
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The text, or its beginning and a mark if it does not fit into so many columns.
pub fn cut(text: &str, columns: usize) -> String {
    if beginning(text, columns) == text {
        return text.to_owned();
    }
    let Some(before_mark) = columns.checked_sub(width(MARK)) else { return String::new() };
    beginning(text, before_mark).to_owned() + MARK
}

/// The lines of a text with so many columns, which end between words if these fit.
pub fn wrap(text: &str, columns: usize) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    loop {
        let fits = beginning(rest, columns).len();
        let end = match rest[fits..].chars().next() {
            None => rest.len(),
            Some(' ') => fits,
            Some(_) => rest[..fits].rfind(' ').unwrap_or(fits),
        };
        // A character that is wider than a line has a line of its own.
        let end = if end == 0 { rest.graphemes(true).next().map_or(0, str::len) } else { end };
        lines.push(rest[..end].trim_end());
        rest = rest[end..].trim_start();
        if rest.is_empty() {
            return lines;
        }
    }
}

/// The text with blanks up to so many columns, to its left if `right` aligns it to the right.
pub fn pad(text: &str, columns: usize, right: bool) -> String {
    let blanks = " ".repeat(columns.saturating_sub(width(text)));
    if right { blanks + text } else { text.to_owned() + &blanks }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of one character, and the columns that they take.
    const CHARACTERS: &[(&str, usize)] = &[
        ("a", 1),
        ("日", 2),
        ("한", 2),
        ("Ａ", 2),
        ("e\u{301}", 1),
        ("o\u{308}\u{323}", 1),
        ("🦀", 2),
        ("👍\u{1f3fd}", 2),
        ("🇩🇪", 2),
        ("❤\u{fe0f}", 2),
    ];

    #[test]
    fn characters_have_the_width_that_they_are_shown_with() {
        for (text, columns) in CHARACTERS {
            assert_eq!(width(text), *columns, "{text}");
            assert_eq!(width(&text.repeat(3)), columns * 3, "{text}");
        }
        assert_eq!(width(""), 0);
    }

    #[test]
    fn wrapped_texts_keep_their_words_and_fit() {
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("one two", 7), ["one two"]);
        assert_eq!(wrap("one two  three", 8), ["one two", "three"]);
        assert_eq!(wrap("one two", 6), ["one", "two"]);
        assert_eq!(wrap("one two", 3), ["one", "two"]);
        assert_eq!(wrap("a longword b", 4), ["a", "long", "word", "b"]);
        assert_eq!(wrap("日本語 日本", 5), ["日本", "語", "日本"]);
        assert_eq!(wrap("日本", 1), ["日", "本"]);
        assert_eq!(wrap("ab", 0), ["a", "b"]);
        assert_eq!(wrap(" x", 1), ["", "x"]);
    }

    #[test]
    fn padded_texts_are_as_wide_as_the_column() {
        for (text, columns) in CHARACTERS {
            let blanks = " ".repeat(5 - columns);
            assert_eq!(pad(text, 5, false), format!("{text}{blanks}"));
            assert_eq!(pad(text, 5, true), format!("{blanks}{text}"));
            assert_eq!(pad(text, 1, false), *text);
        }
    }

    #[test]
    fn cut_texts_have_whole_characters_and_fit() {
        for (character, columns) in CHARACTERS {
            let text = character.repeat(4);
            for space in 0..=4 * columns + 1 {
                let number = (space / columns).min(4);
                assert_eq!(beginning(&text, space), character.repeat(number), "{space}");
                let shown = cut(&text, space);
                assert!(width(&shown) <= space, "{shown:?} in {space}");
                if space >= 4 * columns {
                    assert_eq!(shown, text);
                } else if space > 0 {
                    assert_eq!(shown, character.repeat((space - 1) / columns) + "…");
                }
            }
        }
        // What takes no column stays with what is before it.
        assert_eq!(beginning("e\u{301}a", 1), "e\u{301}");
        assert_eq!(cut("ab日", 4), "ab日");
        assert_eq!(cut("ab日本", 4), "ab…");
        assert_eq!(cut("ab日本", 5), "ab日…");
    }
}
