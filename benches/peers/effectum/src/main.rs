//! Runs the phases of the comparison on effectum, in a process of their own.
//!
//! `tubewell-peers-effectum FILE` opens a queue there. It answers each line of its standard input
//! with a line of its standard output, and ends with it.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

#[path = "../../src/ledger.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod ledger;
mod phases;
#[path = "../../src/wire.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod wire;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use ledger::Ledger;
use phases::{Open, Result};
use wire::{Answer, Request};

fn main() -> Result<()> {
    let file = PathBuf::from(std::env::args_os().nth(1).ok_or("which file?")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // What is dropped below must know the runtime.
    let _entered = runtime.enter();
    let queue = runtime.block_on(effectum::Queue::new(&file))?;
    let mut open: Option<Open> = None;
    let queue = Arc::new(queue);
    say(r#"{"ready":true}"#)?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let open = open.get_or_insert_with(|| Open::new(queue.clone(), Ledger::new(request.body)));
        let answer = runtime.block_on(open.phase(&request));
        let answer = answer
            .unwrap_or_else(|error| Answer { error: Some(error.to_string()), ..Answer::default() });
        say(&serde_json::to_string(&answer)?)?;
    }
    runtime.block_on(queue.close(phases::PATIENCE))?;
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
