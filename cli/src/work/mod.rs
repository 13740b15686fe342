//! `work`: runs a command for each task.

mod child;
mod outcome;
mod pool;
mod report;
#[cfg(unix)]
mod stderr;

use tubewell::{Store, Tube};

use crate::failure::CommandResult;
use crate::output::Output;
use crate::{args, store};
use pool::Pool;

/// Runs the command for each task until a signal or, with --once, until no task is ready.
pub fn run(store: &Store, args: &args::Work, output: &mut Output) -> CommandResult {
    let tubes: CommandResult<Vec<Tube>> =
        args.tubes.iter().map(|name| store::tube(store, name)).collect();
    let tubes = tubes?;
    if args.delay.is_some_and(|delay| !delay.is_zero()) {
        // At the start, and not at the first failure.
        tubes.iter().try_for_each(|tube| store::check_has_delays("--delay", tube))?;
    }
    let program = args.command.first();
    child::check(program.map_or(std::ffi::OsStr::new(""), |name| name))?;
    Pool::new(store, tubes, args, output)?.run()
}
