//! The parsers of the command's input, for tests that feed them with any bytes.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::BufRead;
use std::time::Duration;

use tubewell::Put;
use tubewell_json::put::{self, PutOptions};

use crate::args::Cli;
use crate::duration;
use crate::import::{self, Input};

/// Parses a command line, the name of the program first.
///
/// # Errors
/// The message for the user; also the help, if it is asked for.
pub fn arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    Cli::parse_line(arguments).map(drop).map_err(|error| error.render().to_string())
}

/// Parses a duration such as `250ms` or `1h30m`.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text)
}

/// A duration as it is shown: in its two largest units, rounded down.
#[must_use]
pub fn shown_duration(duration: Duration) -> String {
    duration::show(duration)
}

/// The numbered lines of an import, up to its end or to a line that is too long or cannot be read.
pub fn lines(input: impl BufRead) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    let sent: Result<(), Infallible> = import::split_lines(input, |event| {
        if let Input::Lines(chunk) | Input::End(Some(chunk)) = event {
            all.extend((chunk.first..).zip(chunk.lines));
        }
        Ok(())
    });
    sent.unwrap_or_else(|never| match never {});
    all
}

/// The task of a line of JSON; `None` for an empty line.
///
/// # Errors
/// What is wrong with it.
pub fn json_line(line: &[u8]) -> Result<Option<Put<Vec<u8>>>, String> {
    put::task(line, &PutOptions::default())
}
