//! The options of an open store, as the core uses them.

use super::schedule::Calendar;
use crate::Durability;

/// The options of the whole store. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) durability: Durability,
    pub(crate) grace: u64,
    pub(crate) max_pending_rows: usize,
    pub(crate) max_pending_bytes: usize,
    pub(crate) max_body: usize,
    /// How far ahead of the last commit a wall clock may be to be trusted at open.
    pub(crate) wall_limit: u64,
    pub(crate) trust_wall: bool,
    /// What falls due for tasks waits for the first catch-up.
    pub(crate) hold_due: bool,
    /// Reads cron expressions; `None` in a program that was built without them.
    pub(crate) calendar: Option<Calendar>,
    /// Nothing survives the process.
    pub(crate) in_memory: bool,
}
