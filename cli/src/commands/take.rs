//! `take`: the next task, printed and finished.

use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, Store, TaskCounts};

use crate::args;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::record::Body;
use crate::store;

/// A task that was taken.
#[derive(Serialize)]
struct Taken<'a> {
    id: u64,
    tube: &'a str,
    pri: u32,
    sub_queue: Option<&'a str>,
    takes: u32,
    size: usize,
    #[serde(flatten)]
    body: Body<'a>,
}

/// Prints the next task. It is finished only once all of it has left the process: whatever goes
/// wrong before that, the claim is dropped and the task is ready again.
pub fn run(store: &Store, asked: &args::Take, output: &mut Output) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
    // A wait without end is a wait, not a time of 500,000 years.
    let timeout = Some(asked.timeout.unwrap_or_default()).filter(|wait| *wait != Duration::MAX);
    let Some(claim) = tube.take(timeout)? else {
        return Err(nothing(&asked.tube, tube.statistics()?.tasks));
    };
    let id = claim.id();
    if !store::hold(store, &claim)? {
        let why = format!("the ttr of task {id} was over at once; it is ready again");
        return Err(Failure::new(Exit::Refused, why));
    }
    print(&claim, output).and_then(|()| output.flush()).map_err(|failure| kept(failure, id))?;
    claim.ack().map_err(|error| Failure::from(error).about(format!("finishing task {id}")))?;
    Ok(())
}

fn print(claim: &Claim, output: &mut Output) -> Outcome {
    if output.json {
        return output.object(&Taken {
            id: claim.id(),
            tube: claim.tube(),
            pri: claim.pri(),
            sub_queue: claim.sub_queue(),
            takes: claim.takes(),
            size: claim.data().len(),
            body: Body::new(claim.data()),
        });
    }
    output.bytes(claim.data())?;
    // The prompt of the shell is to begin on a line of its own.
    if output.is_terminal() && !claim.data().ends_with(b"\n") {
        output.bytes(b"\n")?;
    }
    Ok(())
}

fn kept(mut failure: Failure, id: u64) -> Failure {
    if failure.message.is_empty() {
        failure.message = "whoever read the output has gone".into();
    }
    failure.message = format!("{}; task {id} is not finished and ready again", failure.message);
    failure
}

fn nothing(tube: &str, tasks: TaskCounts) -> Failure {
    let others = [(tasks.ready, "ready"), (tasks.delayed, "delayed"), (tasks.buried, "buried")];
    let others: Vec<String> = others
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, state)| format!("{number} {state}"))
        .collect();
    let there = if others.is_empty() { "it is empty".into() } else { others.join(", ") };
    Failure::new(Exit::NoTask, format!("no task to take in {tube} ({there})"))
}
