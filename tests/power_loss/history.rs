//! What was asked of a store and answered, and what follows for a crash at some moment.

use std::sync::Arc;

use crate::state::Contents;

/// One change of the contents, as decided; most calls make one.
#[derive(Clone, Debug)]
pub struct Step {
    pub what: &'static str,
    /// The position of the disk when it was called.
    pub issued: usize,
    /// The position of the disk when it was answered.
    pub answered: Option<usize>,
    /// The answer means that this, and all before, is on the disk.
    pub durable: bool,
    /// The number of the commit that holds it, if the answer told.
    pub commit: Option<u64>,
    /// The largest id in the answer.
    pub id: Option<u64>,
    /// The store's time, when it was answered.
    pub now: u64,
    /// What the store holds after it.
    pub contents: Arc<Contents>,
}

/// The steps of a store, in the order in which they were decided.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub steps: Vec<Step>,
    /// Rows of a dropped or truncated tube go in commits of their own, at any time.
    pub purges: bool,
}

/// Contents that a crash may leave behind.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub what: &'static str,
    pub contents: Arc<Contents>,
    /// The store has made at least so many commits,
    pub commits_from: u64,
    /// and fewer than so many, if that is known.
    pub commits_below: u64,
}

/// What must be found after a crash at some moment.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// One of these.
    pub candidates: Vec<Candidate>,
    /// New ids are greater than this one.
    pub id: Option<u64>,
    /// No commit is later than this.
    pub now: u64,
}

impl History {
    /// What a crash leaves behind if it comes when the disk has been told so many operations.
    ///
    /// A prefix of the steps: with every step that was answered as durable, and with whatever came
    /// before that. Steps that were asked for later than this are out of the question.
    pub fn expect(&self, position: usize) -> Expectation {
        let answered = |step: &Step| step.answered.is_some_and(|answered| answered <= position);
        let least = self.steps.iter().rposition(|step| step.durable && answered(step)).unwrap_or(0);
        let most = self.steps.iter().rposition(|step| step.issued < position).unwrap_or(0);
        let most = most.max(least);
        let candidates = (least..=most).map(|last| {
            let (kept, not_kept) = self.steps.split_at(last + 1);
            let commits = |steps: &[Step]| steps.iter().filter_map(|step| step.commit).collect();
            let (before, after): (Vec<u64>, Vec<u64>) = (commits(kept), commits(not_kept));
            let below = after.into_iter().min().filter(|_| !self.purges);
            Candidate {
                what: self.steps[last].what,
                contents: self.steps[last].contents.clone(),
                commits_from: before.into_iter().max().unwrap_or(0),
                commits_below: below.unwrap_or(u64::MAX),
            }
        });
        Expectation {
            candidates: candidates.collect(),
            id: self.steps.iter().filter(|step| answered(step)).filter_map(|step| step.id).max(),
            now: self.steps[most].now,
        }
    }
}
