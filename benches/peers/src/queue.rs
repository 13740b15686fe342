//! What a peer is, and what it is asked to do.
//!
//! An adapter has two ways. A library whose calls are plain functions implements
//! [`Verbs`](crate::threads::Verbs), and threads do the rest. One that is asynchronous, or lives in
//! another process, implements [`Queue`] and runs each phase in its own manner.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A kind of queue that can be measured.
pub trait Peer {
    fn about(&self) -> About;

    /// Why it cannot run here, in words ("not installed: …"); such a peer is skipped.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether it can do work of this shape, and whether a row of it says anything.
    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::WakeUp)
    }

    /// A fresh queue in this empty directory.
    ///
    /// # Errors
    /// It cannot be made; the row says so.
    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>>;
}

/// What is said about a peer beside its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name and mode, as `sqlite/full`.
    pub name: String,
    pub version: String,
    pub class: Class,
    pub loses: Loses,
    /// How its callers run: threads, tasks of a runtime, fibers, connections.
    pub callers: String,
    /// How a consumer waits for a task.
    pub waits: String,
    /// What else a reader must know to judge its figures; may be empty.
    pub note: String,
}

/// Peers are compared within their class only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It flushes before it answers.
    Durable,
    /// What was answered outlasts the process, not the power.
    ProcessSafe,
    /// It flushes now and then, whatever was answered.
    Weaker,
    /// Nothing outlasts the process.
    Memory,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Durable, Class::ProcessSafe, Class::Weaker, Class::Memory];

    pub fn title(self) -> &'static str {
        match self {
            Class::Durable => "Durable: flushes before it answers",
            Class::ProcessSafe => {
                "Process-safe: what was answered outlasts the process, not the power"
            }
            Class::Weaker => "Weaker: flushes now and then, whatever was answered",
            Class::Memory => "Memory: nothing outlasts the process",
        }
    }
}

/// What is lost of what was answered, in a few words each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loses {
    pub process_killed: String,
    pub os_crash: String,
    pub power_cut: String,
}

impl Loses {
    pub fn nothing() -> Loses {
        Loses::all("nothing", "nothing", "nothing")
    }

    pub fn all(process_killed: &str, os_crash: &str, power_cut: &str) -> Loses {
        Loses {
            process_killed: process_killed.into(),
            os_crash: os_crash.into(),
            power_cut: power_cut.into(),
        }
    }
}

/// How the callers of a row are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// So many callers at once, each waiting for its answer: threads, tasks or fibers.
    Callers(usize),
    /// One thread that keeps so many calls in flight.
    Tickets(usize),
    /// One caller that puts, takes and acks so many tasks with each call.
    Batches(usize),
    /// One task now and then, and a consumer that waits for it.
    WakeUp,
}

impl Shape {
    /// How many tasks are in the hands of callers at the same time.
    pub fn width(self) -> usize {
        match self {
            Shape::Callers(n) | Shape::Tickets(n) | Shape::Batches(n) => n,
            Shape::WakeUp => 1,
        }
    }
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Work::Put => "put",
            Work::TakeAck => "take+ack",
            Work::Cycle => "cycle",
        }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shape::Callers(1) => write!(f, "1 caller"),
            Shape::Callers(n) => write!(f, "{n} callers"),
            Shape::Tickets(1) => write!(f, "1 ticket"),
            Shape::Tickets(n) => write!(f, "{n} tickets"),
            Shape::Batches(n) => write!(f, "batches of {n}"),
            Shape::WakeUp => write!(f, "wake-up"),
        }
    }
}

/// What each caller does, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Puts a task.
    Put,
    /// Takes the next task and acks it; stops when there is none.
    TakeAck,
    /// Puts a task, takes one and acks it.
    Cycle,
}

/// What a queue is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub shape: Shape,
    /// Bytes of a body.
    pub body: usize,
}

/// One phase: what is done, by whom, for how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub work: Work,
    pub shape: Shape,
    /// No further task is begun after this time; [`Work::TakeAck`] ends earlier if nothing is left.
    pub limit: Duration,
}

/// One phase of waiting: what is put, and when.
#[derive(Clone, Copy, Debug)]
pub struct WakePlan {
    pub tasks: usize,
    /// The mean time from one put to the next.
    pub pause: Duration,
}

/// What came of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Tasks put, or acked, or both.
    pub tasks: u64,
    /// From the first call to the last answer.
    pub elapsed: Duration,
}

/// What went to the disk since the queue was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub flushes: u64,
    pub bytes_written: u64,
}

/// An open queue.
pub trait Queue {
    /// Does this work and answers when the last caller has its answer. Each body comes from the
    /// ledger, and each body taken is shown to it.
    ///
    /// # Errors
    /// A call failed. Bodies that are wrong, lost or doubled are the ledger's affair.
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome>;

    /// A consumer waits while tasks are put one by one, each a pause after the one before was acked.
    /// Answers, for each, the nanoseconds from the moment that its put returned until the consumer
    /// had it; negative if it had it before. A peer that polls may put them without looking back.
    ///
    /// # Errors
    /// A call failed, or a task did not come.
    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>>;

    /// Takes and acks all that is left, not timed; stops after so long.
    ///
    /// # Errors
    /// As `run`.
    fn drain(&self, shape: Shape, limit: Duration, ledger: &Ledger) -> Result<()> {
        self.run(&Plan { work: Work::TakeAck, shape, limit }, ledger).map(drop)
    }

    /// What went to the disk, if the peer knows.
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// Closes it, and ends what it started.
    ///
    /// # Errors
    /// It cannot be closed cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}
