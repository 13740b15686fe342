//! Changes of tasks, and deletes on a condition.

use std::collections::BTreeSet;

use serde_json::json;
use tubewell::{Error, Filter, Store, TaskState, Tube};

use super::tasks::{each, each_in_state, selected};
use crate::args::{Delete, Tasks, Update};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count};
use crate::{bytes, store};

/// Refuses an `update` that names nothing to change.
pub fn check_update(args: &Update) -> CommandResult {
    let Update { priority, delay, not_before, body, body_file, tags, .. } = args;
    let has_time = delay.is_some() || not_before.is_some();
    if priority.is_some() || has_time || body.is_some() || body_file.is_some() || !tags.is_empty() {
        return Ok(());
    }
    Err(Failure::usage("update does not say what to change")
        .hint("give --priority, --delay, --not-before, --body, --body-file or --tag"))
}

/// Changes tasks. A priority alone is changed in every state.
pub fn update(store: &Store, args: &Update, output: &mut Output) -> CommandResult {
    let tasks = &args.tasks;
    let body = bytes::of_option("body", args.body.as_deref(), args.body_file.as_deref())?;
    if let (Some(priority), None, None, None, []) =
        (args.priority, args.delay, args.not_before, &body, &args.tags[..])
    {
        let set_priority = |tube: &Tube, id| tube.admin().set_priority(id, priority);
        return each(store, &tasks.tube, &tasks.ids, ("updated", set_priority), output);
    }
    let mut update = tubewell::Update::new();
    update = args.priority.into_iter().fold(update, tubewell::Update::priority);
    update = args.delay.into_iter().fold(update, tubewell::Update::delay);
    update = args.not_before.into_iter().fold(update, tubewell::Update::not_before);
    update = body.into_iter().fold(update, tubewell::Update::body);
    if !args.tags.is_empty() {
        update = update.tags(&args.tags);
    }
    let update = |tube: &Tube, id| tube.update(id, update.clone());
    each(store, &tasks.tube, &tasks.ids, ("updated", update), output)
}

pub fn cancel(store: &Store, args: &Tasks, output: &mut Output) -> CommandResult {
    each(store, &args.tube, &args.ids, ("cancelled", Tube::cancel), output)
}

/// Refuses a `delete` that names nothing to delete.
pub fn check_delete(args: &Delete) -> CommandResult {
    let is_selected = args.state.is_some() || args.group.is_some() || args.tag.is_some();
    if args.has_ids() || is_selected {
        return Ok(());
    }
    let (place, tube) = (args.place.word(), &args.place.tube);
    let some = if tube.is_some() { "ID…" } else { "--id ID" };
    let all = tube.as_ref().map(|tube| format!(", or `tubewell truncate {tube}`"));
    Err(Failure::usage("delete does not say which tasks").hint(format!(
        "write `tubewell delete {place} {some}` for some, `tubewell delete {place} --state STATE`, \
         `--group NAME` or `--tag TAG` for those of a state, of a failure group or with a tag{}",
        all.unwrap_or_default()
    )))
}

/// Deletes a task if it is in one of these states.
fn delete_in(states: &[TaskState], tube: &Tube, id: u64) -> Result<TaskState, Error> {
    let state = loop {
        for state in states {
            if tube.admin().delete(Filter::from(id).state(*state))? > 0 {
                return Ok(TaskState::Done);
            }
        }
        let now = tube.query().task(id)?.info.state;
        // It may have gone from a wanted state to another one between two calls.
        if !states.contains(&now) {
            break now;
        }
    };
    let wanted: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    Err(Error::WrongState { id, state, wanted: wanted.join(" or ") })
}

/// The most tasks that one call deletes by their ids.
const DELETED_TOGETHER: usize = 10_000;

/// Deletes several tasks with one commit, or none of them. More than [`DELETED_TOGETHER`] are deleted with
/// several commits.
fn delete_together(store: &Store, name: &str, ids: &[u64], output: &mut Output) -> CommandResult {
    let tube = store::tube(store, name)?;
    let mut found = BTreeSet::new();
    for id in ids {
        match tube.query().task(*id) {
            Err(Error::NotFound { .. }) => {}
            // The delete reports what else is wrong with a task.
            _ => drop(found.insert(*id)),
        }
    }
    let ids_found: Vec<u64> = found.iter().copied().collect();
    for together in ids_found.chunks(DELETED_TOGETHER) {
        tube.admin().delete(Filter::new().ids(together))?;
    }
    let deleted = |_: &Tube, id| {
        if found.contains(&id) { Ok(TaskState::Done) } else { Err(Error::NotFound { id }) }
    };
    each_in_state(store, (name, name), ids, ("deleted", deleted), output)
}

/// Deletes tasks of a tube by their ids.
fn delete_ids(store: &Store, name: &str, args: &Delete, output: &mut Output) -> CommandResult {
    match (&args.only_if[..], &args.ids[..]) {
        ([], [_]) => return each(store, name, &args.ids, ("deleted", Tube::delete), output),
        ([], ids) => return delete_together(store, name, ids, output),
        _ => {}
    }
    let states: Vec<TaskState> = args.only_if.iter().copied().map(TaskState::from).collect();
    let delete = |tube: &Tube, id| delete_in(&states, tube, id);
    each_in_state(store, (name, name), &args.ids, ("deleted", delete), output)
}

/// Deletes tasks in whichever tubes they are, with one commit. Tasks that do not exist are reported at the
/// end.
fn delete_chosen(store: &Store, args: &Delete, output: &mut Output) -> CommandResult {
    let mut missing = Vec::new();
    for id in &args.chosen {
        if store.find(*id)?.is_none() {
            missing.push(id.to_string());
        }
    }
    let admin = store.admin();
    let deleted = match args.with_dependents {
        Some(most) => admin.delete_with_dependents(&args.chosen, most)?,
        None => admin.delete(Filter::new().ids(&args.chosen))?,
    };
    print_deleted(None, deleted, output).map_err(Failure::after_the_change)?;
    match missing.as_slice() {
        [] => Ok(()),
        [id] => Err(Failure::new(Exit::NoTask, format!("no tube has a task {id}"))),
        ids => Err(Failure::new(Exit::NoTask, format!("no tube has tasks {}", ids.join(", ")))),
    }
}

pub fn delete(store: &Store, args: &Delete, output: &mut Output) -> CommandResult {
    let name = args.place.tube.as_deref();
    let select = selected(args.state, args.group.as_deref(), args.tag.as_deref(), args.limit);
    let deleted = match name {
        Some(name) if !args.ids.is_empty() => return delete_ids(store, name, args, output),
        Some(name) => store::tube(store, name)?.admin().delete(select)?,
        None if !args.chosen.is_empty() => return delete_chosen(store, args, output),
        None => store.admin().delete(select)?,
    };
    print_deleted(name, deleted, output)
}

/// Prints how many tasks of a tube, or of all tubes, were deleted.
fn print_deleted(name: Option<&str>, deleted: u64, output: &mut Output) -> CommandResult {
    if output.json {
        return output.object(&json!({ "tube": name, "deleted": deleted }));
    }
    output.line(format!("deleted {}", count(deleted, "task")))
}
