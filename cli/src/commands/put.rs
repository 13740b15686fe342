//! `put`: one task.

use std::ffi::OsStr;
use std::io::{IsTerminal, stdin};

use serde_json::json;
use tubewell::{Put, Store};

use crate::failure::{CommandResult, Failure};
use crate::output::Output;
use crate::{args, bytes, store};

pub fn run(store: &Store, args: &args::Put, output: &mut Output) -> CommandResult {
    let tube = store::tube_to_fill(store, &args.tube)?;
    let mut task = args.options.apply(Put::new(body(args.body.as_deref())?));
    if let Some(key) = &args.key {
        task = task.key(key.as_str());
    }
    if let Some(on_key) = args.on_key {
        task = task.on_key(on_key.into());
    }
    if let Some(token) = &args.token {
        task = task.token(token.as_str());
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
        Some(wait) => tube.put_wait(task, wait)?,
        None => tube.put(task)?,
    };
    let state = receipt.state.as_str();
    if output.json {
        return output.object(&json!({ "id": receipt.id, "tube": args.tube, "state": state }));
    }
    output.line(format!("put task {} ({state})", receipt.id))
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
