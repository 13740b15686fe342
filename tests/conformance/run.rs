//! Runs the scenarios of all files, each on a store of its own, and compares the answers.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::recorded::{Answer, Scenario, VectorFile};
use super::scenario::ScenarioRun;
use crate::stores;

/// How many scenarios have run, and how many differ from their recording.
pub struct Outcome {
    pub scenarios: usize,
    pub failed: usize,
}

/// Runs all scenarios of the files in this directory.
pub fn run_dir(dir: &Path) -> Result<Outcome, String> {
    let unreadable = |error: &dyn fmt::Display| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|error| unreadable(&error))? {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();

    // All files are read before any scenario runs, so that a difference cannot hide an invalid
    // file.
    let mut scenarios = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let file: VectorFile =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        scenarios.extend(file.scenarios);
    }

    let mut failed = 0;
    for scenario in &scenarios {
        let result = catch_unwind(AssertUnwindSafe(|| run_scenario(scenario)))
            .unwrap_or_else(|_| Err("the scenario panicked; its message is above".to_owned()));
        if let Err(difference) = result {
            failed += 1;
            println!("{}: {difference}", scenario.name);
        }
    }
    Ok(Outcome { scenarios: scenarios.len(), failed })
}

fn run_scenario(scenario: &Scenario) -> Result<(), String> {
    let mut run =
        ScenarioRun::new(scenario).map_err(|error| format!("cannot create the tube: {error}"))?;
    for (number, step) in scenario.steps.iter().enumerate() {
        let (got, want) = run.step(step);
        let differs = match (&got, want) {
            (got, Some(want)) => !matches(got, want),
            // A step without `want` may fail with `not_taken` or `not_found` only.
            (Answer::Error(error), None) => !["not_taken", "not_found"].contains(&error.as_str()),
            (_, None) => false,
        };
        if differs {
            let want = want.map_or("any answer but an unexpected error".to_owned(), |want| {
                format!("{want:?}")
            });
            return Err(format!(
                "step {number}: {step:?}\n    expected {want}\n    got      {got:?}"
            ));
        }
    }
    let defects = run.store.admin().verify().map_err(|error| format!("verify: {error}"))?;
    if !defects.is_empty() {
        return Err(format!("verify after the last step: {defects:#?}"));
    }
    stores::close(&run.store);
    Ok(())
}

/// Whether the answers are equal. Of statistics, only the counters in the recording are compared.
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
