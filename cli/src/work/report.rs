//! What `work` prints: each failure as it happens (with --json, each task), and a summary.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::outcome::{Finished, Outcome};
use crate::duration;
use crate::failure::CommandResult;
use crate::output::{Output, count, note};
use crate::progress::Progress;

/// How many tasks had which outcome.
#[derive(Clone, Copy, Default)]
struct Tally {
    done: u64,
    buried: u64,
    released: u64,
    snoozed: u64,
    lost: u64,
}

pub struct Report {
    output: Output,
    progress: Arc<Progress>,
    tally: Tally,
    /// With --once, the last outcomes of the tasks that are not done: each task counts once.
    /// Otherwise each run counts, so that a long run needs no memory for it.
    failed: Option<HashMap<u64, Outcome>>,
}

impl Report {
    pub fn new(json: bool, progress: Arc<Progress>, once: bool) -> Report {
        let failed = once.then(HashMap::new);
        Report { output: Output::new(json), progress, tally: Tally::default(), failed }
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
        self.progress.set(self.tally.done + self.tally.failed());
        if self.output.json {
            self.output.object(&json!({
                "id": id,
                "tube": tube,
                "takes": takes,
                "outcome": outcome.name(),
                "exit": end.exit,
                "signal": end.signal,
            }))?;
            return self.output.flush();
        }
        if outcome != Outcome::Done {
            let (end, outcome) = (end.text(), outcome.text());
            self.progress.note(&format!("{tube} {id}: {end} at take {takes}; {outcome}"));
        }
        Ok(())
    }

    /// Prints the summary.
    pub fn end(&mut self) -> CommandResult {
        let elapsed = self.progress.elapsed();
        self.progress.end();
        let Tally { done, buried, released, snoozed, lost } = self.tally;
        if self.output.json {
            self.output.object(&json!({
                "summary": true,
                "done": done,
                "buried": buried,
                "released": released,
                "snoozed": snoozed,
                "lost": lost,
                "seconds": elapsed.as_secs_f64(),
            }))?;
            return self.output.flush();
        }
        let mut text = format!("{} done", count(done, "task"));
        for (number, outcome) in
            [(buried, "buried"), (released, "released"), (snoozed, "snoozed"), (lost, "lost")]
        {
            if number > 0 {
                text = format!("{text}, {number} {outcome}");
            }
        }
        note(&format!("{text} in {}", duration::show(elapsed)));
        Ok(())
    }

    fn count(&mut self, id: u64, outcome: Outcome) {
        if let Some(last) = self.failed.as_mut().and_then(|failed| failed.remove(&id))
            && let Some(number) = self.tally.of(last)
        {
            // It was tried again: only the last outcome counts.
            *number -= 1;
        }
        if let Some(number) = self.tally.of(outcome) {
            *number += 1;
        }
        if let Some(failed) = &mut self.failed
            && !matches!(outcome, Outcome::Done | Outcome::Lost)
        {
            failed.insert(id, outcome);
        }
    }

    /// Whether a task was not done.
    pub fn has_failures(&self) -> bool {
        self.tally.failed() > 0
    }
}

impl Tally {
    fn of(&mut self, outcome: Outcome) -> Option<&mut u64> {
        Some(match outcome {
            Outcome::Done => &mut self.done,
            Outcome::Buried => &mut self.buried,
            Outcome::Released | Outcome::Ended | Outcome::Kept(_) => &mut self.released,
            Outcome::Snoozed => &mut self.snoozed,
            Outcome::Lost => &mut self.lost,
            Outcome::Unknown => return None,
        })
    }

    fn failed(&self) -> u64 {
        self.buried + self.released + self.snoozed + self.lost
    }
}
