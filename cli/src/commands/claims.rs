//! Claims that outlive the command: `claim` takes a task and prints a token; `ack`, `release`,
//! `fail`, `snooze`, `bury` and `renew` act through the token.

use std::time::Duration;

use serde::Serialize;
use tubewell::{Claim, ClaimToken, Error, Outcome, Receipt, Store, TaskState};

use super::pop::{Popped, next_task};
use crate::args::{Ack, Bury, ClaimTask, Fail, Release, Renew, Snooze};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, json};
use crate::{bytes, duration, store};

/// A claimed task.
#[derive(Serialize)]
struct Claimed<'a> {
    token: String,
    #[serde(flatten)]
    task: Popped<'a>,
}

/// A claim that is parked, and what `claim` prints of it.
pub struct Parked {
    token: ClaimToken,
    printed: Vec<u8>,
    /// How many of these bytes a reader needs to know the token.
    needed: usize,
}

/// Takes a task and parks its claim. Prints nothing: the store is closed first, so that the claim is
/// stored when the token can be read, and the reader can use the token while the body is printed.
pub fn claim(store: &Store, args: &ClaimTask, output: &Output) -> CommandResult<Parked> {
    let claim = match args.id {
        None => next_task(store, &args.tube, args.timeout, "claim")?,
        Some(id) => store::tube(store, &args.tube)?
            .claim(id)
            .map_err(|error| Failure::of_task(error, &args.tube, id))?,
    };
    let body = claim.body().to_vec();
    let task = Popped::new(&claim, &body);
    let token = claim.park(args.hold)?;
    let text = token.to_string();
    let printed = if output.json {
        json(&Claimed { token: text.clone(), task })?.into_bytes()
    } else {
        [text.as_bytes(), b"\n", &output.shown(&body)].concat()
    };
    let text = text.as_bytes();
    let at = printed.windows(text.len()).position(|part| part == text).unwrap_or(0);
    Ok(Parked { token, needed: at + text.len(), printed })
}

/// Prints the token and the body. Once the token is written, the claim stands, whatever the reader does:
/// it may have read the token. Before that the task is given back by `give_back`.
pub fn print(
    parked: &Parked,
    output: &mut Output,
    give_back: impl FnOnce(&ClaimToken) -> CommandResult,
) -> CommandResult {
    let id = parked.token.id();
    match output.deliver(&parked.printed, parked.needed) {
        // A reader that wants the token only may close the output after it.
        Ok(Err(rest)) if rest.exit == Exit::Pipe => Ok(()),
        Ok(rest) => rest.map_err(|mut failure| {
            failure.message = format!("{}; the claim on task {id} stands", failure.message);
            failure.hint("the token was printed, and the body in part: `tubewell peek` shows it")
        }),
        Err(mut failure) => {
            if failure.message.is_empty() {
                failure.message = "the reader of the output has closed it".into();
            }
            let state = if give_back(&parked.token).is_ok() {
                "ready again"
            } else {
                "still claimed; `tubewell revoke` ends the claim"
            };
            failure.message = format!("{}; task {id} is {state}", failure.message);
            Err(failure)
        }
    }
}

/// Ends a claim whose token was not printed. The attempt does not count.
pub fn give_back(store: &Store, token: &ClaimToken) -> CommandResult {
    resume(store, token)?.end(Outcome::snooze(Duration::ZERO))?;
    Ok(())
}

pub fn ack(store: &Store, args: &Ack, output: &mut Output) -> CommandResult {
    let result = bytes::of_result(&args.result)?;
    let claim = resume(store, &args.token)?;
    let receipt = match result {
        None => claim.ack(),
        Some(result) => claim.end(Outcome::result(result)),
    };
    print_end(&args.token, receipt?, "acked", output)
}

pub fn release(store: &Store, args: &Release, output: &mut Output) -> CommandResult {
    let delay = args.delay.unwrap_or_default();
    check_delay(store, &args.token, "--delay", delay)?;
    let receipt = resume(store, &args.token)?.release_in(delay)?;
    print_end(&args.token, receipt, "released", output)
}

pub fn fail(store: &Store, args: &Fail, output: &mut Output) -> CommandResult {
    let failure = reported(&args.group, args.message.as_ref());
    let receipt = match args.delay {
        None => resume(store, &args.token)?.fail(failure),
        Some(delay) => {
            check_delay(store, &args.token, "--delay", delay)?;
            resume(store, &args.token)?.end(Outcome::fail_in(delay, failure))
        }
    };
    print_end(&args.token, receipt?, "failed", output)
}

pub fn snooze(store: &Store, args: &Snooze, output: &mut Output) -> CommandResult {
    check_delay(store, &args.token, "DELAY", args.delay)?;
    let receipt = resume(store, &args.token)?.end(Outcome::snooze(args.delay))?;
    print_end(&args.token, receipt, "snoozed", output)
}

/// `bury` of the task of a claim.
pub fn bury(store: &Store, args: &Bury, output: &mut Output) -> CommandResult {
    let token = args.tube.parse()?;
    let claim = resume(store, &token)?;
    let receipt = match &args.group {
        None => claim.bury(None),
        Some(group) => claim.bury(reported(group, args.message.as_ref())),
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
    store.resume_claim(token).map_err(|error| explain(store, token, error))
}

/// Why a claim cannot be resumed.
pub fn explain(store: &Store, token: &ClaimToken, error: Error) -> Failure {
    match error {
        Error::NotTaken { id } => {
            let why = format!("the claim on task {id} of {} has ended", token.tube());
            Failure::new(Exit::NoTask, why)
                .hint("its time has elapsed, or the task was acked, released, revoked or removed")
        }
        Error::TubeNotFound { .. } => store::unknown_tube(store, token.tube()),
        error => error.into(),
    }
}

/// Prints what became of a task.
fn print_end(
    token: &ClaimToken,
    receipt: Receipt,
    done: &str,
    output: &mut Output,
) -> CommandResult {
    let state = receipt.state.as_str();
    let said =
        matches!((receipt.state, done), (TaskState::Ready | TaskState::Done, _) | (_, "buried"));
    if said || output.json {
        return print_state(token, state, done, output);
    }
    print_state(token, state, &format!("{done} and {state}"), output)
}

fn print_state(token: &ClaimToken, state: &str, done: &str, output: &mut Output) -> CommandResult {
    let (id, tube) = (token.id(), token.tube());
    let printed = if output.json {
        output.object(&serde_json::json!({ "id": id, "tube": tube, "state": state }))
    } else {
        output.line(format!("{done}: task {id} of {tube}"))
    };
    printed.map_err(Failure::after_the_change)
}
