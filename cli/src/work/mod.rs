//! `work`: a command for each task.

mod child;
mod pool;
mod report;
mod settle;

use tubewell::{FIFOTTL, LIMFIFOTTL, Store, Tube, UTUBETTL};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::store;
use pool::Pool;

/// Runs the command for each task, until it is told to stop or, with --once, none is ready.
pub fn run(store: &Store, asked: &args::Work, output: &mut Output) -> Outcome {
    let tubes: Outcome<Vec<Tube>> =
        asked.tubes.iter().map(|name| store::tube(store, name)).collect();
    let tubes = tubes?;
    if asked.delay.is_some_and(|delay| !delay.is_zero()) {
        tubes.iter().try_for_each(check_delays)?;
    }
    let program = asked.command.first();
    child::check(program.map_or(std::ffi::OsStr::new(""), |name| name))?;
    Pool::new(store, tubes, asked, output)?.run()
}

/// That a tube can hold a released task back: to be said now, not at the first failure.
fn check_delays(tube: &Tube) -> Outcome {
    if [FIFOTTL, UTUBETTL, LIMFIFOTTL].contains(&tube.driver()) {
        return Ok(());
    }
    let (name, driver) = (tube.name(), tube.driver());
    Err(Failure::usage(format!("--delay: the tube {name} ({driver}) has no delays"))
        .hint("leave it out, or use a tube of the driver fifottl, utubettl or limfifottl"))
}
