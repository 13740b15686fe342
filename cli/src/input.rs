//! What the command reads, each kind by itself: for tests that feed it with anything at all.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::BufRead;
use std::time::Duration;

use clap::Parser;
use tubewell::Put;

use crate::args::{Cli, PutOptions};
use crate::duration;
use crate::import::{self, Input};

/// Whether these arguments, the name of the program first, are a command.
///
/// # Errors
/// What people are told instead; also the help, if they ask for it.
pub fn arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    Cli::try_parse_from(arguments).map(drop).map_err(|error| error.render().to_string())
}

/// A length of time such as `250ms` or `1h30m`.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text)
}

/// A length of time as people are shown it: never more than it is, in its two largest units.
#[must_use]
pub fn shown_duration(duration: Duration) -> String {
    duration::show(duration)
}

/// The lines of an import with their numbers, until its end or until one that is too long or
/// cannot be read.
pub fn lines(input: impl BufRead) -> Vec<(u64, Vec<u8>)> {
    let mut all = Vec::new();
    let told: Result<(), Infallible> = import::cut(input, |told| {
        if let Input::Lines(chunk) = told {
            all.extend((chunk.first..).zip(chunk.lines));
        }
        Ok(())
    });
    told.unwrap_or_else(|never| match never {});
    all
}

/// The task of a line of JSON; `None` for an empty one.
///
/// # Errors
/// What is wrong with it.
pub fn json_line(line: &[u8]) -> Result<Option<Put>, String> {
    import::task(
        line,
        &PutOptions { pri: None, ttl: None, ttr: None, delay: None, sub_queue: None },
    )
}
