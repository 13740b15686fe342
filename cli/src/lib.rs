//! The command `tubewell`: tubes and tasks of a store, from the shell.
//!
//! This library is the inside of the command, not a public interface: it may change with every
//! release. Tests reach the parsers through [`input`].
#![forbid(unsafe_code)]

mod args;
mod bytes;
mod columns;
mod commands;
mod connection;
mod export;
mod export_line;
mod failure;
mod follow;
mod help_text;
mod import;
pub mod input;
mod lock_owner;
mod output;
mod owner;
mod owners_copy;
mod printable;
mod progress;
mod signals;
mod store;
mod task_text;
mod top;
mod tube_names;
mod tube_options;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextValue, ErrorKind};
use failure::Failure;
use tubewell_json::{duration, history, moment, record, step};

/// Runs the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    silence_engine_panics();
    match commands::complete_words() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(failure) => return failed(&failure, false),
    }
    let cli = match args::Cli::parse_line(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(error),
    };
    let mut output = output::Output::new(cli.json);
    let done = commands::run(&cli, &mut output);
    // What was printed before a failure is printed in any case.
    let flushed = output.flush().map_err(Failure::after_the_change);
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure, cli.json),
    }
}

fn failed(failure: &Failure, json: bool) -> ExitCode {
    output::print_failure(failure, json);
    ExitCode::from(failure.exit.code())
}

/// Prints what is wrong with the command line, or the help that it asks for.
fn not_parsed(mut error: clap::Error) -> ExitCode {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let is_help =
        !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    escape_arguments(&mut error);
    let text = error.render().to_string();
    let mut has_json = || words.any(|word| word == "--json");
    if is_help && printable::lines(text.as_bytes()) == text {
        if error.use_stderr() {
            error.exit();
        }
        return match output::print_help(&error.render()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failed(&failure, has_json()),
        };
    }
    let failure = Failure::of_command_line(&text);
    if !is_help && has_json() {
        return failed(&failure, true);
    }
    output::print_usage_error(&text);
    ExitCode::from(failure.exit.code())
}

/// The parser repeats arguments as they are, line ends included.
fn escape_arguments(error: &mut clap::Error) {
    let escaped = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(printable::on_one_line(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|it| printable::on_one_line(it)).collect()))
        }
        _ => None,
    };
    let values: Vec<_> =
        error.context().filter_map(|(kind, value)| Some((kind, escaped(value)?))).collect();
    for (kind, value) in values {
        error.insert(kind, value);
    }
}

/// The engine panics on damaged pages. The library catches that and returns an error, so the
/// message of the panic is not printed.
fn silence_engine_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_in_engine = |at: &std::panic::Location<'_>| {
            PathBuf::from(at.file())
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("redb"))
        };
        if !panic.location().is_some_and(is_in_engine) {
            default_hook(panic);
        }
    }));
}
