//! What a command prints: lines for people, or one JSON object a line.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::failure::{Failure, Outcome};

/// Where results go, and how.
pub struct Output {
    /// One object a line instead of text.
    pub json: bool,
    /// Whether colours are welcome in the results.
    colours: bool,
    to: BufWriter<Stdout>,
}

/// A way to set off a word.
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

    /// One line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> Outcome {
        self.bytes(text.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    /// One object.
    pub fn object(&mut self, value: &impl Serialize) -> Outcome {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::output(&io::Error::other(error)))?;
        self.line(text)
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.to.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Returns once all that was printed has left the process.
    pub fn flush(&mut self) -> Outcome {
        self.to.flush().map_err(|error| Failure::output(&error))
    }

    /// Whether somebody reads along.
    pub fn is_terminal(&self) -> bool {
        self.to.get_ref().is_terminal()
    }

    /// A word, set off if colours are welcome.
    pub fn paint(&self, style: Style, text: &str) -> String {
        paint(self.colours, style, text)
    }

    /// A table: columns as wide as their widest cell, numbers to the right.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<Cell>]) -> Outcome {
        self.more_table(head, rows, true)
    }

    /// A further part of a table, with its titles or without.
    pub fn more_table(&mut self, head: &[&str], rows: &[Vec<Cell>], titled: bool) -> Outcome {
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
        if titled {
            self.line(title)?;
        }
        for row in rows {
            let last = row.len().saturating_sub(1);
            let cells = row.iter().enumerate().map(|(at, cell)| {
                let plain = at == last && !cell.right;
                let wide = if plain { 0 } else { widths.get(at).copied().unwrap_or(0) };
                self.paint(cell.style, &pad(&cell.text, wide, cell.right))
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
        Cell { text: plain(&text.into()), right: false, style: Style::Plain }
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

/// A remark beside the results, on standard error: nobody minds if it cannot be written.
pub fn note(text: &str) {
    remark(&plain(text));
}

/// A text with its control characters spelt out: names of sub-queues and what is wrong with a line
/// come from others, and must not drive the terminal.
pub fn plain(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { all.extend(c.escape_default()) } else { all.push(c) }
    }
    all
}

/// Says why a command failed.
pub fn complain(failure: &Failure, json: bool) {
    if failure.message.is_empty() {
        return;
    }
    if json {
        let told = serde_json::json!({
            "error": failure.exit.name(),
            "exit": failure.exit.code(),
            "message": failure.message,
            "hint": failure.hint,
        });
        remark(&told.to_string());
        return;
    }
    let colours = colours_on(io::stderr().is_terminal());
    let mark = paint(colours, Style::Red, "tubewell:");
    remark(&format!("{mark} {}", plain(&failure.message)));
    if let Some(hint) = &failure.hint {
        note(&format!("          {hint}"));
    }
}

/// Colours are for terminals that can show them and people who have not said no.
pub fn colours_on(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// `1 task`, `2 tasks`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    indicatif::BinaryBytes(bytes).to_string()
}

fn remark(line: &str) {
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
