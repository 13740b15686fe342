//! `peek`: shows one task and changes nothing.

use tubewell::{State, Store, Tube, UTUBE, UTUBETTL};

use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::record::TaskRecord;
use crate::task_text;
use crate::{args, store};

/// How many tasks are read at a time.
const PAGE: usize = 500;

pub fn run(store: &Store, args: &args::Peek, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    let id = match args.id {
        Some(id) => id,
        None => next(&tube)?,
    };
    let task = tube.peek(id).map_err(|error| Failure::of_task(error, &args.tube, id))?;
    if args.body {
        return output.body(&task.data);
    }
    let now = store::now(store);
    if output.json {
        return output.object(&TaskRecord::new(&tube, &task, now)?);
    }
    task_text::print(&tube, &task, now, output)
}

/// The task that `pop` would print. No task is taken, so every sub-queue is free.
fn next(tube: &Tube) -> CommandResult<u64> {
    let sub_queued = [UTUBE, UTUBETTL].contains(&tube.driver());
    let (mut first, mut place) = (None, None);
    loop {
        let page = tube.list(State::Ready, place, if sub_queued { PAGE } else { 1 })?;
        first = page.tasks.iter().map(|info| (info.pri, info.id)).chain(first).min();
        place = page.next;
        // The list is grouped by sub-queue, and the next task may be in any of them.
        if !sub_queued || place.is_none() {
            break;
        }
    }
    let nothing = || Failure::new(Exit::NoTask, format!("no task is ready in {}", tube.name()));
    first.map(|(_, id)| id).ok_or_else(nothing)
}
