//! What the threads of a store tell each other, and what they have counted.

use tubewell_drivers::NEVER;

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
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { checkpoint_is_busy: false, sweeper_wakes_at: NEVER, journal_waits: 0, swept: 0 }
    }
}
