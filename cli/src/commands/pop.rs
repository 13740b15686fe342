//! `pop`: prints the next task and removes it.

use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, Outcome, Store, TaskCounts, TubeInfo};

use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, json};
use crate::record::Body;
use crate::{args, duration, store};

/// A popped task.
#[derive(Serialize)]
pub struct Popped<'a> {
    pub id: u64,
    pub tube: String,
    pub priority: u32,
    pub sub_queue: Option<String>,
    pub key: Option<String>,
    pub tags: Vec<String>,
    pub takes: u32,
    pub attempts: u32,
    pub attempts_left: Option<u32>,
    pub size: usize,
    #[serde(flatten)]
    pub body: Body<'a>,
}

impl<'a> Popped<'a> {
    pub fn new(claim: &Claim, body: &'a [u8]) -> Popped<'a> {
        Popped {
            id: claim.id(),
            tube: claim.tube().to_owned(),
            priority: claim.priority(),
            sub_queue: claim.sub_queue().map(str::to_owned),
            key: claim.key().map(str::to_owned),
            tags: claim.tags().map(str::to_owned).collect(),
            takes: claim.takes(),
            attempts: claim.attempt(),
            attempts_left: claim.attempts_left(),
            size: body.len(),
            body: Body::new(body),
        }
    }
}

/// The task is removed after all of it was written to standard output. If anything fails before
/// that, the task is ready again.
pub fn run(store: &Store, args: &args::Pop, output: &mut Output) -> CommandResult {
    let claim = next_task(store, &args.tube, args.timeout, "pop")?;
    let id = claim.id();
    if !store::renew_without_limit(store, &claim)? {
        let why = format!("the ttr of task {id} elapsed before it was printed; it is ready again");
        return Err(Failure::new(Exit::Refused, why));
    }
    let rest = match print(&claim, output) {
        Ok(rest) => rest,
        Err(failure) => {
            if claim.attempts_left().is_some() {
                // The failure of the output is no attempt. If it counts all the same, since the store
                // fails too, the task may be buried.
                let _ = claim.end(Outcome::snooze(Duration::ZERO));
            }
            return Err(not_removed(failure, id));
        }
    };
    claim.ack().map_err(|error| Failure::from(error).context(format!("removing task {id}")))?;
    match rest {
        // The line end is missing, behind an object that its reader has whole.
        Err(failure) if failure.exit != Exit::Pipe => Err(failure.after_the_change()),
        _ => Ok(()),
    }
}

/// Takes the next task of a tube. `verb` is for the failure if there is none.
pub fn next_task(
    store: &Store,
    name: &str,
    timeout: Option<Duration>,
    verb: &str,
) -> CommandResult<Claim> {
    let tube = store::tube(store, name)?;
    match tube.take_timeout(timeout.unwrap_or_default())? {
        Some(claim) => Ok(claim),
        None => Err(no_task(verb, &tube.info()?, tube.statistics()?.tasks)),
    }
}

/// Prints the whole body, or the whole object. Returns whether the line end of the object was printed.
fn print(claim: &Claim, output: &mut Output) -> CommandResult<CommandResult> {
    if !output.json {
        let body = output.shown(claim.body());
        return output.deliver(&body, body.len());
    }
    let object = json(&Popped::new(claim, claim.body()))? + "\n";
    output.deliver(object.as_bytes(), object.len() - 1)
}

fn not_removed(mut failure: Failure, id: u64) -> Failure {
    if failure.message.is_empty() {
        failure.message = "the reader of the output has closed it".into();
    }
    failure.message = format!("{}; task {id} was not removed and is ready again", failure.message);
    failure
}

fn no_task(verb: &str, tube: &TubeInfo, tasks: TaskCounts) -> Failure {
    let states = [
        (tasks.ready, "ready"),
        (tasks.taken, "taken"),
        (tasks.delayed, "delayed"),
        (tasks.blocked, "blocked"),
        (tasks.buried, "buried"),
    ];
    let states: Vec<String> = states
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, state)| format!("{number} {state}"))
        .collect();
    let content = if states.is_empty() { "it is empty".into() } else { states.join(", ") };
    let name = &tube.name;
    let failure = Failure::new(Exit::NoTask, format!("no task to {verb} in {name} ({content})"));
    match shut_gate(tube, tasks) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The hint about a gate that may keep the ready tasks of a tube from being taken, if there is one.
fn shut_gate(tube: &TubeInfo, tasks: TaskCounts) -> Option<String> {
    let name = &tube.name;
    if tasks.ready == 0 {
        return None;
    }
    if tube.paused {
        return Some(format!("the tube is paused; `tubewell unpause {name}` continues it"));
    }
    if tube.max_taken.is_some_and(|limit| tasks.taken >= limit) {
        return Some("as many tasks are taken as its max-taken allows".to_owned());
    }
    if let Some(rate) = tube.rate {
        return Some(format!(
            "its rate is {rate}, and begins anew with each open: wait with --timeout"
        ));
    }
    let cooldown = duration::show(tube.sub_queue_cooldown?);
    Some(format!(
        "its sub-queues have a cooldown of {cooldown}, also after each open: wait with --timeout"
    ))
}
