//! The protocol of a peer that runs its phases in a separate process. Requests and answers are
//! lines of JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A request to run one phase.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// `put`, `take-ack`, `cycle`, `job` or `wake-up`.
    pub work: String,
    /// Number of concurrent callers.
    pub callers: usize,
    /// Number of tasks, for `wake-up`.
    pub tasks: usize,
    /// Duration of the phase; for `wake-up`, mean time from one put to the next.
    pub seconds: f64,
    /// Bytes of a body.
    pub body: usize,
}

impl Request {
    /// Expected duration.
    pub fn span(&self) -> Duration {
        let rounds = u32::try_from(self.tasks.max(1)).unwrap_or(u32::MAX);
        Duration::from_secs_f64(self.seconds) * rounds
    }
}

/// The result of a phase.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub tasks: u64,
    pub seconds: f64,
    /// Bodies put, and intact bodies taken, since the previous answer.
    pub put: u64,
    pub taken: u64,
    /// For `wake-up`: time from the return of each put until the consumer had the task.
    pub nanos: Vec<i64>,
    /// Descriptions of wrong and duplicate bodies.
    pub faults: Vec<String>,
    /// Why the phase failed.
    pub error: Option<String>,
}
