//! The command `tubewell`: tubes and tasks of a store, from the shell.
//!
//! This library is the inside of the command, not a public interface: it may change with every
//! release. Tests reach the parsers through [`input`].
#![forbid(unsafe_code)]

mod args;
mod bytes;
mod commands;
mod connection;
mod duration;
mod export;
mod failure;
mod follow;
mod help_text;
mod history;
mod import;
pub mod input;
mod lock_owner;
mod moment;
mod output;
mod owner;
mod owners_copy;
mod progress;
mod record;
mod signals;
mod step;
mod store;
mod task_text;
mod top;
mod tube_names;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use failure::Failure;

/// Runs the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    silence_engine_panics();
    match commands::complete_words() {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => {}
        Err(failure) => return failed(&failure, false),
    }
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
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
fn not_parsed(error: &clap::Error) -> ExitCode {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let is_help =
        !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if is_help || !words.any(|word| word == "--json") {
        error.exit();
    }
    failed(&Failure::of_command_line(&error.render().to_string()), true)
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
