//! The interface of a peer, and the work that it is given.
//!
//! There are two kinds of adapters. A library whose calls are plain functions implements `Verbs` of
//! `threads.rs`, which runs the phases in threads. A peer that is asynchronous or a separate
//! process implements [`Queue`] and runs each phase itself.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ledger::Ledger;

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The number of attempts that a job has.
pub const ATTEMPTS: u32 = 3;
/// The message of each failure.
pub const FAILURE: &str = "the first attempt fails";
/// The result of a job.
pub const RESULT: &str = "0123456789abcdef";
/// The number of newest results that are kept, if the peer can limit it.
pub const RESULTS_KEPT: u32 = 10_000;

/// A kind of queue that can be measured.
pub trait Peer {
    fn about(&self) -> About;

    /// Why it cannot run here ("not installed: …"). Such a peer is skipped.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether rows of this shape are measured.
    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::WakeUp)
    }

    /// Whether jobs are measured with this shape: tasks with a limit of [`ATTEMPTS`], failures, and
    /// results that are kept. The peer must be able to do all of it, or its remarks say what it does
    /// instead.
    fn does_jobs(&self, shape: Shape) -> bool {
        let _ = shape;
        false
    }

    /// Makes a new queue in the empty directory `dir`.
    ///
    /// # Errors
    /// The queue cannot be made. The row fails with this error.
    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>>;
}

/// Properties of a peer that the report shows with its figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name and mode, such as `sqlite/full`.
    pub name: String,
    pub version: String,
    pub class: Class,
    pub loses: Losses,
    /// How its callers run: threads, tasks of a runtime, fibers, connections.
    pub callers: String,
    /// How a consumer waits for a task.
    pub waits: String,
    /// Other facts that matter for its figures; may be empty.
    pub note: String,
}

/// The durability class. Peers are compared only within their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A call returns after its flush.
    Durable,
    /// Acknowledged calls survive a killed process, not a power cut.
    ProcessSafe,
    /// It flushes from time to time, not before each acknowledgement.
    Weaker,
    /// Nothing survives the process.
    Memory,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Durable, Class::ProcessSafe, Class::Weaker, Class::Memory];

    pub fn title(self) -> &'static str {
        match self {
            Class::Durable => "Durable: a call returns after its flush",
            Class::ProcessSafe => {
                "Process-safe: acknowledged calls survive a killed process, not a power cut"
            }
            Class::Weaker => "Weaker: flushes from time to time, not before each acknowledgement",
            Class::Memory => "Memory: nothing survives the process",
        }
    }
}

/// Which acknowledged changes are lost in each kind of failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    pub process_killed: String,
    pub os_crash: String,
    pub power_cut: String,
}

impl Losses {
    pub fn nothing() -> Losses {
        Losses::new("nothing", "nothing", "nothing")
    }

    pub fn new(process_killed: &str, os_crash: &str, power_cut: &str) -> Losses {
        Losses {
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
    /// Concurrent callers, each waiting for its answer: threads, tasks or fibers.
    Callers(usize),
    /// One thread that keeps this many calls in flight.
    Tickets(usize),
    /// One caller that puts, takes and acks this many tasks with each call.
    Batches(usize),
    /// A consumer that waits, and single tasks with idle periods between them.
    WakeUp,
}

impl Shape {
    /// The maximum number of tasks that callers have at the same time.
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
            Work::Job => "job",
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

/// What each caller repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Puts a task.
    Put,
    /// Takes the next task and acks it; stops when there is none.
    TakeAck,
    /// Puts a task, takes one and acks it.
    Cycle,
    /// Puts a task with a limit of attempts, takes a task, reports a failure, takes a task again and
    /// acks it with a result that is kept. Callers take any task: they fail one that is delivered
    /// for the first time, and ack one that is delivered again.
    Job,
}

/// The row that a queue is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub shape: Shape,
    /// Bytes of a body.
    pub body: usize,
    /// Whether its tasks are jobs ([`Work::Job`]).
    pub jobs: bool,
}

/// One phase: the work, the callers and the duration.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub work: Work,
    pub shape: Shape,
    /// No task is started after this time. [`Work::TakeAck`] ends earlier if no task is left.
    pub limit: Duration,
}

/// One wake-up phase: how many tasks are put, and how often.
#[derive(Clone, Copy, Debug)]
pub struct WakePlan {
    pub tasks: usize,
    /// The mean time from one put to the next.
    pub pause: Duration,
}

/// The result of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Tasks put, or acked, or both; jobs that are done.
    pub tasks: u64,
    /// From the first call to the last answer.
    pub elapsed: Duration,
}

/// Flushes and bytes written since the queue was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub flushes: u64,
    pub bytes_written: u64,
}

/// An open queue.
pub trait Queue {
    /// Runs a phase and returns when the last caller has its answer. Each body comes from the
    /// ledger, and the ledger checks each body that is taken. A phase of jobs leaves no task.
    ///
    /// # Errors
    /// A call failed. The ledger records wrong, lost and duplicate bodies.
    fn run(&self, plan: &Plan, ledger: &Ledger) -> Result<Outcome>;

    /// Puts single tasks for a waiting consumer, each one `pause` after the ack of the previous
    /// one. Returns, for each task, the nanoseconds from the return of the put until the consumer
    /// had the task; negative if the consumer had it first. With a peer that polls, a put need not
    /// wait for the previous ack.
    ///
    /// # Errors
    /// A call failed, or a task was not delivered.
    fn wake_up(&self, plan: &WakePlan, ledger: &Ledger) -> Result<Vec<i64>>;

    /// Takes and acks all remaining tasks, untimed, for at most `limit`.
    ///
    /// # Errors
    /// As `run`.
    fn drain(&self, shape: Shape, limit: Duration, ledger: &Ledger) -> Result<()> {
        self.run(&Plan { work: Work::TakeAck, shape, limit }, ledger).map(drop)
    }

    /// Flushes and bytes written, if the peer counts them.
    fn counters(&self) -> Option<Counters> {
        None
    }

    /// Closes the queue, and ends the processes and threads that it started.
    ///
    /// # Errors
    /// The queue cannot be closed cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}
