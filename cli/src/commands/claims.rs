//! Claims that outlive the command: `claim` takes a task and prints a token, `ack`, `release` and
//! `renew` act through the token.

use serde::Serialize;
use serde_json::json;
use tubewell::{Claim, ClaimToken, Error, Store};

use super::pop::{Popped, next_task};
use crate::args::{Ack, ClaimTask, Release, Renew};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::{duration, record, store};

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
        Some(id) => store::tube(store, &args.tube)?.claim(id).map_err(|error| match error {
            Error::NotFound { .. } => {
                Failure::new(Exit::NoTask, format!("{} has no task {id}", args.tube))
            }
            error => error.into(),
        })?,
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
    let receipt = resume(store, &args.token)?.ack()?;
    print_state(&args.token, record::state(receipt.state), "acked", output)
}

pub fn release(store: &Store, args: &Release, output: &mut Output) -> CommandResult {
    let receipt = resume(store, &args.token)?.release(args.delay.unwrap_or_default())?;
    print_state(&args.token, record::state(receipt.state), "released", output)
}

/// The token stays the same.
pub fn renew(store: &Store, args: &Renew, output: &mut Output) -> CommandResult {
    resume(store, &args.token)?.park(args.hold)?;
    let done = format!("renewed for {}", duration::show(args.hold));
    print_state(&args.token, "taken", &done, output)
}

fn resume(store: &Store, token: &ClaimToken) -> CommandResult<Claim> {
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

fn print_state(token: &ClaimToken, state: &str, done: &str, output: &mut Output) -> CommandResult {
    let (id, tube) = (token.id(), token.tube());
    let printed = if output.json {
        output.object(&json!({ "id": id, "tube": tube, "state": state }))
    } else {
        output.line(format!("{done}: task {id} of {tube}"))
    };
    printed.map_err(Failure::after_the_change)
}
