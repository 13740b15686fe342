//! `verify` and `compact`: care of the file.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tubewell::{Store, StoreOptions};

use crate::args::Cli;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count, plain, size};
use crate::progress::Progress;
use crate::store;

/// Checks every record.
pub fn verify(store: &Store, output: &mut Output) -> Outcome {
    let tasks: u64 = store.statistics().values().map(|counts| counts.tasks.total).sum();
    let progress = Progress::things("verifying", tasks);
    let findings = store.verify_with(|checked, _| progress.set(checked))?;
    progress.end();
    for finding in &findings {
        if output.json {
            output.object(&json!({ "defect": finding }))?;
        } else {
            output.line(plain(finding))?;
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
        .hint("keep a copy of the file; tasks that can be read can still be taken"))
}

/// Gives free space back.
pub fn compact(path: &Path, cli: &Cli, output: &mut Output) -> Outcome {
    store::must_exist(path)?;
    // What is left at the end is what was free: less has to be moved than there is.
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let progress = Arc::new(Progress::bytes("compacting", bytes));
    let compacted = store::patiently(cli, || {
        let bar = progress.clone();
        StoreOptions::default().compact_with(path, move |moved, _| bar.set(moved))
    });
    let (before, after) = compacted.map_err(|error| store::refused(path, error))?;
    progress.end();
    if output.json {
        return output.object(&json!({ "bytes_before": before, "bytes_after": after }));
    }
    output.line(format!("{}: {} → {}", path.display(), size(before), size(after)))
}
