//! The figures of a release: `cargo bench --bench figures [-- SUBJECT…]`.
//!
//! `SUBJECTS` has the names of the subjects. If none is given, all are measured.
//!
//! * `--dir DIR` makes the stores in DIR (default: a temporary directory). DIR must be on the disk
//!   to be measured.
//! * `--json FILE` writes the figures to FILE.
//! * `--seconds N` is the duration of each phase of `latency` (default: 5).
//! * `transact` needs `--features redb`.
//! * `--large` also measures with ten million tasks, which takes many minutes.
//!
//! Each body is checked when it is taken. At the end, a table compares the targets with the
//! figures.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a bench may panic, and rounds figures"
)]

mod backlog;
mod child;
mod children;
mod dues;
mod filters;
mod gates;
mod idle;
mod jobs;
mod labels;
mod latency;
mod medium;
mod metrics;
mod pair;
mod process;
mod rates;
mod remote;
mod report;
mod schedules;
mod setting;
mod steady;
mod sub_queues;
mod takes;
#[cfg(feature = "redb")]
mod transact;
mod tubes;
mod wakes;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use report::Report;
use setting::{Outcome, Setting, flush_time};

type Subject = (&'static str, fn(&Setting, &mut Report) -> Outcome);

const SUBJECTS: &[Subject] = &[
    ("rates", rates::measure),
    ("latency", latency::measure),
    ("take", takes::measure),
    ("wake", wakes::measure),
    ("backlog", backlog::measure),
    ("steady", steady::measure),
    ("sub-queues", sub_queues::measure),
    ("due", dues::measure_due),
    ("buried", dues::measure_buried),
    ("tubes", tubes::measure),
    ("jobs", jobs::measure),
    #[cfg(feature = "redb")]
    ("transact", transact::measure),
    ("gates", gates::measure),
    ("children", children::measure),
    ("filters", filters::measure),
    ("metrics", metrics::measure),
    ("labels", labels::measure),
    ("schedules", schedules::measure),
    ("worker", worker::measure),
    ("remote", remote::measure),
    ("idle", idle::measure),
];

/// The command line.
#[derive(Default)]
struct Arguments {
    dir: Option<PathBuf>,
    json: Option<PathBuf>,
    large: bool,
    seconds: Option<f64>,
    names: Vec<String>,
    child: Vec<String>,
}

fn main() -> Outcome {
    let arguments = read_arguments()?;
    if let [workload, rest @ ..] = arguments.child.as_slice() {
        return child::run(workload, rest);
    }
    let temporary = tempfile::tempdir()?;
    let dir = arguments.dir.unwrap_or_else(|| temporary.path().to_path_buf());
    let duration = Duration::try_from_secs_f64(arguments.seconds.unwrap_or(5.0))?;
    let setting = Setting { dir, large: arguments.large, duration };
    let about = [
        ("floor", format!("{:.0} µs", flush_time(&setting.dir)?)),
        ("cores", std::thread::available_parallelism()?.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    println!("fdatasync of 128 B over existing blocks: {} (median of 500)", about[0].1);
    let mut report = Report::default();
    for &(name, measure) in SUBJECTS {
        if arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name) {
            report.begin(name);
            measure(&setting, &mut report)?;
            // Written after each subject, so that an aborted run keeps its figures.
            if let Some(path) = &arguments.json {
                std::fs::write(path, format!("{:#}\n", report.json(&about)))?;
            }
        }
    }
    println!("\n{}", report.table());
    Ok(())
}

fn read_arguments() -> Outcome<Arguments> {
    use lexopt::prelude::{Long, Value, ValueExt};
    let mut arguments = Arguments::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("dir") => arguments.dir = Some(parser.value()?.into()),
            Long("json") => arguments.json = Some(parser.value()?.into()),
            Long("seconds") => arguments.seconds = Some(parser.value()?.parse()?),
            Long("large") => arguments.large = true,
            Long("child") => {
                for argument in parser.values()? {
                    arguments.child.push(argument.string()?);
                }
            }
            // Cargo adds this option.
            Long("bench") => {}
            Value(name) => {
                let name = name.string()?;
                if SUBJECTS.iter().all(|(known, _)| *known != name) {
                    let known: Vec<_> = SUBJECTS.iter().map(|(known, _)| *known).collect();
                    return Err(
                        format!("unknown subject {name:?}; the subjects are {known:?}").into()
                    );
                }
                arguments.names.push(name);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(arguments)
}
