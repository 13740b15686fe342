//! Runs the recorded scenarios on the public interface.
//!
//! The scenarios are those of `tests/vectors`, or of the folder named by `TUBEWELL_VECTORS`;
//! `tests/vectors/FORMAT.md` says how they are written. Every scenario of every `.json` file is
//! run. One that differs is reported with its first differing step, and the others still run.
//! The program fails when any scenario differed, when a file cannot be read, when a field or a
//! verb is not known, and when there is nothing to run.
//!
//! What the recordings leave open is decided here, in one place:
//!
//! * a step without `task`, and a task whose put was refused, name a task that does not exist;
//! * `ack`, `release`, `touch`, `bury`, `delete` and `put` answer with a receipt, which has no data:
//!   for them the data of the put is compared, for `take`, `take_result` and `peek` the data that
//!   came back;
//! * a time below zero is zero;
//! * a blocking take answers only after it has told its waker so.

mod recorded;
mod scenario;
mod waiter;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use recorded::{Answer, File, Scenario};
use scenario::Run;

fn main() -> ExitCode {
    let folder = std::env::var_os("TUBEWELL_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("vectors"),
        PathBuf::from,
    );
    match run_folder(&folder) {
        Ok(outcome) => {
            println!("{} scenarios", outcome.scenarios);
            if outcome.scenarios == 0 {
                println!("nothing to run in {}", folder.display());
                return ExitCode::FAILURE;
            }
            if outcome.failed > 0 {
                println!("{} failed", outcome.failed);
                return ExitCode::FAILURE;
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

struct Outcome {
    scenarios: usize,
    failed: usize,
}

fn run_folder(folder: &Path) -> Result<Outcome, String> {
    let unreadable = |error: &dyn fmt::Display| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();

    // All are read before any is run, so that a damaged file cannot hide behind a difference.
    let mut scenarios = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let file: File =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        scenarios.extend(file.scenarios);
    }

    let mut failed = 0;
    for scenario in &scenarios {
        let result = catch_unwind(AssertUnwindSafe(|| run_scenario(scenario)))
            .unwrap_or_else(|_| Err("panicked, see above".to_owned()));
        if let Err(difference) = result {
            failed += 1;
            println!("{}: {difference}", scenario.name);
        }
    }
    Ok(Outcome { scenarios: scenarios.len(), failed })
}

fn run_scenario(scenario: &Scenario) -> Result<(), String> {
    let mut run = Run::new(scenario).map_err(|error| format!("cannot begin: {error}"))?;
    for (number, step) in scenario.steps.iter().enumerate() {
        let (got, want) = run.step(step);
        let differs = match (&got, want) {
            (got, Some(want)) => !matches(got, want),
            // A step with nothing to compare must still work.
            (Answer::Error(error), None) => !["not_taken", "not_found"].contains(&error.as_str()),
            (_, None) => false,
        };
        if differs {
            let want = want.map_or("nothing in particular".to_owned(), |want| format!("{want:?}"));
            return Err(format!("step {number}: {step:?}\n    wanted {want}\n    got    {got:?}"));
        }
    }
    let defects = run.store.verify().map_err(|error| format!("verify: {error}"))?;
    if !defects.is_empty() {
        return Err(format!("verify after the last step: {defects:#?}"));
    }
    Ok(())
}

/// The same answer; of statistics, whatever the recording names.
fn matches(got: &Answer, want: &Answer) -> bool {
    match (got, want) {
        (Answer::Stats(got), Answer::Stats(want)) => {
            let contains = |got: &BTreeMap<String, u64>, want: &BTreeMap<String, u64>| {
                want.iter().all(|(name, count)| got.get(name) == Some(count))
            };
            contains(&got.tasks, &want.tasks) && contains(&got.calls, &want.calls)
        }
        (got, want) => got == want,
    }
}
