//! What a command prints: text, or one JSON object per line. Each text goes through `printable`; bodies
//! are unchanged where standard output is no terminal.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;
use clap::builder::StyledStr;
use serde::Serialize;

use crate::columns::{pad, width};
use crate::failure::{CommandResult, Failure};
use crate::printable;

/// Standard output, for the results.
pub struct Output {
    /// One JSON object per line instead of text.
    pub json: bool,
    is_terminal: bool,
    colours: bool,
    to: BufWriter<StandardOutput>,
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
    fn codes(self) -> anstyle::Style {
        match self {
            Style::Plain => anstyle::Style::new(),
            Style::Bold => anstyle::Style::new().bold(),
            Style::Dim => anstyle::Style::new().dimmed(),
            Style::Green => AnsiColor::Green.on_default(),
            Style::Yellow => AnsiColor::Yellow.on_default(),
            Style::Red => AnsiColor::Red.on_default(),
        }
    }
}

impl Output {
    pub fn new(json: bool) -> Output {
        let is_terminal = io::stdout().is_terminal();
        let to = BufWriter::new(StandardOutput);
        Output { json, is_terminal, colours: colours_on(&io::stdout()), to }
    }

    /// Prints one line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> CommandResult {
        self.painted(&[(Style::Plain, text.as_ref())])
    }

    /// Prints one line of texts, each in its style if colours are on.
    pub fn painted(&mut self, texts: &[(Style, &str)]) -> CommandResult {
        for (style, text) in texts {
            let text = paint(self.colours, *style, &printable::on_one_line(text));
            self.write(text.as_bytes())?;
        }
        self.write(b"\n")
    }

    /// Prints lines of text, or a body, for people. A line end is added if it has none.
    pub fn lines(&mut self, text: &[u8]) -> CommandResult {
        self.write(with_line_end(printable::lines(text)).as_bytes())
    }

    /// Prints one JSON object.
    pub fn object(&mut self, value: &impl Serialize) -> CommandResult {
        let text = json(value)? + "\n";
        self.write(text.as_bytes())
    }

    /// Prints a body.
    pub fn body(&mut self, body: &[u8]) -> CommandResult {
        let shown = self.shown(body);
        self.write(&shown)
    }

    /// The bytes that a body is printed as: unchanged, but on a terminal as lines of text, so that it
    /// cannot control the terminal, and the prompt of the shell begins on a line of its own.
    pub fn shown<'a>(&self, body: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_terminal {
            return Cow::Owned(with_line_end(printable::lines(body)).into_bytes());
        }
        Cow::Borrowed(body)
    }

    /// Prints bytes of which the first `needed` must be written, and nothing else. An error says that they
    /// were not. Otherwise returns whether the others were written.
    ///
    /// Nothing is kept to be written later: after an error no more of them are.
    pub fn deliver(&mut self, bytes: &[u8], needed: usize) -> CommandResult<CommandResult> {
        self.flush()?;
        deliver(&mut StandardOutput, bytes, needed)
            .map(|rest| rest.map_err(|error| Failure::output(&error)))
            .map_err(|error| Failure::output(&error))
    }

    /// Returns once everything printed has been written.
    pub fn flush(&mut self) -> CommandResult {
        self.to.flush().map_err(|error| Failure::output(&error))
    }

    /// Prints a table: columns as wide as their widest cell, numbers aligned to the right.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> CommandResult {
        self.table_part(head, rows, &widths(head, rows), true)
    }

    fn table_part(
        &mut self,
        head: &[&str],
        rows: &[Vec<Cell>],
        widths: &[usize],
        with_head: bool,
    ) -> CommandResult {
        let lines = table_lines(head, rows, widths, self.colours);
        let [title, lines @ ..] = &lines[..] else { return Ok(()) };
        if with_head {
            self.painted(&[(Style::Bold, title)])?;
        }
        // The texts of cells are printable.
        for line in lines {
            self.write(line.as_bytes())?;
            self.write(b"\n")?;
        }
        Ok(())
    }

    /// As `table`, without the columns that have nothing in these rows and had nothing in the parts before. The head
    /// comes again with a column that is new or becomes wider, so that each row is aligned with the head above it.
    pub fn sparse_table_part(
        &mut self,
        head: &[&str],
        rows: Vec<Vec<Cell>>,
        columns: &mut Columns,
    ) -> CommandResult {
        let has_changed = columns.extend(head, &rows);
        let head: Vec<&str> = columns.widths.keys().map(|at| head[*at]).collect();
        let keep = |row: Vec<Cell>| {
            let cells = row.into_iter().enumerate();
            cells.filter(|(at, _)| columns.widths.contains_key(at)).map(|(_, cell)| cell).collect()
        };
        let rows: Vec<Vec<Cell>> = rows.into_iter().map(keep).collect();
        let widths: Vec<usize> = columns.widths.values().copied().collect();
        self.table_part(&head, &rows, &widths, has_changed)
    }

    fn write(&mut self, bytes: &[u8]) -> CommandResult {
        self.to.write_all(bytes).map_err(|error| Failure::output(&error))
    }
}

