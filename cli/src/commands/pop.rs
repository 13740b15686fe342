//! `pop`: prints the next task and removes it.

use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, Store, TaskCounts};

use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::record::Body;
use crate::{args, store};

/// A popped task.
#[derive(Serialize)]
struct Popped<'a> {
    id: u64,
    tube: &'a str,
    pri: u32,
    sub_queue: Option<&'a str>,
    takes: u32,
    size: usize,
    #[serde(flatten)]
    body: Body<'a>,
}

/// The task is removed after all of it was written to standard output. If anything fails before
/// that, the claim is dropped and the task is ready again.
pub fn run(store: &Store, args: &args::Pop, output: &mut Output) -> CommandResult {
    let tube = store::tube(store, &args.tube)?;
    // The library waits without a limit for `None`.
    let timeout = Some(args.timeout.unwrap_or_default()).filter(|wait| *wait != Duration::MAX);
    let Some(claim) = tube.take(timeout)? else {
        return Err(no_task(&args.tube, tube.statistics()?.tasks));
    };
    let id = claim.id();
    if !store::renew_without_limit(store, &claim)? {
        let why = format!("the ttr of task {id} elapsed before it was printed; it is ready again");
        return Err(Failure::new(Exit::Refused, why));
    }
    print(&claim, output)
        .and_then(|()| output.flush())
        .map_err(|failure| not_removed(failure, id))?;
    claim.ack().map_err(|error| Failure::from(error).context(format!("removing task {id}")))?;
    Ok(())
}

fn print(claim: &Claim, output: &mut Output) -> CommandResult {
    if !output.json {
        return output.body(claim.data());
    }
    output.object(&Popped {
        id: claim.id(),
        tube: claim.tube(),
        pri: claim.pri(),
        sub_queue: claim.sub_queue(),
        takes: claim.takes(),
        size: claim.data().len(),
        body: Body::new(claim.data()),
    })
}

fn not_removed(mut failure: Failure, id: u64) -> Failure {
    if failure.message.is_empty() {
        failure.message = "the reader of the output has closed it".into();
    }
    failure.message = format!("{}; task {id} was not removed and is ready again", failure.message);
    failure
}

fn no_task(tube: &str, tasks: TaskCounts) -> Failure {
    let states = [(tasks.ready, "ready"), (tasks.delayed, "delayed"), (tasks.buried, "buried")];
    let states: Vec<String> = states
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, state)| format!("{number} {state}"))
        .collect();
    let content = if states.is_empty() { "it is empty".into() } else { states.join(", ") };
    Failure::new(Exit::NoTask, format!("no task to pop in {tube} ({content})"))
}
