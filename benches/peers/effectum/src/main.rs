//! Runs the phases of the comparison on effectum, in a separate process.
//!
//! `tubewell-peers-effectum FILE` opens a queue in FILE. It answers each line of its standard input
//! with a line of its standard output, and ends at the end of its standard input.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

#[path = "../../src/ledger.rs"]
#[allow(dead_code, reason = "only a part of it is used here")]
mod ledger;
mod phases;
#[path = "../../src/wire.rs"]
#[allow(dead_code, reason = "only a part of it is used here")]
mod wire;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use ledger::Ledger;
use phases::{Phases, Result};
use wire::{Answer, Request};

fn main() -> Result<()> {
    let file =
        PathBuf::from(std::env::args_os().nth(1).ok_or("usage: tubewell-peers-effectum FILE")?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Values below need the runtime when they are dropped.
    let _entered = runtime.enter();
    let queue = runtime.block_on(effectum::Queue::new(&file))?;
    let mut phases: Option<Phases> = None;
    let queue = Arc::new(queue);
    send(r#"{"ready":true}"#)?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line?)?;
        let phases = phases.get_or_insert_with(|| {
            let jobs = request.work == "job";
            let ledger =
                if jobs { Ledger::for_jobs(request.body) } else { Ledger::new(request.body) };
            Phases::new(queue.clone(), ledger)
        });
        let answer = runtime.block_on(phases.run(&request));
        let answer = answer
            .unwrap_or_else(|error| Answer { error: Some(error.to_string()), ..Answer::default() });
        send(&serde_json::to_string(&answer)?)?;
    }
    runtime.block_on(queue.close(phases::JOB_TIMEOUT))?;
    Ok(())
}

fn send(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
