//! `verify` and `compact`.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tubewell::{Store, StoreOptions};

use crate::args::Cli;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count, store_size};
use crate::progress::Progress;
use crate::store;

/// Checks every record.
pub fn verify(store: &Store, output: &mut Output) -> CommandResult {
    let tasks = store::stored_in_file(store)?;
    let progress = Progress::items("verifying", tasks);
    let findings = store.admin().verify_with(|checked, _| {
        progress.set(checked);
        ControlFlow::Continue(())
    })?;
    progress.end();
    for finding in &findings {
        if output.json {
            output.object(&json!({ "defect": finding }))?;
        } else {
            output.line(finding)?;
        }
    }
    if output.json {
        output.object(&json!({
            "sound": findings.is_empty(), "defects": findings.len(), "tasks": tasks,
        }))?;
    }
    if findings.is_empty() {
        return if output.json {
            Ok(())
        } else {
            output.line(format!("sound: {}", count(tasks, "task")))
        };
    }
    let number = u64::try_from(findings.len()).unwrap_or(u64::MAX);
    Err(Failure::new(Exit::Partly, format!("the store has {}", count(number, "defect")))
        .hint("keep a copy of the file; tasks that can be read can still be popped"))
}

/// Returns free space to the file system.
pub fn compact(path: &Path, cli: &Cli, output: &mut Output) -> CommandResult {
    store::must_exist(path)?;
    // The length of the file is an upper limit of what has to be moved.
    let progress = Arc::new(Progress::bytes("compacting", store::size(path)));
    let compacted = store::retry_in_use(
        cli,
        || false,
        || {
            let bar = progress.clone();
            StoreOptions::default().compact(path, move |moved, _| bar.set(moved))
        },
    );
    let (before, after) = compacted.map_err(|error| store::open_failure(path, error))?;
    progress.end();
    if output.json {
        return output.object(&json!({ "bytes_before": before, "bytes_after": after }));
    }
    output.line(format!("{}: {} → {}", path.display(), store_size(before), store_size(after)))
}
