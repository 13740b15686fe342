//! `peek`: shows one task and changes nothing.

use tubewell::{Store, Tube};

use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::record::TaskRecord;
use crate::task_text;
use crate::{args, store};

pub fn run(store: &Store, args: &args::Peek, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    let id = match args.id {
        Some(id) => id,
        None => next(&tube)?,
    };
    let task = tube.query().task(id).map_err(|error| Failure::of_task(error, &args.tube, id))?;
    if args.body {
        return output.body(&task.body);
    }
    let now = store::now(store)?;
    if output.json {
        return output.object(&TaskRecord::new(&tube, &task, now)?);
    }
    task_text::print(&tube, &task, now, output)
}

/// The task that `pop` would print.
fn next(tube: &Tube) -> CommandResult<u64> {
    let nothing = || {
        let why = format!("no task of {} can be taken now", tube.name());
        Failure::new(Exit::NoTask, why)
    };
    tube.query().next(1)?.first().map(|info| info.id).ok_or_else(nothing)
}
