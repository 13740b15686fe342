//! Verbs on tasks by their ids, and on all tasks of a tube.

use serde_json::json;
use tubewell::{ClaimToken, Error, Filter, Receipt, Result, Store, TaskState, Tube};

use super::claims;
use crate::args::{Bury, Kick, Revoke, State, Tasks};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count};
use crate::store;

/// Refuses a `bury` that names neither tasks nor a claim.
pub fn check_bury(args: &Bury) -> CommandResult {
    let tube = &args.tube;
    if !args.ids.is_empty() || tube.parse::<ClaimToken>().is_ok() {
        return Ok(());
    }
    let why = format!("bury names no task, and {tube:?} is not the token of a claim");
    let hint = "write `tubewell bury TUBE ID…`, or `tubewell bury TOKEN` with the token that \
                `tubewell claim` printed: the holder of a claim may give --group and --message";
    Err(Failure::usage(why).hint(hint))
}

pub fn bury(store: &Store, args: &Bury, output: &mut Output) -> CommandResult {
    if args.ids.is_empty() {
        return claims::bury(store, args, output);
    }
    each(store, &args.tube, &args.ids, ("buried", |tube, id| tube.admin().bury(id, None)), output)
}

pub fn forget(store: &Store, args: &Tasks, output: &mut Output) -> CommandResult {
    each(store, &args.tube, &args.ids, ("forgot", |tube, id| tube.admin().forget(id)), output)
}

pub fn revoke(store: &Store, args: &Revoke, output: &mut Output) -> CommandResult {
    if args.all {
        let revoked = store::tube(store, &args.tube)?.admin().revoke(Filter::new())?;
        if output.json {
            return output.object(&json!({ "tube": args.tube, "revoked": revoked }));
        }
        return output.line(format!("revoked {}", count(revoked, "task")));
    }
    let revoke = |tube: &Tube, id| match tube.admin().revoke(id)? {
        // The task is there, or else this says that it is not.
        0 => tube.query().task(id).and(Err(Error::NotTaken { id })),
        _ => state_now(tube, id),
    };
    each_in_state(store, (&args.tube, &args.tube), &args.ids, ("revoked", revoke), output)
}

/// Refuses a `kick` that names nothing to kick.
pub fn check_kick(args: &Kick) -> CommandResult {
    let is_selected = args.group.is_some() || args.tag.is_some();
    if args.all || args.count.is_some() || is_selected || !args.ids.is_empty() {
        return Ok(());
    }
    let place = args.place.word();
    let some =
        args.place.tube.as_ref().map(|tube| format!("`tubewell kick {tube} ID…` for some, "));
    Err(Failure::usage("kick does not say which buried tasks").hint(format!(
        "write {}`tubewell kick {place} --count N` for the first ones, or `tubewell kick {place} --all`",
        some.unwrap_or_default()
    )))
}

pub fn kick(store: &Store, args: &Kick, output: &mut Output) -> CommandResult {
    let selected = selected(None, args.group.as_deref(), args.tag.as_deref(), args.count);
    let kicked = match &args.place.tube {
        Some(name) if !args.ids.is_empty() => {
            return each(store, name, &args.ids, ("kicked", store::kick), output);
        }
        Some(name) => store::tube(store, name)?.admin().kick(selected)?,
        None => store.admin().kick(selected)?,
    };
    if output.json {
        return output.object(&json!({ "tube": args.place.tube, "kicked": kicked }));
    }
    output.line(format!("kicked {}", count(kicked, "task")))
}

pub fn release_all(store: &Store, name: &str, output: &mut Output) -> CommandResult {
    let released = store::tube(store, name)?.admin().release(Filter::new())?;
    if output.json {
        return output.object(&json!({ "tube": name, "released": released }));
    }
    output.line(format!("released {}", count(released, "task")))
}

