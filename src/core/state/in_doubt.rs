//! A transaction of the application whose outcome is not known.

use std::ops::Range;

/// A transaction whose commit is being written, or has failed.
#[derive(Debug)]
pub(crate) struct InDoubt {
    /// The number of its commit.
    pub(in crate::core) commit: u64,
    /// Its changes, among those in flight.
    pub(in crate::core) changes: Range<usize>,
    /// How many endings were noted for its tasks before.
    pub(in crate::core) noted: Vec<(u64, usize)>,
}