/// Standard output without a buffer: what is written has been handed to the operating system, and what
/// could not be written is not tried again.
pub struct StandardOutput;

impl Write for StandardOutput {
    #[cfg(unix)]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(io::stdout(), bytes)?)
    }

    #[cfg(not(unix))]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(bytes)?;
        io::stdout().flush().map(|()| written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The columns that a table of several parts has so far, with their widths.
#[derive(Default)]
pub struct Columns {
    widths: BTreeMap<usize, usize>,
}

impl Columns {
    /// Adds what these rows need. Returns whether the head is to be printed.
    fn extend(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> bool {
        let (mut has_changed, needed) = (false, widths(head, rows));
        for (at, needed) in needed.into_iter().enumerate() {
            if !rows.iter().any(|row| !row[at].is_none) && !self.widths.contains_key(&at) {
                continue;
            }
            // Nothing is aligned behind the text of the last column.
            let is_open = at + 1 == head.len() && rows.iter().all(|row| !row[at].right);
            let width = self.widths.get(&at).copied();
            if width.is_none_or(|width| width < needed && !is_open) {
                self.widths.insert(at, needed);
                has_changed = true;
            }
        }
        has_changed
    }
}

/// How wide the columns of these rows are.
fn widths(head: &[&str], rows: &[Vec<Cell>]) -> Vec<usize> {
    let widest = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| width(&cell.text)).chain([width(head[at])]).max().unwrap_or(0)
    };
    (0..head.len()).map(widest).collect()
}

/// The lines of a table, the first of which is its head.
fn table_lines(head: &[&str], rows: &[Vec<Cell>], widths: &[usize], colours: bool) -> Vec<String> {
    let right = |at: usize| rows.first().is_some_and(|row| row.get(at).is_some_and(|c| c.right));
    let title = (0..head.len()).map(|at| pad(head[at], widths[at], right(at)));
    let title = title.collect::<Vec<_>>().join("  ").trim_end().to_owned();
    let line = |row: &Vec<Cell>| {
        let last = row.len().saturating_sub(1);
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let is_unpadded = at == last && !cell.right;
            let width = if is_unpadded { 0 } else { widths.get(at).copied().unwrap_or(0) };
            paint(colours, cell.style, &pad(&cell.text, width, cell.right))
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(title).chain(rows.iter().map(line)).collect()
}

/// One field of a table.
pub struct Cell {
    text: String,
    right: bool,
    style: Style,
    is_none: bool,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: printable::on_one_line(&text.into()),
            right: false,
            style: Style::Plain,
            is_none: false,
        }
    }

    /// A field without content.
    pub fn none() -> Cell {
        Cell { is_none: true, ..Cell::text("-") }
    }

    /// The same, aligned to the right.
    #[must_use]
    pub fn right(self) -> Cell {
        Cell { right: true, ..self }
    }

    pub fn number(number: impl ToString) -> Cell {
        Cell { right: true, ..Cell::text(number.to_string()) }
    }

    #[must_use]
    pub fn style(mut self, style: Style) -> Cell {
        self.style = style;
        self
    }
}

