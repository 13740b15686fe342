//! `completions`, and the completion of a command line, for which its scripts call the command.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_complete::env::{CompleteEnv, Shells};

use crate::args::Cli;
use crate::failure::{CommandResult, Failure};
use crate::output::Output;

/// The variable with which a script asks for completions.
const VARIABLE: &str = "TUBEWELL_COMPLETE";

/// Prints the script that makes a shell call this command for completions.
pub fn script(shell: clap_complete::Shell, output: &mut Output) -> CommandResult {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let Some(shell) = shells.completer(&name) else {
        return Err(Failure::usage(format!("there are no completions for {name}")));
    };
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "tubewell", "tubewell", &program(), &mut script)
        .map_err(|error| Failure::output(&error))?;
    output.body(&script)
}

/// Prints completions if a script asks for them. False if not: this is an ordinary call.
pub fn complete_words() -> CommandResult<bool> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(command_line)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), directory.as_deref())
        .map_err(|error| Failure::usage(format!("{VARIABLE}: {error}")))
}

/// The commands, without `help`, which the parser adds.
fn command_line() -> Command {
    Cli::command().disable_help_subcommand(true)
}

/// How a script calls this program: by its name if it was found in `PATH`.
fn program() -> String {
    let called = std::env::args_os().next().map_or_else(|| "tubewell".into(), PathBuf::from);
    let program = match std::env::current_dir() {
        Ok(directory) if called.components().count() > 1 => directory.join(called),
        _ => called,
    };
    program.to_string_lossy().into_owned()
}
