//! The figures of a release: `cargo bench --bench figures [-- SUBJECT…]`.
//!
//! Subjects are named below; without any, all are measured. `--dir DIR` is where the stores are
//! made (a temporary folder, if not given): on the disk that is to be measured. `--json FILE` keeps
//! the figures, `--large` measures with ten million tasks, too, which takes many minutes. Every
//! body is checked when it is taken. At the end comes one table of what was wanted and got.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a bench may stop, and rounds")]

mod backlog;
mod child;
mod dues;
mod idle;
mod medium;
mod rates;
mod report;
mod setting;
mod steady;
mod sub_queues;
mod takes;
mod tubes;
mod wakes;

use std::path::PathBuf;

use report::Report;
use setting::{Outcome, Setting, disk_floor};

type Subject = (&'static str, fn(&Setting, &mut Report) -> Outcome);

const SUBJECTS: [Subject; 10] = [
    ("rates", rates::measure),
    ("take", takes::measure),
    ("wake", wakes::measure),
    ("backlog", backlog::measure),
    ("steady", steady::measure),
    ("sub-queues", sub_queues::measure),
    ("due", dues::measure_due),
    ("buried", dues::measure_buried),
    ("tubes", tubes::measure),
    ("idle", idle::measure),
];

/// What the command line asks for.
#[derive(Default)]
struct Asked {
    dir: Option<PathBuf>,
    json: Option<PathBuf>,
    large: bool,
    names: Vec<String>,
    child: Vec<String>,
}

fn main() -> Outcome {
    let asked = read_arguments()?;
    if let [verb, rest @ ..] = asked.child.as_slice() {
        return child::work(verb, rest);
    }
    let temporary = tempfile::tempdir()?;
    let dir = asked.dir.unwrap_or_else(|| temporary.path().to_path_buf());
    let setting = Setting { dir, large: asked.large };
    let about = [
        ("floor", format!("{:.0} µs", disk_floor(&setting.dir)?)),
        ("cores", std::thread::available_parallelism()?.to_string()),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    println!("fdatasync of 128 B over written blocks: {} (median of 500)", about[0].1);
    let mut report = Report::default();
    for (name, measure) in SUBJECTS {
        if asked.names.is_empty() || asked.names.iter().any(|asked| asked == name) {
            report.begin(name);
            measure(&setting, &mut report)?;
            // After each: a run that is broken off has measured something all the same.
            if let Some(path) = &asked.json {
                std::fs::write(path, format!("{:#}\n", report.json(&about)))?;
            }
        }
    }
    println!("\n{}", report.table());
    Ok(())
}

fn read_arguments() -> Outcome<Asked> {
    use lexopt::prelude::{Long, Value, ValueExt};
    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("dir") => asked.dir = Some(parser.value()?.into()),
            Long("json") => asked.json = Some(parser.value()?.into()),
            Long("large") => asked.large = true,
            Long("child") => {
                for argument in parser.values()? {
                    asked.child.push(argument.string()?);
                }
            }
            // What cargo adds.
            Long("bench") => {}
            Value(name) => {
                let name = name.string()?;
                if SUBJECTS.iter().all(|(known, _)| *known != name) {
                    let known: Vec<_> = SUBJECTS.iter().map(|(known, _)| *known).collect();
                    return Err(format!("no subject {name:?}; there are {known:?}").into());
                }
                asked.names.push(name);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(asked)
}
