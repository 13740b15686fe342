//! Movement of tasks to other tubes: `move` by any caller, `advance` with the token of a claim.

use std::time::Duration;

use serde_json::json;
use tubewell::{Error, Outcome, Put, Receipt, Store, TaskState, Tube};

use super::{claims, put, tasks, tasks::selected};
use crate::args::{Advance, Move};
use crate::failure::{CommandResult, Failure};
use crate::output::{Output, count};
use crate::store;

pub fn move_tasks(store: &Store, args: &Move, output: &mut Output) -> CommandResult {
    let to = store::tube(store, &args.to)?;
    if args.ids.is_empty() {
        let selected = selected(args.state, args.group.as_deref(), args.tag.as_deref(), args.limit);
        let moved = store::tube(store, &args.tube)?.admin().move_to(&to, selected)?;
        if output.json {
            let done = json!({ "tube": args.tube, "to": args.to, "moved": moved });
            return output.object(&done);
        }
        return output.line(format!("moved {} to {}", count(moved, "task"), args.to));
    }
    let verb = |tube: &Tube, id| match tube.admin().move_to(&to, id)? {
        0 => Err(not_moved(tube, id)?),
        _ => tasks::state_now(&to, id),
    };
    tasks::each_in_state(store, (&args.tube, &args.to), &args.ids, ("moved", verb), output)
}

/// Why a task has stayed in its tube.
fn not_moved(tube: &Tube, id: u64) -> tubewell::Result<Error> {
    let state = tube.query().task(id)?.info.state;
    let why = match state {
        TaskState::Done => "it is done, and is kept by the tube in which it has ended",
        TaskState::Recurring => "it is a schedule, and puts into its own tube",
        // Its ttl has elapsed, and it is about to be removed.
        _ => return Ok(Error::NotFound { id }),
    };
    Ok(Error::NotReady { id, state, why: why.to_owned() })
}

/// If the other tube refuses the task, the claim stands.
pub fn advance(store: &Store, args: &Advance, output: &mut Output) -> CommandResult {
    let body = args.body.as_deref().map(|body| put::body(Some(body))).transpose()?;
    let to = store::tube(store, &args.to)?;
    let session = store.session("")?;
    // Before the claim is resumed: if the tube is gone, the token stays valid.
    let from = session.tube(&store::tube(store, args.token.tube())?)?;
    let claim = session.resume_claim(&args.token);
    let claim = claim.map_err(|error| claims::explain(store, &args.token, error))?;
    let outcome = if args.unchanged {
        Outcome::advance_unchanged(&to)
    } else {
        let body = body.unwrap_or_else(|| claim.body().to_vec());
        Outcome::advance(&to, args.options.apply(Put::new(body)))
    };
    let id = claim.detach().info.id;
    let advanced = from.claimed(id).and_then(|claim| claim.end(outcome));
    let receipt = advanced.inspect_err(|_| park_again(&from, id))?;
    print(args, receipt, output).map_err(Failure::after_the_change)
}

/// Leaves the claim as it was, unless it has ended.
fn park_again(from: &Tube, id: u64) {
    let Ok(claim) = from.claimed(id) else { return };
    let Ok(left) = claim.expires_in() else { return };
    // A refused call of this claim releases nothing.
    let _ = claim.park(left.unwrap_or(Duration::MAX));
}

fn print(args: &Advance, receipt: Receipt, output: &mut Output) -> CommandResult {
    let Receipt { id, state, .. } = receipt;
    if output.json {
        return output.object(&json!({ "id": id, "tube": args.to, "state": state.as_str() }));
    }
    let delayed = if state == TaskState::Delayed { " and delayed" } else { "" };
    output.line(format!("advanced{delayed}: task {id} of {} to {}", args.token.tube(), args.to))
}
