//! Verbs on tasks by their number, and on all of a tube at once.

use serde_json::json;
use tubewell::{Error, Receipt, Result, Store, Tube};

use crate::args::{Kick, Tasks};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count};
use crate::{record, store};

pub fn bury(store: &Store, asked: &Tasks, output: &mut Output) -> Outcome {
    each(store, asked, "buried", Tube::bury, output)
}

pub fn delete(store: &Store, asked: &Tasks, output: &mut Output) -> Outcome {
    each(store, asked, "deleted", Tube::delete, output)
}

pub fn kick(store: &Store, asked: &Kick, output: &mut Output) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
    let kicked = tube.kick(if asked.all { u64::MAX } else { asked.count })?;
    if output.json {
        return output.object(&json!({ "tube": asked.tube, "kicked": kicked }));
    }
    output.line(format!("kicked {}", count(kicked, "task")))
}

pub fn release_all(store: &Store, name: &str, output: &mut Output) -> Outcome {
    let released = store::tube(store, name)?.release_all()?;
    if output.json {
        return output.object(&json!({ "tube": name, "released": released }));
    }
    output.line(format!("released {}", count(released, "task")))
}

/// Does it to every task that is named; those that are not there are named in the end.
fn each(
    store: &Store,
    asked: &Tasks,
    done: &str,
    verb: impl Fn(&Tube, u64) -> Result<Receipt>,
    output: &mut Output,
) -> Outcome {
    let tube = store::tube(store, &asked.tube)?;
    let mut missing = Vec::new();
    // Those behind it are done even if nobody reads what is said of the first.
    let mut told = Ok(());
    for id in &asked.ids {
        match verb(&tube, *id) {
            Ok(_) if told.is_err() => {}
            Ok(receipt) if output.json => {
                let state = record::state(receipt.state);
                told = output.object(&json!({ "id": id, "tube": asked.tube, "state": state }));
            }
            Ok(_) => told = output.line(format!("{done} task {id}")),
            Err(Error::NotFound { .. }) => missing.push(id.to_string()),
            Err(error) => return Err(Failure::from(error).about(format!("task {id}"))),
        }
    }
    match missing.as_slice() {
        [] => told.map_err(Failure::after_the_fact),
        [id] => Err(Failure::new(Exit::NoTask, format!("{} has no task {id}", asked.tube))),
        ids => {
            let ids = ids.join(", ");
            Err(Failure::new(Exit::NoTask, format!("{} has no tasks {ids}", asked.tube)))
        }
    }
}
