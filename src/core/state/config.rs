//! The options of an open store, as the core uses them.

use crate::Durability;

/// What holds for the whole store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) durability: Durability,
    pub(crate) grace: u64,
    pub(crate) max_pending_rows: usize,
    pub(crate) max_pending_bytes: usize,
    pub(crate) max_body: usize,
    /// How far the wall clock may be beyond the last commit to be believed at open.
    pub(crate) wall_limit: u64,
    pub(crate) trust_wall: bool,
}