/// A value as one line of JSON.
pub fn json(value: &impl Serialize) -> CommandResult<String> {
    printable::json(value).map_err(|error| Failure::output(&error))
}

/// Prints a remark on standard error. A failure to print it is ignored.
pub fn note(text: &str) {
    write_stderr(&printable::on_one_line(text));
}

/// Prints the help, or the version, that the command line asks for. The parser itself would not tell that it failed.
pub fn print_help(text: &StyledStr) -> CommandResult {
    let text = if colours_on(&io::stdout()) { text.ansi().to_string() } else { text.to_string() };
    StandardOutput.write_all(text.as_bytes()).map_err(|error| Failure::output(&error))
}

/// Prints what the parser of the command line says, in lines.
pub fn print_usage_error(text: &str) {
    let shown = printable::lines(text.trim_end().as_bytes());
    let colours = colours_on(&io::stderr());
    match shown.strip_prefix("error:") {
        Some(rest) => write_stderr(&format!("{}{rest}", paint(colours, Style::Red, "error:"))),
        None => write_stderr(&shown),
    }
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
        // An object of texts and numbers is written without an error.
        write_stderr(&printable::json(&object).unwrap_or_default());
        return;
    }
    let colours = colours_on(&io::stderr());
    let name = paint(colours, Style::Red, "tubewell:");
    write_stderr(&format!("{name} {}", printable::on_one_line(&failure.message)));
    if let Some(hint) = &failure.hint {
        note(&format!("          {hint}"));
    }
}

/// Whether a stream gets colours, by what it is and by the environment.
///
/// Only the decision is that of `anstream`, not the stream: it would take escapes out of bodies, too.
pub fn colours_on<S: RawStream>(stream: &S) -> bool {
    AutoStream::choice(stream) != ColorChoice::Never
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

/// Writes bytes to the end. An error is returned only if fewer than `needed` were written: what a write
/// returns is what a reader may have.
fn deliver(to: &mut impl Write, bytes: &[u8], needed: usize) -> io::Result<io::Result<()>> {
    let mut written = 0;
    while written < bytes.len() {
        let error = match to.write(&bytes[written..]) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(number) => {
                written += number;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        return if written < needed { Err(error) } else { Ok(Err(error)) };
    }
    Ok(Ok(()))
}

fn with_line_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Writes a line that is printable, in colours or not.
fn write_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn paint(colours: bool, style: Style, text: &str) -> String {
    let style = if colours { style } else { Style::Plain }.codes();
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes, a few with each write, then fails.
    struct Limited(usize);

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(3).min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_are_delivered_once_the_needed_ones_are_written() {
        for space in 0..12 {
            let delivered = deliver(&mut Limited(space), b"token\nbody", 5);
            let expected = (space >= 5).then_some(space >= 10);
            assert_eq!(delivered.ok().map(|rest| rest.is_ok()), expected, "{space}");
        }
    }

    #[test]
    fn columns_of_a_table_begin_below_each_other_whatever_the_texts_are() {
        let names = [
            "plain",
            "日本語の名前",
            "e\u{301}te\u{301}",
            "🦀🇩🇪👍\u{1f3fd}❤\u{fe0f}",
            "a\u{200b}b",
        ];
        let row = |name: &&str| vec![Cell::text(*name), Cell::number(7), Cell::text("end")];
        let rows: Vec<Vec<Cell>> = names.iter().map(row).collect();
        let head = ["NAME", "N", "LAST"];
        let lines = table_lines(&head, &rows, &widths(&head, &rows), false);
        assert_eq!(lines[0], "NAME          N  LAST");
        for line in &lines[1..] {
            let (before, _) = line.split_once("7  end").unwrap();
            assert_eq!(width(before), 14, "{line}");
        }
    }

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
