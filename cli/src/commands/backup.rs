//! `backup`: a copy of the store in a new file.

use std::path::Path;

use serde_json::json;
use tubewell::{Error, Store};

use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count, size};
use crate::progress::Progress;

pub fn run(store: &Store, to: &Path, output: &mut Output) -> Outcome {
    let tasks: u64 = store.statistics().values().map(|counts| counts.tasks.total).sum();
    let progress = Progress::things("copying", tasks);
    let copied = store.backup_with(to, |copied, _| progress.set(copied));
    progress.end();
    copied.map_err(|error| match error {
        Error::FileExists { .. } => {
            Failure::new(Exit::Refused, format!("{} exists already", to.display()))
                .hint("name a new file, or remove it first: a copy is never written over another")
        }
        Error::Corrupt { .. } => Failure::from(error)
            .hint("`tubewell export FILE` reads what can still be read of a damaged store"),
        // The hints on the rights to a file are about the store's.
        Error::Io { what } if what.contains(".partial") => Failure::new(Exit::Failed, what)
            .hint("is there room for a copy, and may you write into its directory?"),
        error => error.into(),
    })?;
    let bytes = std::fs::metadata(to).map_or(0, |file| file.len());
    if output.json {
        return output
            .object(&json!({ "file": to.display().to_string(), "tasks": tasks, "bytes": bytes }));
    }
    output.line(format!("copied {} to {} ({})", count(tasks, "task"), to.display(), size(bytes)))
}