/// Selects the tasks in a state if there is one, of a failure group if there is one, and with a tag if there
/// is one, up to a limit if there is one.
pub(super) fn selected(
    state: Option<State>,
    group: Option<&str>,
    tag: Option<&str>,
    limit: Option<u64>,
) -> Filter {
    let select = state.map(TaskState::from).into_iter().fold(Filter::new(), Filter::state);
    let select = group.into_iter().fold(select, Filter::group);
    let select = tag.into_iter().fold(select, Filter::tag);
    limit.into_iter().fold(select, Filter::limit)
}

/// Applies a verb to each task. Tasks that it does not apply to are reported at the end.
pub(super) fn each(
    store: &Store,
    name: &str,
    ids: &[u64],
    (done, verb): (&str, impl Fn(&Tube, u64) -> Result<Receipt>),
    output: &mut Output,
) -> CommandResult {
    let verb = |tube: &Tube, id| verb(tube, id).map(|receipt| receipt.state);
    each_in_state(store, (name, name), ids, (done, verb), output)
}

/// The state of a task that a call has changed. It may be over already.
pub(super) fn state_now(tube: &Tube, id: u64) -> Result<TaskState> {
    match tube.query().task(id) {
        Err(Error::NotFound { .. }) => Ok(TaskState::Done),
        task => Ok(task?.info.state),
    }
}

/// As `each`, for a verb that returns the state of the task, which is in the tube `now_in` then.
pub(super) fn each_in_state(
    store: &Store,
    (name, now_in): (&str, &str),
    ids: &[u64],
    (done, verb): (&str, impl Fn(&Tube, u64) -> Result<TaskState>),
    output: &mut Output,
) -> CommandResult {
    let tube = store::tube(store, name)?;
    let (mut missing, mut not_buried) = (Vec::new(), Vec::new());
    let (mut not_taken, mut not_done) = (Vec::new(), Vec::new());
    let mut unfit = Vec::new();
    // The verb is applied to all tasks, even after the output has failed.
    let mut printed = Ok(());
    for id in ids {
        match verb(&tube, *id) {
            Ok(_) if printed.is_err() => {}
            Ok(state) if output.json => {
                let state = state.as_str();
                printed = output.object(&json!({ "id": id, "tube": now_in, "state": state }));
            }
            Ok(_) => printed = output.line(format!("{done} task {id}")),
            Err(Error::NotFound { .. }) => missing.push(id.to_string()),
            Err(Error::NotBuried { .. }) => not_buried.push(id.to_string()),
            Err(Error::NotTaken { .. }) => not_taken.push(id.to_string()),
            Err(Error::NotDone { .. }) => not_done.push(id.to_string()),
            Err(
                error @ (Error::NotReady { .. }
                | Error::WrongState { .. }
                | Error::HasDependents { .. }),
            ) => {
                unfit.push(error.to_string());
            }
            Err(error) => return Err(Failure::from(error).context(format!("task {id}"))),
        }
    }
    let mut refused = Vec::new();
    for (ids, state) in [
        (not_buried, "neither buried nor delayed"),
        (not_taken, "not taken"),
        (not_done, "not done"),
    ] {
        match ids.as_slice() {
            [] => {}
            [id] => refused.push(format!("task {id} of {name} is {state}")),
            ids => refused.push(format!("tasks {} of {name} are {state}", ids.join(", "))),
        }
    }
    // The state of a task is a conflict, unless other tasks are refused for another reason.
    let exit = if refused.is_empty() && missing.is_empty() { Exit::Refused } else { Exit::NoTask };
    refused.extend(unfit);
    match missing.as_slice() {
        [] => {}
        [id] => refused.push(format!("{name} has no task {id}")),
        ids => refused.push(format!("{name} has no tasks {}", ids.join(", "))),
    }
    if refused.is_empty() {
        return printed.map_err(Failure::after_the_change);
    }
    Err(Failure::new(exit, refused.join("; ")))
}
