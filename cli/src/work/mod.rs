//! `work`: runs a command for each task.

mod child;
mod outcome;
mod pool;
mod report;

use tubewell::{FIFOTTL, LIMFIFOTTL, Store, Tube, UTUBETTL};

use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::{args, store};
use pool::Pool;

/// Runs the command for each task until a signal or, with --once, until no task is ready.
pub fn run(store: &Store, args: &args::Work, output: &mut Output) -> CommandResult {
    let tubes: CommandResult<Vec<Tube>> =
        args.tubes.iter().map(|name| store::tube(store, name)).collect();
    let tubes = tubes?;
    if args.delay.is_some_and(|delay| !delay.is_zero()) {
        tubes.iter().try_for_each(check_has_delays)?;
    }
    let program = args.command.first();
    child::check(program.map_or(std::ffi::OsStr::new(""), |name| name))?;
    Pool::new(store, tubes, args, output)?.run()
}

/// Checks at the start, and not at the first failure, that a tube supports --delay.
fn check_has_delays(tube: &Tube) -> CommandResult {
    if [FIFOTTL, UTUBETTL, LIMFIFOTTL].contains(&tube.driver()) {
        return Ok(());
    }
    let (name, driver) = (tube.name(), tube.driver());
    Err(Failure::usage(format!("--delay: tube {name:?} ({driver}) does not support delays"))
        .hint("leave it out, or use a tube of the driver fifottl, utubettl or limfifottl"))
}
