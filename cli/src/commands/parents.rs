//! Parents: `add-parents`, `remove-parents`, `parents`, `children`.

use serde_json::json;
use tubewell::{Error, Receipt, Store, Tube};

use crate::args::{AddParents, OneTask, RemoveParents};
use crate::failure::{CommandResult, Failure};
use crate::output::{Cell, Output, note};
use crate::store;

/// How many children a call returns.
const CHILDREN_MAX: usize = 10_000;

pub fn add(store: &Store, args: &AddParents, output: &mut Output) -> CommandResult {
    let OneTask { tube: name, id } = &args.task;
    let tube = store::tube(store, name)?;
    let of = args.parent_tube.as_ref().map(|name| store::tube(store, name)).transpose()?;
    let added = tube.admin().add_parents(*id, of.as_ref().unwrap_or(&tube), &args.parents);
    print_state(&args.task, added, output)
}

pub fn remove(store: &Store, args: &RemoveParents, output: &mut Output) -> CommandResult {
    let parents = (!args.all).then_some(args.parents.as_slice());
    let removed =
        store::tube(store, &args.task.tube)?.admin().remove_parents(args.task.id, parents);
    print_state(&args.task, removed, output)
}

/// Lists the tasks that a task waits for.
pub fn parents(store: &Store, task: &OneTask, output: &mut Output) -> CommandResult {
    list(store, task, ("waits for no task", |tube, id| tube.query().parents(id)), output)
}

/// Lists the tasks that wait for a task.
pub fn children(store: &Store, task: &OneTask, output: &mut Output) -> CommandResult {
    list(store, task, ("no task waits for it", |tube, id| tube.query().children(id)), output)
}

fn list(
    store: &Store,
    task: &OneTask,
    (none, verb): (&str, impl Fn(&Tube, u64) -> tubewell::Result<Vec<u64>>),
    output: &mut Output,
) -> CommandResult {
    let tube = store::tube(store, &task.tube)?;
    let ids = verb(&tube, task.id).map_err(|error| Failure::of_task(error, &task.tube, task.id))?;
    if ids.is_empty() && !output.json {
        return output.line(format!("task {}: {none}", task.id));
    }
    let mut tubes = vec![tube];
    for info in store.tubes()? {
        if info.name != task.tube {
            tubes.extend(store.find_tube(&info.name));
        }
    }
    let mut rows = Vec::new();
    for id in &ids {
        // It may be done since the ids were read.
        let Some((name, state)) = find(&mut tubes, *id)? else { continue };
        if output.json {
            output.object(&json!({ "id": id, "tube": name, "state": state }))?;
        } else {
            rows.push(vec![Cell::number(id), Cell::text(name), Cell::text(state)]);
        }
    }
    if !output.json {
        output.table(&["ID", "TUBE", "STATE"], &rows)?;
    }
    if ids.len() >= CHILDREN_MAX {
        output.flush()?;
        note(&format!("these are the first {CHILDREN_MAX}"));
    }
    Ok(())
}

/// The tube and the state of a task. Its tube is the first one afterwards: the next task is often in
/// the same one.
fn find(tubes: &mut [Tube], id: u64) -> CommandResult<Option<(String, &'static str)>> {
    for place in 0..tubes.len() {
        match tubes[place].query().task(id) {
            Ok(task) => {
                tubes.swap(0, place);
                return Ok(Some((tubes[0].name().to_owned(), task.info.state.as_str())));
            }
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn print_state(
    task: &OneTask,
    changed: tubewell::Result<Receipt>,
    output: &mut Output,
) -> CommandResult {
    let OneTask { tube, id } = task;
    let receipt = changed.map_err(|error| Failure::of_task(error, tube, *id))?;
    let state = receipt.state.as_str();
    if output.json {
        return output.object(&json!({ "id": id, "tube": tube, "state": state }));
    }
    output.line(format!("task {id} is {state}"))
}
