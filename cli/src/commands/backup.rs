//! `backup`: a copy of the store in a new file.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::json;
use tubewell::{Error, Store};

use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count, store_size};
use crate::progress::Progress;
use crate::{connection, store};

pub fn run(store: &Store, to: &Path, output: &mut Output) -> CommandResult {
    let tasks = store::stored_in_file(store)?;
    let progress = Progress::items("copying", tasks);
    let copied = store.admin().backup_with(to, |copied, _| {
        progress.set(copied);
        ControlFlow::Continue(())
    });
    progress.end();
    copied.map_err(|error| match error {
        Error::FileExists { .. } => {
            Failure::new(Exit::Refused, format!("{} already exists", to.display()))
                .hint("name a new file, or remove this one: a backup never overwrites a file")
        }
        Error::Corrupt { .. } => Failure::from(error)
            .hint("`tubewell export FILE` saves what can be read of a damaged store"),
        // The general hint on permissions is about the file of the store.
        Error::Io { what } if what.contains(".partial") => Failure::new(Exit::Failed, what)
            .hint("check the free disk space and the permissions of the directory"),
        error => error.into(),
    })?;
    if connection::owner().is_some() {
        // Nothing is to be flushed, which an owner whose storage fails could not do.
        store.close()?;
    }
    // The owner of the store may be on another machine.
    let bytes = to.exists().then(|| store::size(to));
    if output.json {
        return output
            .object(&json!({ "file": to.display().to_string(), "tasks": tasks, "bytes": bytes }));
    }
    let size = bytes.map(|bytes| format!(" ({})", store_size(bytes))).unwrap_or_default();
    output.line(format!("copied {} to {}{size}", count(tasks, "task"), to.display()))
}
