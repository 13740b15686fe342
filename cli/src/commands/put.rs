//! `put`: one task.

use std::ffi::OsStr;
use std::io::{IsTerminal, Read, stdin};

use serde_json::json;
use tubewell::{MAX_BODY, Put, Store};

use crate::args::{self, PutOptions};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, size};
use crate::{record, store};

pub fn run(store: &Store, asked: &args::Put, output: &mut Output) -> Outcome {
    let tube = store::tube_to_fill(store, &asked.tube)?;
    let body = match &asked.body {
        Some(body) if body != "-" => bytes_of(body)?,
        None if stdin().is_terminal() => {
            return Err(Failure::usage("there is no body")
                .hint("give it as an argument, or - to read it from standard input"));
        }
        _ => whole_input()?,
    };
    let task = with_options(Put::new(body), &asked.options);
    let receipt = match asked.wait {
        Some(wait) => tube.put_wait(task, wait)?,
        None => tube.put(task)?,
    };
    let state = record::state(receipt.state);
    if output.json {
        return output.object(&json!({ "id": receipt.id, "tube": asked.tube, "state": state }));
    }
    output.line(format!("put task {} ({state})", receipt.id))
}

/// A task with the options that the command line gives.
pub fn with_options(mut task: Put, options: &PutOptions) -> Put {
    if let Some(pri) = options.pri {
        task = task.pri(pri);
    }
    if let Some(ttl) = options.ttl {
        task = task.ttl(ttl);
    }
    if let Some(ttr) = options.ttr {
        task = task.ttr(ttr);
    }
    if let Some(delay) = options.delay {
        task = task.delay(delay);
    }
    if let Some(name) = &options.sub_queue {
        task = task.sub_queue(name.as_str());
    }
    task
}

fn whole_input() -> Outcome<Vec<u8>> {
    let mut body = Vec::new();
    let most = MAX_BODY as u64;
    stdin().take(most + 1).read_to_end(&mut body).map_err(|error| Failure::input(&error))?;
    if body.len() > MAX_BODY {
        return Err(Failure::usage(format!("the body is larger than {}", size(most)))
            .hint("put it into a file, and the name of the file into the task"));
    }
    Ok(body)
}

/// An argument, byte for byte where arguments are bytes.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere an argument may be no text")]
fn bytes_of(body: &OsStr) -> Outcome<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    Ok(body.as_bytes().to_vec())
}

#[cfg(not(unix))]
fn bytes_of(body: &OsStr) -> Outcome<Vec<u8>> {
    let text = body.to_str().ok_or_else(|| Failure::usage("the body is no valid text"))?;
    Ok(text.as_bytes().to_vec())
}
