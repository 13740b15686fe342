//! What the threads of a store tell each other, and what they have counted.

use tubewell_drivers::NEVER;

use crate::values::histogram::{self, DurationCounts};

/// What the threads do.
#[derive(Debug)]
pub(crate) struct Threads {
    /// A thread writes a checkpoint that is not a commit of its own.
    pub(crate) checkpoint_is_busy: bool,
    /// When the sweeper will wake, on running time.
    pub(crate) sweeper_wakes_at: u64,
    /// How often a commit waited because the journal was full.
    pub(crate) journal_waits: u64,
    /// How many dues of tasks this run has processed.
    pub(crate) swept: u64,
    /// How long commits to the journal took, from the write of their record to the end of the flush.
    pub(crate) flushes: DurationCounts,
    /// How long commits to the database took: checkpoints, and commits that go there directly.
    pub(crate) checkpoints: DurationCounts,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            checkpoint_is_busy: false,
            sweeper_wakes_at: NEVER,
            journal_waits: 0,
            swept: 0,
            flushes: DurationCounts::new(histogram::OF_STORAGE),
            checkpoints: DurationCounts::new(histogram::OF_STORAGE),
        }
    }
}
