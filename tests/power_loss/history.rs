//! The calls made to a store with their answers, and what a crash at a given position may leave.

use std::sync::Arc;

use tubewell::ClaimToken;

use crate::state::Contents;

/// One change of the contents. Most calls make one.
#[derive(Clone, Debug)]
pub struct Step {
    pub what: &'static str,
    /// The disk's position at the call.
    pub issued: usize,
    /// The disk's position at the answer.
    pub answered: Option<usize>,
    /// The disk's position from which on a power cut keeps this step and all before it: that of the
    /// answer of a flushed call, or of a later flush.
    pub durable_from: Option<usize>,
    /// The time by which the store has to flush this step, in microseconds.
    pub flush_by: Option<u64>,
    /// The number of its commit, if the answer has one.
    pub commit: Option<u64>,
    /// The largest id in the answer.
    pub id: Option<u64>,
    /// The store's time at the answer, in microseconds.
    pub now: u64,
    /// The contents after the step.
    pub contents: Arc<Contents>,
}

/// The steps of a store, in the order in which they took effect.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub steps: Vec<Step>,
    /// Whether rows of dropped or truncated tubes may be purged, in commits of their own, at any
    /// time.
    pub purges: bool,
    /// The tokens of all claims that were parked, also of those that have ended.
    pub tokens: Vec<ClaimToken>,
    /// The disk's position at the answer and the commit of each receipt of a change in memory only.
    /// No crash loses that commit.
    pub receipts: Vec<(usize, u64)>,
}

/// Contents that a crash may leave.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub what: &'static str,
    pub contents: Arc<Contents>,
    /// The least number of commits,
    pub commits_from: u64,
    /// and the number that is not reached; `u64::MAX` if it is not known.
    pub commits_below: u64,
}

/// What a check must find after a crash at some position.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The contents must be one of these.
    pub candidates: Vec<Candidate>,
    /// New ids must be greater than this one.
    pub id: Option<u64>,
    /// The latest time at which a commit can have been made.
    pub now: u64,
    /// Tokens of which the store may accept those of parked claims only.
    pub tokens: Vec<ClaimToken>,
    /// The least commit with which the store may open.
    pub opened_at: u64,
}

impl History {
    /// What a crash after this many operations of the disk may leave.
    ///
    /// The candidates are prefixes of the steps. Each has the last step that was durable by then, and
    /// none has a step that was called after the crash.
    pub fn expect(&self, position: usize) -> Expectation {
        let answered = |step: &Step| step.answered.is_some_and(|answered| answered <= position);
        let told = |receipt: &&(usize, u64)| receipt.0 <= position;
        let durable = |step: &Step| step.durable_from.is_some_and(|from| from <= position);
        let least = self.steps.iter().rposition(durable).unwrap_or(0);
        let most = self.steps.iter().rposition(|step| step.issued < position).unwrap_or(0);
        let most = most.max(least);
        let now = self.steps[most].now;
        let candidates = (least..=most).map(|last| {
            let (kept, not_kept) = self.steps.split_at(last + 1);
            let commits = |steps: &[Step]| steps.iter().filter_map(|step| step.commit).collect();
            let (before, after): (Vec<u64>, Vec<u64>) = (commits(kept), commits(not_kept));
            let below = after.into_iter().min().filter(|_| !self.purges);
            Candidate {
                what: self.steps[last].what,
                contents: self.steps[last].contents.of_next_run(now),
                commits_from: before.into_iter().max().unwrap_or(0),
                commits_below: below.unwrap_or(u64::MAX),
            }
        });
        Expectation {
            candidates: candidates.collect(),
            id: self.steps.iter().filter(|step| answered(step)).filter_map(|step| step.id).max(),
            now,
            tokens: self.tokens.clone(),
            opened_at: self.receipts.iter().filter(told).map(|it| it.1).max().unwrap_or(0),
        }
    }
}
