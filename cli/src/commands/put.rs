//! `put`: one task.

use std::ffi::OsStr;
use std::io::{IsTerminal, stdin};

use serde_json::json;
use tubewell::{Error, Put, Store, TaskState};

use crate::args::OnKey;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::Output;
use crate::{args, bytes, store};

pub fn run(store: &Store, args: &args::Put, output: &mut Output) -> CommandResult {
    let tube = store::tube_to_fill(store, &args.tube)?;
    let mut task = args.options.apply(Put::new(body(args.body.as_deref())?));
    if let Some(key) = &args.key {
        task = task.key(key.as_str());
    }
    // The refusal says what is kept. A receipt of a put that keeps a task looks like that of a new one.
    let keeps = args.on_key == Some(OnKey::Keep);
    if let Some(on_key) = args.on_key.filter(|_| !keeps) {
        task = task.on_key(on_key.into());
    }
    if let Some(key) = &args.idempotency_key {
        task = task.idempotency_key(key.as_str());
    }
    if let Some(time) = args.unique_for {
        task = task.unique_for(time);
    }
    if !args.after.is_empty() {
        let of = args.after_tube.as_ref().map(|name| store::tube(store, name)).transpose()?;
        task = task.after(of.as_ref().unwrap_or(&tube), args.after.iter().copied());
    }
    for key in &args.after_key {
        task = task.after_key(key.as_str());
    }
    if let Some(rule) = args.on_parent {
        task = task.on_parent(rule.into());
    }
    let receipt = match args.wait {
        Some(wait) => tube.put_timeout(task, wait),
        None => tube.put(task),
    };
    let receipt = match receipt {
        Err(Error::KeyInUse { key, id, state }) if keeps && state != TaskState::Recurring => {
            return kept((&args.tube, &key), (id, state), output);
        }
        Err(error @ Error::KeyInUse { state, .. }) if state != TaskState::Recurring => {
            let mut failure = Failure::from(error);
            failure.hint = failure.hint.map(|hint| {
                format!("{hint}; --on-key keep puts nothing, --on-key replace puts that task anew")
            });
            return Err(failure);
        }
        receipt => receipt?,
    };
    let state = receipt.state.as_str();
    if output.json {
        return output.object(&json!({ "id": receipt.id, "tube": args.tube, "state": state }));
    }
    output.line(format!("put task {} ({state})", receipt.id))
}

/// Reports that nothing was put, since a task has the key.
fn kept(
    (tube, key): (&str, &str),
    (id, state): (u64, TaskState),
    output: &mut Output,
) -> CommandResult {
    if state == TaskState::Buried {
        let why = format!(
            "nothing was put, and nothing will run: task {id}, which has the key {key:?}, is buried"
        );
        return Err(Failure::new(Exit::Refused, why).hint(format!(
            "`tubewell find --id {id}` shows why, and its tube; `tubewell kick TUBE {id}` makes it ready; \
             --on-key replace puts it anew"
        )));
    }
    let state = state.as_str();
    if output.json {
        return output.object(&json!({ "id": id, "tube": tube, "state": state, "kept": true }));
    }
    output.line(format!("kept task {id} ({state}), which has the key: nothing was put"))
}

/// The body of an argument, or of standard input if there is none.
pub fn body(argument: Option<&OsStr>) -> CommandResult<Vec<u8>> {
    match argument {
        Some(body) if body != "-" => bytes::of_argument("body", body),
        None if stdin().is_terminal() => Err(Failure::usage("the body is missing")
            .hint("give it as an argument, or give - to read it from standard input")),
        _ => bytes::of_stdin("body"),
    }
}
