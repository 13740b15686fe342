//! The format of the recorded files.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorFile {
    pub scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    pub driver: String,
    pub options: RecordedTubeOptions,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedTubeOptions {
    pub pri: Option<u32>,
    pub ttl: Option<f64>,
    pub ttr: Option<f64>,
    pub capacity: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    Put {
        session: u32,
        data: String,
        options: PutOptions,
        want: Option<Answer>,
    },
    Take {
        session: u32,
        timeout: f64,
        want: Option<Answer>,
    },
    Ack {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Release {
        session: u32,
        task: Option<usize>,
        options: ReleaseOptions,
        want: Option<Answer>,
    },
    Touch {
        session: u32,
        task: Option<usize>,
        seconds: f64,
        want: Option<Answer>,
    },
    Bury {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Kick {
        session: u32,
        count: u64,
        want: Option<Answer>,
    },
    Delete {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    Peek {
        session: u32,
        task: Option<usize>,
        want: Option<Answer>,
    },
    ReleaseAll {
        session: Option<u32>,
    },
    Stats {
        session: Option<u32>,
        want: Option<Answer>,
    },
    Advance {
        seconds: f64,
    },
    Truncate {
        session: Option<u32>,
    },
    Disconnect {
        session: u32,
    },
    /// A waiter has a session of its own; the recorded session is ignored.
    TakeBegin {
        #[serde(rename = "session")]
        _session: Option<u32>,
        waiter: u32,
        timeout: f64,
    },
    TakeResult {
        waiter: u32,
        want: Option<Answer>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutOptions {
    pub pri: Option<u32>,
    pub ttl: Option<f64>,
    pub ttr: Option<f64>,
    pub delay: Option<f64>,
    pub utube: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseOptions {
    pub delay: Option<f64>,
}

/// The answer of a step, expected or actual.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The ordinal, the state and the data of a task.
    Task(usize, String, String),
    /// Always `true`.
    None(bool),
    Error(String),
    Count(u64),
    Stats(RecordedStatistics),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedStatistics {
    pub tasks: BTreeMap<String, u64>,
    pub calls: BTreeMap<String, u64>,
}

/// A recorded time in seconds, rounded to the microsecond.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates: a negative time is zero, a too long one is the maximum"
)]
pub fn duration(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).round() as u64)
}
