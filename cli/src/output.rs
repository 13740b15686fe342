//! What a command prints: text, or one JSON object per line.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::failure::{CommandResult, Failure};

/// Standard output, for the results.
pub struct Output {
    /// One JSON object per line instead of text.
    pub json: bool,
    colours: bool,
    to: BufWriter<Stdout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
}

impl Style {
    fn codes(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "\x1b[1m",
            Style::Dim => "\x1b[2m",
            Style::Green => "\x1b[32m",
            Style::Yellow => "\x1b[33m",
            Style::Red => "\x1b[31m",
        }
    }
}

impl Output {
    pub fn new(json: bool) -> Output {
        let stdout = io::stdout();
        let colours = colours_on(stdout.is_terminal());
        Output { json, colours, to: BufWriter::new(stdout) }
    }

    /// Prints one line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> CommandResult {
        self.bytes(text.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    /// Prints one JSON object.
    pub fn object(&mut self, value: &impl Serialize) -> CommandResult {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::output(&io::Error::other(error)))?;
        self.line(text)
    }

    /// Prints bytes unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> CommandResult {
        self.to.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Prints a body unchanged. On a terminal it ends with a line end, so that the prompt of the
    /// shell begins on a line of its own.
    pub fn body(&mut self, body: &[u8]) -> CommandResult {
        self.bytes(body)?;
        if self.to.get_ref().is_terminal() && !body.ends_with(b"\n") {
            self.bytes(b"\n")?;
        }
        Ok(())
    }

    /// Returns once everything printed has been written.
    pub fn flush(&mut self) -> CommandResult {
        self.to.flush().map_err(|error| Failure::output(&error))
    }

    /// A text in this style, if colours are on.
    pub fn paint(&self, style: Style, text: &str) -> String {
        paint(self.colours, style, text)
    }

    /// Prints a table: columns as wide as their widest cell, numbers aligned to the right.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> CommandResult {
        self.table_part(head, rows, true)
    }

    /// Prints a part of a table, with or without its head.
    pub fn table_part(
        &mut self,
        head: &[&str],
        rows: &[Vec<Cell>],
        with_head: bool,
    ) -> CommandResult {
        let width = |at: usize| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(|cell| cell.text.chars().count()).chain([head[at].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let right =
            |at: usize| rows.first().is_some_and(|row| row.get(at).is_some_and(|c| c.right));
        let title = (0..head.len()).map(|at| pad(head[at], widths[at], right(at)));
        let title = title.collect::<Vec<_>>().join("  ");
        let title = self.paint(Style::Bold, title.trim_end());
        if with_head {
            self.line(title)?;
        }
        for row in rows {
            let last = row.len().saturating_sub(1);
            let cells = row.iter().enumerate().map(|(at, cell)| {
                let is_unpadded = at == last && !cell.right;
                let width = if is_unpadded { 0 } else { widths.get(at).copied().unwrap_or(0) };
                self.paint(cell.style, &pad(&cell.text, width, cell.right))
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// One field of a table.
pub struct Cell {
    text: String,
    right: bool,
    style: Style,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell { text: escape_controls(&text.into()), right: false, style: Style::Plain }
    }

    pub fn number(number: impl ToString) -> Cell {
        Cell { text: number.to_string(), right: true, style: Style::Plain }
    }

    #[must_use]
    pub fn style(mut self, style: Style) -> Cell {
        self.style = style;
        self
    }
}

/// Prints a remark on standard error. A failure to print it is ignored.
pub fn note(text: &str) {
    write_stderr(&escape_controls(text));
}

/// A text with its control characters escaped. Names of sub-queues and parts of input lines come
/// from users, and must not reach the terminal as control codes.
pub fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    escaped
}

/// Prints why a command failed.
pub fn print_failure(failure: &Failure, json: bool) {
    if failure.message.is_empty() {
        return;
    }
    if json {
        let object = serde_json::json!({
            "error": failure.exit.name(),
            "exit": failure.exit.code(),
            "message": failure.message,
            "hint": failure.hint,
        });
        write_stderr(&object.to_string());
        return;
    }
    let colours = colours_on(io::stderr().is_terminal());
    let name = paint(colours, Style::Red, "tubewell:");
    write_stderr(&format!("{name} {}", escape_controls(&failure.message)));
    if let Some(hint) = &failure.hint {
        note(&format!("          {hint}"));
    }
}

/// Whether a terminal gets colours: not if `NO_COLOR` is set or `TERM` is `dumb`.
pub fn colours_on(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// `1 task`, `2 tasks`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The size of a body.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    indicatif::BinaryBytes(bytes).to_string()
}

/// The size of a store, which is the length of its file.
///
/// In whole MiB: each open and close moves the end of the file by a few pages, and a store that did
/// not change must not seem to.
pub fn store_size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes.saturating_add(MIB / 2) / MIB {
        0 => size(bytes),
        mib @ 1..1024 => format!("{mib} MiB"),
        mib => format!("{}.{} GiB", mib / 1024, mib % 1024 * 10 / 1024),
    }
}

fn write_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn paint(colours: bool, style: Style, text: &str) -> String {
    if colours && style != Style::Plain {
        return format!("{}{text}\x1b[0m", style.codes());
    }
    text.to_owned()
}

fn pad(text: &str, width: usize, right: bool) -> String {
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

#[cfg(test)]
mod tests {
    use super::store_size;

    #[test]
    fn store_size_is_the_same_after_a_few_pages_more() {
        for (bytes, text) in [
            (70_000, "68.36 KiB"),
            (1_085_440, "1 MiB"),
            (1_118_208, "1 MiB"),
            (9_441_280, "9 MiB"),
            (17_108_992, "16 MiB"),
            (1_073_741_824, "1.0 GiB"),
            (1_610_612_736, "1.5 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(store_size(bytes), text);
        }
    }
}
