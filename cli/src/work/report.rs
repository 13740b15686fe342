//! The output of `work`: each failure as it happens (with --json, each task), and a summary.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::outcome::{Finished, Outcome};
use crate::duration;
use crate::failure::CommandResult;
use crate::output::{Output, count, note};
use crate::progress::Progress;

/// The outcomes that the summary counts.
const COUNTED: [&str; 5] = ["done", "buried", "released", "snoozed", "lost"];

pub struct Report {
    output: Output,
    progress: Arc<Progress>,
    /// How many tasks had which outcome.
    counts: [u64; COUNTED.len()],
    /// With --once, where the tasks that are not done are counted: each task counts once. Otherwise
    /// each run counts, so that a long run needs no memory for it.
    failed: Option<HashMap<u64, usize>>,
}

impl Report {
    pub fn new(json: bool, progress: Arc<Progress>, once: bool) -> Report {
        let failed = once.then(HashMap::new);
        Report { output: Output::new(json), progress, counts: [0; COUNTED.len()], failed }
    }

    pub fn is_json(&self) -> bool {
        self.output.json
    }

    /// Prints a remark above the progress bar.
    pub fn note(&self, text: &str) {
        self.progress.note(text);
    }

    /// Counts and prints the end of a task.
    pub fn finished(&mut self, tube: &str, id: u64, finished: Finished) -> CommandResult {
        let Finished { takes, end, outcome } = finished;
        self.count(id, outcome);
        self.progress.set(self.counts.iter().sum());
        let (name, text) = outcome.words();
        if self.output.json {
            self.output.object(&json!({
                "id": id,
                "tube": tube,
                "takes": takes,
                "outcome": name,
                "exit": end.exit,
                "signal": end.signal,
            }))?;
            return self.output.flush();
        }
        if outcome != Outcome::Done {
            let end = end.text();
            self.progress.note(&format!("{tube} {id}: {end} at take {takes}; {text}"));
        }
        Ok(())
    }

    /// Prints the summary.
    pub fn end(&mut self) -> CommandResult {
        let elapsed = self.progress.elapsed();
        self.progress.end();
        let counts = COUNTED.into_iter().zip(self.counts);
        if self.output.json {
            let mut summary = json!({"summary": true, "seconds": elapsed.as_secs_f64()});
            for (outcome, number) in counts {
                summary[outcome] = number.into();
            }
            self.output.object(&summary)?;
            return self.output.flush();
        }
        let mut text = format!("{} done", count(self.counts[0], "task"));
        for (outcome, number) in counts.skip(1).filter(|(_, number)| *number > 0) {
            text = format!("{text}, {number} {outcome}");
        }
        note(&format!("{text} in {}", duration::show(elapsed)));
        Ok(())
    }

    fn count(&mut self, id: u64, outcome: Outcome) {
        if let Some(last) = self.failed.as_mut().and_then(|failed| failed.remove(&id)) {
            // It was tried again: only the last outcome counts.
            self.counts[last] -= 1;
        }
        let place = match outcome {
            Outcome::Done => 0,
            Outcome::Buried => 1,
            Outcome::Released | Outcome::Ended | Outcome::Kept(_) | Outcome::TimedOut => 2,
            Outcome::Snoozed => 3,
            Outcome::Lost => 4,
            Outcome::Unknown => return,
        };
        self.counts[place] += 1;
        if let Some(failed) = &mut self.failed
            && (1..=3).contains(&place)
        {
            failed.insert(id, place);
        }
    }

    /// Whether a task was not done.
    pub fn has_failures(&self) -> bool {
        self.counts[1..].iter().any(|number| *number > 0)
    }
}
