//! `put`: one task.

use std::ffi::OsStr;
use std::io::{IsTerminal, Read, stdin};

use serde_json::json;
use tubewell::{MAX_BODY, Put, Store};

use crate::failure::{CommandResult, Failure};
use crate::output::{Output, size};
use crate::{args, record, store};

pub fn run(store: &Store, args: &args::Put, output: &mut Output) -> CommandResult {
    let tube = store::tube_to_fill(store, &args.tube)?;
    let body = match &args.body {
        Some(body) if body != "-" => argument_bytes(body)?,
        None if stdin().is_terminal() => {
            return Err(Failure::usage("the body is missing")
                .hint("give it as an argument, or give - to read it from standard input"));
        }
        _ => read_stdin()?,
    };
    let task = args.options.apply(Put::new(body));
    let receipt = match args.wait {
        Some(wait) => tube.put_wait(task, wait)?,
        None => tube.put(task)?,
    };
    let state = record::state(receipt.state);
    if output.json {
        return output.object(&json!({ "id": receipt.id, "tube": args.tube, "state": state }));
    }
    output.line(format!("put task {} ({state})", receipt.id))
}

fn read_stdin() -> CommandResult<Vec<u8>> {
    let mut body = Vec::new();
    let limit = MAX_BODY as u64;
    stdin().take(limit + 1).read_to_end(&mut body).map_err(|error| Failure::input(&error))?;
    if body.len() > MAX_BODY {
        return Err(Failure::usage(format!("the body is larger than {}", size(limit)))
            .hint("write it to a file, and put the name of the file"));
    }
    Ok(body)
}

/// The bytes of an argument. On Unix they need not be UTF-8.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on other systems")]
fn argument_bytes(body: &OsStr) -> CommandResult<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    Ok(body.as_bytes().to_vec())
}

#[cfg(not(unix))]
fn argument_bytes(body: &OsStr) -> CommandResult<Vec<u8>> {
    let text = body.to_str().ok_or_else(|| Failure::usage("the body is not valid Unicode"))?;
    Ok(text.as_bytes().to_vec())
}
