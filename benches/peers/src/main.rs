//! Compares tubewell with other queues: the same work, on the same disk, in one run. README.md
//! describes how to run it and how fair it is.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod args;
mod chart;
mod ledger;
mod machine;
mod markdown;
mod peers;
mod process;
mod queue;
mod remote;
mod report;
mod run;
mod targets;
mod threads;
mod wire;

use std::path::Path;
use std::process::ExitCode;

use args::Args;
use machine::Machine;
use queue::Result;
use report::Report;

fn main() -> ExitCode {
    match args::parse(lexopt::Parser::from_env()).and_then(|args| match args {
        None => {
            print!("{}", args::HELP);
            Ok(true)
        }
        Some(args) => measure(&args),
    }) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures the selected rows; returns whether all of them are valid.
fn measure(args: &Args) -> Result<bool> {
    let peers = peers::all();
    let names = run::names(&peers, args);
    if args.list {
        println!("{}", names.join("\n"));
        return Ok(true);
    }
    if names.is_empty() {
        return Err("no row matches --only and --work; --list prints the names of the rows".into());
    }
    make_dir(&args.dir)?;
    let machine = Machine::inspect(&args.dir)?;
    let settings = run::settings(args);
    let peers = run::run(&peers, args);
    let mut report = Report { machine, settings, peers, targets: Vec::new() };
    report.targets = targets::targets(&report);
    let text = markdown::markdown(&report);
    print!("{text}");
    write_files(args, &report, &text)?;
    Ok(report.peers.iter().flat_map(|peer| &peer.rows).all(report::Row::is_valid))
}

fn write_files(args: &Args, report: &Report, text: &str) -> Result<()> {
    if let Some(path) = &args.json {
        write(path, &(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    if let Some(path) = &args.markdown {
        write(path, text)?;
    }
    if let Some(dir) = &args.svg {
        make_dir(dir)?;
        for (name, chart) in chart::charts(report) {
            write(&dir.join(name), &chart)?;
        }
    }
    Ok(())
}

fn make_dir(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)
        .map_err(|error| format!("cannot create the directory {}: {error}", dir.display()).into())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}
