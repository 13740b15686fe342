//! The command `tubewell`: tubes and tasks of a store, from the shell.
//!
//! This is the inside of a program, not an interface: it may change with every release. What the
//! command reads from people and programs is open to tests in [`input`].
#![forbid(unsafe_code)]

mod args;
mod commands;
mod duration;
mod examples;
mod export;
mod failure;
mod import;
pub mod input;
mod output;
mod owner;
mod progress;
mod record;
mod signals;
mod store;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use failure::Failure;

/// Does what the arguments of this process say.
#[must_use]
pub fn run() -> ExitCode {
    quiet_about_the_engine();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    let json = cli.json;
    let mut output = output::Output::new(json);
    let done = commands::run(&cli, &mut output);
    // Even after a failure, what was printed before it is worth having.
    let flushed = output.flush().map_err(Failure::after_the_fact);
    match done.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure, json);
            ExitCode::from(failure.exit.code())
        }
    }
}

/// Says what is wrong with the command line, or prints the help that it asks for.
fn refused(error: &clap::Error) -> ExitCode {
    let mut arguments = std::env::args_os().take_while(|argument| argument != "--");
    let asked_for = !error.use_stderr();
    let bare = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if asked_for || bare || !arguments.any(|argument| argument == "--json") {
        error.exit();
    }
    let failure = Failure::of_command_line(&error.render().to_string());
    output::complain(&failure, true);
    ExitCode::from(failure.exit.code())
}

/// On damaged pages the engine panics, which is caught; what it would say tells nobody anything.
fn quiet_about_the_engine() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let of_engine = |at: &std::panic::Location<'_>| {
            PathBuf::from(at.file())
                .components()
                .any(|part| part.as_os_str().to_string_lossy().starts_with("redb"))
        };
        if !panic.location().is_some_and(of_engine) {
            before(panic);
        }
    }));
}
