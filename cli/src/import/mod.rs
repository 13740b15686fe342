//! `import`: one task per line of standard input, in large atomic batches; or, with `--all`, what
//! `export` wrote.

mod all;
mod batches;
mod exported;
mod exported_schedule;
mod exported_tube;
mod ids;
mod lines;
mod stop;
mod waiting;
mod waiting_tasks;

use std::io::{IsTerminal, stdin};
use std::path::Path;
use std::sync::mpsc::sync_channel;

use serde_json::json;
use tubewell::Store;

use crate::args;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count, note};
use crate::progress::Progress;
use crate::{signals, store};
use batches::Import;
pub use lines::{Input, split_lines};

/// Imports standard input. `path`: that of the store.
pub fn run(store: &Store, path: &Path, args: &args::Import, output: &mut Output) -> CommandResult {
    if args.all && args.on_key == Some(args::OnKey::Replace) {
        return Err(Failure::usage("an exported task cannot replace another one")
            .hint("--on-key keep leaves out the tasks whose keys are in use"));
    }
    let tube = args.tube.as_ref().map(|name| store::tube_to_fill(store, name)).transpose()?;
    let keeps_ids = args.all && store.admin().next_id()? == 0;
    if args.all && !keeps_ids {
        note("the store is not new, so the imported tasks get new ids");
    }
    if stdin().is_terminal() {
        note("reading tasks from the terminal, one per line; Ctrl-D ends the input");
    }
    let progress = match lines::input_length() {
        // A bar would appear between the lines that the user types.
        None if stdin().is_terminal() => Progress::hidden(),
        Some(bytes) => Progress::bytes("importing", bytes),
        None => Progress::unknown_length("importing"),
    };
    let (to, input) = sync_channel(4);
    let signals = to.clone();
    let receive = move |signal| signals.send(Input::Signal(signal)).is_ok();
    let signal = signals::forward(receive)?;
    lines::read_in_background(to)?;
    let mut import = Import::new(store, path, args, keeps_ids, signal);
    import.target = tube.map(|tube| import.target_of(tube));
    let done = import.run(&input, &progress);
    progress.end();
    if import.left_out > 0 {
        let tasks = count(import.left_out, "done task");
        note(&format!("left out {tasks}: their tubes do not keep what is done"));
    }
    if import.unknown > 0 {
        let (tasks, group) = (count(import.unknown, "task"), "parents-unknown");
        note(&format!(
            "buried {tasks} in the failure group {group}: they wait for tasks that were not imported"
        ));
    }
    let stored = import.stored;
    if output.json {
        let line = done.as_ref().err().and_then(|stop| stop.line);
        let mut result = json!({ "stored": stored, "failed_line": line });
        match &args.tube {
            Some(tube) => result["tube"] = json!(tube),
            None => result["tubes"] = json!(import.tubes),
        }
        output.object(&result)?;
    }
    match done {
        Ok(()) if import.kept_buried > 0 => Err(kept_buried(import.kept_buried)),
        Ok(()) if output.json => Ok(()),
        Ok(()) => {
            let place = args.tube.clone().unwrap_or_else(|| count(import.tubes, "tube"));
            output.line(format!("stored {} in {place}", count(stored, "task")))
        }
        Err(stop) => Err(import.failure(stop)),
    }
}

/// The keys of some lines are those of buried tasks, which were kept.
fn kept_buried(number: u64) -> Failure {
    let lines = count(number, "line");
    let why = format!(
        "of {lines} nothing was put, and nothing will run: the tasks that have their keys are buried"
    );
    Failure::new(Exit::Partly, why)
        .hint("all other lines are stored; `tubewell kick` makes buried tasks ready")
}
