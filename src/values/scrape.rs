//! What a store says of itself at a scrape: the store, and each of its tubes.

use std::sync::Arc;

use crate::values::counters::Counters;
use crate::values::histogram::Histogram;
use crate::{Durability, Statistics};

/// The store at a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreScrape {
    /// The release of the process that owns the store.
    pub(crate) version: String,
    /// The id of the store in hexadecimal digits; empty if its file cannot be read.
    pub(crate) id: String,
    /// Whether the storage has failed.
    pub(crate) has_failed: bool,
    /// Whether the wall clock is not trusted.
    pub(crate) is_clock_untrusted: bool,
    /// That of tubes without a durability of their own.
    pub(crate) durability: Durability,
    /// Those of the file are zero without [`FileScrape`].
    pub(crate) counters: Counters,
    /// `None` while there is no open file: the storage has failed.
    pub(crate) file: Option<FileScrape>,
    /// How long commits to the journal took.
    pub(crate) flushes: Histogram,
    /// How long commits to the database took.
    pub(crate) checkpoints: Histogram,
}

/// The file of a store at a scrape, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileScrape {
    /// The whole file, the journal included.
    pub(crate) size: u64,
    /// The records of the journal that the database may not have.
    pub(crate) journal: u64,
    /// What puts leave free.
    pub(crate) reserve: u64,
    /// What can be put before puts are refused; `None` if the free space is not known.
    pub(crate) headroom: Option<u64>,
}

/// A tube at a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TubeScrape {
    pub(crate) name: Arc<str>,
    pub(crate) statistics: Statistics,
    pub(crate) waiting_takes: u64,
    pub(crate) waiting_puts: u64,
    pub(crate) is_paused: bool,
    /// The most tasks; 0 has no limit.
    pub(crate) capacity: u64,
    /// How long the task has been ready that is ready for the longest time, in microseconds, of those that
    /// were looked at. `None` if none of them is.
    pub(crate) oldest_ready: Option<u64>,
    /// In a tube with metrics.
    pub(crate) durations: Option<TaskDurations>,
}

/// How long the tasks of a tube have waited and run since the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskDurations {
    pub(crate) waits: Histogram,
    pub(crate) runs: Histogram,
}
