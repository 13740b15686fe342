//! What is said to a peer that runs its phases in a process of its own, and what it answers: a
//! line of JSON each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// `put`, `take-ack`, `cycle` or `wake-up`.
    pub work: String,
    /// How many at once.
    pub callers: usize,
    /// How many tasks; for `wake-up`.
    pub tasks: usize,
    /// How long; for `wake-up`, from one put to the next.
    pub seconds: f64,
    /// Bytes of a body.
    pub body: usize,
}

impl Request {
    /// How long it takes, if nothing is amiss.
    pub fn span(&self) -> Duration {
        let rounds = u32::try_from(self.tasks.max(1)).unwrap_or(u32::MAX);
        Duration::from_secs_f64(self.seconds) * rounds
    }
}

/// What came of it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub tasks: u64,
    pub seconds: f64,
    /// Bodies put, and sound ones taken, since the answer before.
    pub put: u64,
    pub taken: u64,
    /// Of `wake-up`: from the moment that each put returned until the consumer had the task.
    pub nanos: Vec<i64>,
    /// What was wrong with the bodies that were taken.
    pub faults: Vec<String>,
    /// Why there is no more than this.
    pub error: Option<String>,
}
