//! What `work` prints: each failure as it happens (with --json, each task), and a summary.

use std::collections::HashMap;

use serde_json::json;

use super::outcome::{CommandEnd, Finished, Outcome};
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
    lost: u64,
}

pub struct Report<'a> {
    pub output: &'a mut Output,
    progress: Progress,
    tally: Tally,
    /// With --once, the tasks whose last attempt failed, and whether they are buried: each counts
    /// once. Otherwise each failure counts, so that a long run needs no memory for it.
    failed: Option<HashMap<u64, bool>>,
}

impl<'a> Report<'a> {
    pub fn new(output: &'a mut Output, progress: Progress, once: bool) -> Report<'a> {
        let failed = once.then(HashMap::new);
        Report { output, progress, tally: Tally::default(), failed }
    }

    /// Counts and prints the end of a task.
    pub fn finished(&mut self, finished: &Finished) -> CommandResult {
        self.count(finished);
        let Tally { done, buried, released, lost } = self.tally;
        self.progress.set(done + buried + released + lost);
        let Finished { id, tube, takes, end, outcome } = finished;
        if self.output.json {
            let CommandEnd { exit, signal } = end;
            self.output.object(&json!({
                "id": id,
                "tube": tube,
                "takes": takes,
                "outcome": outcome.name(),
                "exit": exit,
                "signal": signal,
            }))?;
            return self.output.flush();
        }
        if !matches!(outcome, Outcome::Done) {
            let (end, outcome) = (end.text(), outcome.text());
            self.note(&format!("{tube} {id}: {end} at take {takes}; {outcome}"));
        }
        Ok(())
    }

    /// Prints a remark above the progress bar.
    pub fn note(&self, text: &str) {
        self.progress.note(text);
    }

    /// Prints the summary.
    pub fn end(&mut self) -> CommandResult {
        let elapsed = self.progress.elapsed();
        self.progress.end();
        let Tally { done, buried, released, lost } = self.tally;
        if self.output.json {
            return self.output.object(&json!({
                "summary": true,
                "done": done,
                "buried": buried,
                "released": released,
                "lost": lost,
                "seconds": elapsed.as_secs_f64(),
            }));
        }
        let mut text = format!("{} done", count(done, "task"));
        for (number, outcome) in [(buried, "buried"), (released, "released"), (lost, "lost")] {
            if number > 0 {
                text = format!("{text}, {number} {outcome}");
            }
        }
        note(&format!("{text} in {}", duration::show(elapsed)));
        Ok(())
    }

    fn count(&mut self, finished: &Finished) {
        let failed = self.failed.as_mut();
        if let Some(buried) = failed.and_then(|failed| failed.remove(&finished.id)) {
            // It was tried again: only the last outcome counts.
            *self.failures(buried) -= 1;
        }
        let buried = match &finished.outcome {
            Outcome::Done => {
                self.tally.done += 1;
                return;
            }
            Outcome::Lost => {
                self.tally.lost += 1;
                return;
            }
            Outcome::Unknown(_) => return,
            Outcome::Buried => true,
            Outcome::Released | Outcome::Ended | Outcome::Kept(_) => false,
        };
        *self.failures(buried) += 1;
        if let Some(failed) = &mut self.failed {
            failed.insert(finished.id, buried);
        }
    }

    fn failures(&mut self, buried: bool) -> &mut u64 {
        if buried { &mut self.tally.buried } else { &mut self.tally.released }
    }

    /// Whether a task was not done.
    pub fn has_failures(&self) -> bool {
        let Tally { buried, released, lost, .. } = self.tally;
        buried + released + lost > 0
    }
}
