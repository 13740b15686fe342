//! Tasks by their keys: `find`, `requeue`.

use serde_json::json;
use tubewell::{Error, Put, Store};

use super::put;
use crate::args::{Find, Requeue};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::record::TaskRecord;
use crate::{store, task_text};

/// Shows the task that has a key, or an id.
pub fn find(store: &Store, args: &Find, output: &mut Output) -> CommandResult {
    let (found, name) = match (args.id, args.key.as_deref().unwrap_or_default()) {
        (Some(id), _) => (store.find(id)?, format!("the id {id}")),
        (None, key) => (store.by_key(key)?, format!("the key {key:?}")),
    };
    let found = found.ok_or_else(|| Failure::new(Exit::NoTask, format!("no task has {name}")))?;
    let tube = store::tube(store, &found.tube)?;
    let task = tube.query().task(found.id)?;
    if args.body {
        return output.body(&task.body);
    }
    let now = store::now(store)?;
    if output.json {
        return output.object(&TaskRecord::new(&tube, &task, now)?);
    }
    task_text::print_fields(&[("tube", found.tube.clone())], output)?;
    task_text::print(&tube, &task, now, output)
}

/// Puts the task anew that has a key.
pub fn requeue(store: &Store, args: &Requeue, output: &mut Output) -> CommandResult {
    let tube = store::tube_to_fill(store, &args.tube)?;
    let task = args.options.apply(Put::new(put::body(args.body.as_deref())?));
    let receipt = tube.requeue(&args.key, task).map_err(|error| match error {
        Error::KeyNotFound { key } => {
            Failure::new(Exit::NoTask, format!("no task has the key {key:?}"))
                .hint("`tubewell put --key` puts a new task with it")
        }
        error => error.into(),
    })?;
    let state = receipt.state.as_str();
    if output.json {
        return output.object(&json!({ "id": receipt.id, "tube": args.tube, "state": state }));
    }
    output.line(format!("put task {} anew ({state})", receipt.id))
}
