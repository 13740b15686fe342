//! What `work` tells about the tasks: each failure as it happens (or each task, as JSON), and the
//! sum at the end.

use std::collections::HashMap;

use serde_json::json;

use super::settle::{Fate, How, Settled};
use crate::duration;
use crate::failure::Outcome;
use crate::output::{Output, count, note};
use crate::progress::Progress;

/// How many tasks came to which end.
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
    /// In a run that ends by itself: the tasks that failed and have not been done since, and
    /// whether they are buried. A worker that runs for months counts failures instead.
    failed: Option<HashMap<u64, bool>>,
}

impl<'a> Report<'a> {
    pub fn new(output: &'a mut Output, progress: Progress, once: bool) -> Report<'a> {
        let failed = once.then(HashMap::new);
        Report { output, progress, tally: Tally::default(), failed }
    }

    /// A task came to its end.
    pub fn settled(&mut self, settled: &Settled) -> Outcome {
        self.count(settled);
        let Tally { done, buried, released, lost } = self.tally;
        self.progress.set(done + buried + released + lost);
        let Settled { id, tube, takes, how, fate } = settled;
        if self.output.json {
            let How { exit, signal } = how;
            self.output.object(&json!({
                "id": id,
                "tube": tube,
                "takes": takes,
                "outcome": fate.name(),
                "exit": exit,
                "signal": signal,
            }))?;
            return self.output.flush();
        }
        if !matches!(fate, Fate::Done) {
            let (how, fate) = (how.explain(), fate.explain());
            self.note(&format!("{tube} {id}: {how} at take {takes}; {fate}"));
        }
        Ok(())
    }

    /// A remark that does not spoil the bar.
    pub fn note(&self, text: &str) {
        self.progress.note(text);
    }

    /// The sum of it all.
    pub fn end(&mut self) -> Outcome {
        let took = self.progress.elapsed();
        self.progress.end();
        let Tally { done, buried, released, lost } = self.tally;
        if self.output.json {
            return self.output.object(&json!({
                "summary": true,
                "done": done,
                "buried": buried,
                "released": released,
                "lost": lost,
                "seconds": took.as_secs_f64(),
            }));
        }
        let mut text = format!("{} done", count(done, "task"));
        for (number, what) in [(buried, "buried"), (released, "released"), (lost, "lost")] {
            if number > 0 {
                text = format!("{text}, {number} {what}");
            }
        }
        note(&format!("{text} in {}", duration::show(took)));
        Ok(())
    }

    fn count(&mut self, settled: &Settled) {
        if let Some(buried) = self.failed.as_mut().and_then(|failed| failed.remove(&settled.id)) {
            // It was tried again: only its last end counts.
            *self.failures(buried) -= 1;
        }
        let buried = match &settled.fate {
            Fate::Done => {
                self.tally.done += 1;
                return;
            }
            Fate::Lost => {
                self.tally.lost += 1;
                return;
            }
            Fate::Broken(_) => return,
            Fate::Buried => true,
            Fate::Released | Fate::Ended | Fate::Kept => false,
        };
        *self.failures(buried) += 1;
        if let Some(failed) = &mut self.failed {
            failed.insert(settled.id, buried);
        }
    }

    fn failures(&mut self, buried: bool) -> &mut u64 {
        if buried { &mut self.tally.buried } else { &mut self.tally.released }
    }

    /// Whether some tasks did not come to a good end.
    pub fn has_failures(&self) -> bool {
        let Tally { buried, released, lost, .. } = self.tally;
        buried + released + lost > 0
    }
}
