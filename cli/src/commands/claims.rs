//! Claims that outlive the command: `claim` takes a task and prints a token; `ack`, `release`,
//! `fail`, `snooze`, `bury` and `renew` act through the token.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tubewell::{Claim, ClaimToken, Error, Receipt, State, Store};

use super::pop::{Popped, next_task};
use crate::args::{Ack, Bury, ClaimTask, Fail, Release, Renew, Snooze};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::{bytes, duration, store};

/// A claimed task.
#[derive(Serialize)]
struct Claimed<'a> {
    token: String,
    #[serde(flatten)]
    task: Popped<'a>,
}

/// The claim is parked before anything is printed, so that the token is good when it is read. If it
/// cannot be printed, the task is ready again.
pub fn claim(store: &Store, args: &ClaimTask, output: &mut Output) -> CommandResult {
    let claim = match args.id {
        None => next_task(store, &args.tube, args.timeout, "claim")?,
        Some(id) => store::tube(store, &args.tube)?
            .claim(id)
            .map_err(|error| Failure::of_task(error, &args.tube, id))?,
    };
    let body = claim.data().to_vec();
    let task = Popped::new(&claim, &body);
    let id = task.id;
    let token = claim.park(args.hold)?.to_string();
    print(&Claimed { token, task }, &body, output).and_then(|()| output.flush()).map_err(
        |mut failure| {
            if failure.message.is_empty() {
                failure.message = "the reader of the output has closed it".into();
            }
            let ready = store::tube(store, &args.tube).is_ok_and(|tube| tube.revoke(id).is_ok());
            let state = if ready { "ready again" } else { "still claimed" };
            failure.message = format!("{}; task {id} is {state}", failure.message);
            failure
        },
    )
}

/// The token, a line end, and the body.
fn print(claimed: &Claimed<'_>, body: &[u8], output: &mut Output) -> CommandResult {
    if output.json {
        return output.object(claimed);
    }
    output.line(&claimed.token)?;
    output.body(body)
}

pub fn ack(store: &Store, args: &Ack, output: &mut Output) -> CommandResult {
    let result = bytes::of_result(&args.result)?;
    let claim = resume(store, &args.token)?;
    let receipt = match result {
        None => claim.ack(),
        Some(result) => claim.ack_with(result),
    };
    print_end(&args.token, receipt?, "acked", output)
}

pub fn release(store: &Store, args: &Release, output: &mut Output) -> CommandResult {
    let delay = args.delay.unwrap_or_default();
    check_delay(store, &args.token, "--delay", delay)?;
    let receipt = resume(store, &args.token)?.release(delay)?;
    print_end(&args.token, receipt, "released", output)
}

pub fn fail(store: &Store, args: &Fail, output: &mut Output) -> CommandResult {
    let failure = reported(&args.group, args.message.as_ref());
    let receipt = match args.delay {
        None => resume(store, &args.token)?.fail(failure),
        Some(delay) => {
            check_delay(store, &args.token, "--delay", delay)?;
            resume(store, &args.token)?.fail_in(delay, failure)
        }
    };
    print_end(&args.token, receipt?, "failed", output)
}

pub fn snooze(store: &Store, args: &Snooze, output: &mut Output) -> CommandResult {
    check_delay(store, &args.token, "DELAY", args.delay)?;
    let receipt = resume(store, &args.token)?.snooze(args.delay)?;
    print_end(&args.token, receipt, "snoozed", output)
}

/// `bury` of the task of a claim.
pub fn bury(store: &Store, args: &Bury, output: &mut Output) -> CommandResult {
    let token = args.tube.parse()?;
    let claim = resume(store, &token)?;
    let receipt = match &args.group {
        None => claim.bury(),
        Some(group) => claim.bury_with(reported(group, args.message.as_ref())),
    };
    print_end(&token, receipt?, "buried", output)
}

/// The token stays the same.
pub fn renew(store: &Store, args: &Renew, output: &mut Output) -> CommandResult {
    resume(store, &args.token)?.park(args.hold)?;
    let done = format!("renewed for {}", duration::show(args.hold));
    print_state(&args.token, "taken", &done, output)
}

fn reported(group: &str, message: Option<&String>) -> tubewell::Failure {
    tubewell::Failure::new(group, message.map_or("", |message| message))
}

/// Checks, while the claim still stands, that the tube of its task has delays.
fn check_delay(store: &Store, token: &ClaimToken, option: &str, delay: Duration) -> CommandResult {
    if delay.is_zero() {
        return Ok(());
    }
    store::check_has_delays(option, &store::tube(store, token.tube())?)
}

pub fn resume(store: &Store, token: &ClaimToken) -> CommandResult<Claim> {
    store.resume_claim(token).map_err(|error| match error {
        Error::NotTaken { id } => {
            let why = format!("the claim on task {id} of {} has ended", token.tube());
            Failure::new(Exit::NoTask, why)
                .hint("its time has elapsed, or the task was acked, released, revoked or removed")
        }
        Error::TubeNotFound { .. } => store::unknown_tube(store, token.tube()),
        error => error.into(),
    })
}

/// Prints what became of a task.
fn print_end(
    token: &ClaimToken,
    receipt: Receipt,
    done: &str,
    output: &mut Output,
) -> CommandResult {
    let state = receipt.state.as_str();
    let said = matches!((receipt.state, done), (State::Ready | State::Done, _) | (_, "buried"));
    if said || output.json {
        return print_state(token, state, done, output);
    }
    print_state(token, state, &format!("{done} and {state}"), output)
}

fn print_state(token: &ClaimToken, state: &str, done: &str, output: &mut Output) -> CommandResult {
    let (id, tube) = (token.id(), token.tube());
    let printed = if output.json {
        output.object(&json!({ "id": id, "tube": tube, "state": state }))
    } else {
        output.line(format!("{done}: task {id} of {tube}"))
    };
    printed.map_err(Failure::after_the_change)
}
