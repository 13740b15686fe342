//! The history of a task: `history` and `log`.

use serde_json::json;
use tubewell::Store;
use tubewell::expert::HistoryEntry;

use crate::args::{Log, OneTask};
use crate::failure::{CommandResult, Failure};
use crate::history::EntryRecord;
use crate::output::{Cell, Output};
use crate::{moment, store};

const COLUMNS: [&str; 7] = ["NUMBER", "TIME", "WHAT", "STATE", "TUBE", "OWNER", "TEXT"];

/// Shows what has happened to a task.
pub fn history(store: &Store, args: &OneTask, output: &mut Output) -> CommandResult {
    let (name, id) = (&args.tube, args.id);
    let tube = store::tube(store, name)?;
    let entries = tube.query().history(id).map_err(|error| Failure::of_task(error, name, id))?;
    if output.json {
        return entries.iter().try_for_each(|entry| output.object(&EntryRecord::new(entry)));
    }
    if entries.is_empty() {
        return output.line("no history");
    }
    let row = |entry: &HistoryEntry| {
        vec![
            Cell::number(entry.number),
            Cell::text(moment::show(entry.at)),
            Cell::text(entry.what.as_str()),
            Cell::text(entry.state.as_str()),
            Cell::text(&entry.tube),
            Cell::text(entry.owner.as_deref().unwrap_or("-")),
            Cell::text(entry.text.as_deref().unwrap_or("-")),
        ]
    };
    output.table(&COLUMNS, &entries.iter().map(row).collect::<Vec<_>>())
}

/// Adds an entry to the history of a task.
pub fn log(store: &Store, args: &Log, output: &mut Output) -> CommandResult {
    let (name, id) = (&args.task.tube, args.task.id);
    let tube = store::tube(store, name)?;
    if tube.info()?.history == 0 {
        return Err(Failure::usage(format!("tube {name} keeps no history"))
            .hint(format!("`tubewell alter {name} --history 20` keeps the last 20 entries")));
    }
    let receipt =
        tube.admin().log(id, &args.text).map_err(|error| Failure::of_task(error, name, id))?;
    let printed = if output.json {
        output.object(&json!({ "id": id, "tube": name, "state": receipt.state.as_str() }))
    } else {
        output.line(format!("added to the history of task {id}"))
    };
    printed.map_err(Failure::after_the_change)
}
